// Events on the CPU: a place in a queue's order. Recording copies two words; nobody sleeps on an event.
#pragma once

#include "backend.hpp"
#include "backends/cpu/cpu_queue.hpp"
#include "backends/cpu/futex.hpp"

namespace weir::cpu {

struct CpuEvent final : detail::EventState {
  /// Takes the queue's present end. Earlier waiters keep what they took (R72).
  void record(CpuQueue& queue, const Origin& command);
  /// Makes `waiting` wait for the last record so far; nothing if there is none (R69).
  void hold(CpuQueue& waiting, const Origin& command);
  bool done();
  void synchronize(const char* operation, SourceLocation where);
  void close();

  struct Mark {
    CpuQueue* queue = nullptr;  ///< null: never recorded
    std::uint64_t sequence = 0;
    Stamp* stamp = nullptr;  ///< not counted: valid while the event is not recorded again or closed
  };
  Mark mark();

 private:
  SpinLock lock_;
  Mark mark_;  ///< guarded by lock_
};

}  // namespace weir::cpu
