// Signals: given by a queue here, or waited for by one.
#include "backends/cpu/streams/cpu_signal.hpp"

#include <chrono>
#include <mutex>

#include "backends/cpu/cpu_device.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
}  // namespace

void SignalWaiter::give() noexcept {
  const std::shared_ptr<const Failure> failure = source->failure_at(number, reports_seen);
  signal->give(failure ? std::shared_ptr<const Error>(failure, &failure->error) : nullptr);
}

void give_signals(Waiter* first) noexcept {
  while (first != nullptr) {
    const std::unique_ptr<SignalWaiter> waiter(static_cast<SignalWaiter*>(first));
    first = waiter->next;
    waiter->give();
  }
}

void CpuQueue::signal_after(std::uint64_t sequence, std::unique_ptr<detail::Signal>& signal) {
  auto waiter = std::make_unique<SignalWaiter>();
  waiter->number = sequence;
  waiter->signal = std::move(signal);
  waiter->source = this;
  waiter->reports_seen = reports_.load(std::memory_order_acquire);
  if (join(*waiter)) {
    static_cast<void>(waiter.release());  // whoever completes the command has it
  } else {
    waiter->give();
  }
}

void CpuQueue::resume() {
  if (unpark()) pool_.push(this, level());
}

/// True if the queue belongs to nobody until the signal is given; false if it was.
bool CpuQueue::park(const SignalRecord& wait) { return wait.arrival->park(*this); }

void CpuQueue::finish_signal(SignalRecord& record) {
  if (const Error* failure = record.arrival->failure(); failure != nullptr && !internal_) inherit(*failure);
  record.arrival->release();
  if (record.id != 0) detail::report_ran(record.id, stream_, {Clock::now(), Clock::now()});
}

}  // namespace weir::cpu
