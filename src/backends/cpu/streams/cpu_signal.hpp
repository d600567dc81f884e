// Waits between a queue here and another backend, in both directions. No thread sleeps in either.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "backend.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

/// What a queue waits for that waits for another backend. The queue's record and the signal own it together.
struct Arrival {
  /// Whether `queue` is parked until this was given; false if it was.
  bool park(CpuQueue& queue) {
    CpuQueue* nobody = nullptr;
    return parked_.compare_exchange_strong(nobody, &queue, std::memory_order_acq_rel, std::memory_order_acquire);
  }
  void give(std::shared_ptr<const Error> failure, StreamId from) noexcept {
    failure_ = std::move(failure);
    from_ = from;
    CpuQueue* parked = parked_.exchange(given(), std::memory_order_acq_rel);
    if (parked != nullptr) parked->resume();
  }
  /// Once it was given.
  const std::shared_ptr<const Error>& failure() const { return failure_; }
  /// The stream that has failed by it, 0 if nobody knows.
  StreamId from() const { return from_; }
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  static CpuQueue* given() { return reinterpret_cast<CpuQueue*>(std::uintptr_t{1}); }
  std::atomic<int> owners_{2};
  std::atomic<CpuQueue*> parked_{nullptr};
  std::shared_ptr<const Error> failure_;
  StreamId from_ = 0;
};

/// What gives it.
class CpuSignal final : public detail::Signal {
 public:
  explicit CpuSignal(Arrival& arrival) : arrival_(arrival) {}
  void give(std::shared_ptr<const Error> failure, StreamId from) noexcept override {
    arrival_.give(std::move(failure), from);
    arrival_.release();
  }

 private:
  Arrival& arrival_;
};

/// A signal that a command's completion gives.
struct SignalWaiter : Waiter {
  std::unique_ptr<detail::Signal> signal;
  CpuQueue* source = nullptr;
  std::uint32_t reports_seen = 0;  ///< of the source's failures, when the wait was enqueued

  void give() noexcept;
};

/// Gives them all; they are gone then.
void give_signals(Waiter* first) noexcept;

}  // namespace weir::cpu
