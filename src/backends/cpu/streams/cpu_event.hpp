// Events on the CPU: a place in a queue's order. Recording copies two words; nobody sleeps on an event.
#pragma once

#include "backend.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/workers/futex.hpp"

namespace weir::cpu {

class CpuDevice;

struct CpuEvent final : detail::EventState {
  explicit CpuEvent(CpuDevice& owner) : owner_(owner) {}

  /// Takes the queue's present end. Earlier waiters keep what they took (R72).
  void record(CpuQueue& queue, const Origin& command);
  /// Makes `waiting` wait for the last record so far; nothing if there is none (R69).
  void hold(CpuQueue& waiting, const Origin& command);
  bool is_recorded() override { return mark().queue != nullptr; }
  bool done() override;
  bool passed() override;
  void signal_after(std::unique_ptr<detail::Signal>& signal, SourceLocation) override;
  void synchronize(const char* operation, SourceLocation where) override;
  Milliseconds elapsed_since(detail::EventState& start, SourceLocation where) override;
  void close() noexcept override;

  struct Mark {
    CpuQueue* queue = nullptr;  ///< null: never recorded
    std::uint64_t sequence = 0;
    Stamp* stamp = nullptr;  ///< not counted: another thread's record or close may end it, but for one that is kept
  };
  Mark mark() const;
  /// A mark whose stamp stays, whatever others do to the event.
  class Kept {
   public:
    explicit Kept(const Mark& mark) : mark_(mark) {}
    ~Kept() { release_stamp(mark_.stamp); }
    Kept(const Kept&) = delete;
    Kept& operator=(const Kept&) = delete;
    const Mark* operator->() const { return &mark_; }

   private:
    Mark mark_;
  };
  Kept keep();
  /// A graph is about to record it: reached when `timeline` is. Shares the stamp.
  void record_elsewhere(CpuQueue& timeline, std::uint64_t sequence, Stamp* stamp);

 private:
  /// Of writers. Returns the version to go on from.
  std::uint32_t lock();
  /// Returns the stamp that was there.
  Stamp* replace(const Mark& next);

  CpuDevice& owner_;
  // Readers take no lock, which waits are made of: they look at the version before and after. It is odd during a change.
  std::atomic<std::uint32_t> version_{0};
  std::atomic<CpuQueue*> queue_{nullptr};
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<Stamp*> stamp_{nullptr};
};

}  // namespace weir::cpu
