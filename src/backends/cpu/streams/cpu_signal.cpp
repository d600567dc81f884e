// Signals: given by a queue here, or waited for by one.
#include "backends/cpu/streams/cpu_signal.hpp"

#include <chrono>

#include "backends/cpu/cpu_device.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
}  // namespace

void SignalWaiter::give() noexcept {
  signal->give(source->failures().inherited_at(number, reports_seen), source->stream());
}

void give_signals(Waiter* first) noexcept {
  while (first != nullptr) {
    const std::unique_ptr<SignalWaiter> waiter(static_cast<SignalWaiter*>(first));
    first = waiter->next;
    waiter->give();
  }
}

void CpuQueue::signal_behind(std::uint64_t sequence, std::unique_ptr<detail::Signal>& signal) {
  auto waiter = std::make_unique<SignalWaiter>();
  waiter->number = sequence;
  waiter->signal = std::move(signal);
  waiter->source = this;
  waiter->reports_seen = failures_.reports();
  if (join(*waiter)) {
    static_cast<void>(waiter.release());  // whoever completes the command has it
  } else {
    waiter->give();
  }
}

void CpuQueue::signal_after(StreamId owner, std::unique_ptr<detail::Signal>& signal) {
  const std::uint64_t last = tail();  // first: a later owner's commands come with its number
  if (stream() == owner) {
    signal_behind(last, signal);
  } else {
    std::exchange(signal, nullptr)->give();
  }
}

void CpuQueue::resume() {
  if (unpark()) pool_.push(this, level());
}

/// True if the queue belongs to nobody until the signal is given; false if it was.
bool CpuQueue::park(const SignalRecord& wait) { return wait.arrival->park(*this); }

void CpuQueue::finish_signal(SignalRecord& record) {
  if (const auto& failure = record.arrival->failure(); failure && !internal_) {
    detail::report_failed(stream(), record.arrival->from(), *failure);
    failures_.fail(done_ + 1, failure);
  }
  record.arrival->release();
  if (record.id != 0) detail::report_ran(record.id, stream(), {Clock::now(), Clock::now()});
}

}  // namespace weir::cpu
