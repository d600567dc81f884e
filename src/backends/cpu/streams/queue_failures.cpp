// The failures of one queue.
#include "backends/cpu/streams/queue_failures.hpp"

#include <utility>

namespace weir::cpu {

void QueueFailures::fail(std::uint64_t sequence, std::shared_ptr<const Error> error) noexcept {
  SpinGuard guard(lock_);
  if (failure_.error) return;
  failure_ = {sequence, std::move(error)};
  ever_failed_.store(true, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
}

std::shared_ptr<const Error> QueueFailures::inherited_at(std::uint64_t sequence,
                                                         std::uint32_t reports_seen) const noexcept {
  if (!ever_failed_.load(std::memory_order_acquire)) return nullptr;
  SpinGuard guard(lock_);
  if (failure_.error && failure_.sequence <= sequence) return failure_.error;
  for (const Reported& past : reported_) {
    if (past.number > reports_seen && past.failure.sequence <= sequence && sequence <= past.until)
      return past.failure.error;
  }
  return nullptr;
}

std::shared_ptr<const Error> QueueFailures::unreported_at(std::uint64_t sequence) const noexcept {
  if (!failed()) return nullptr;
  SpinGuard guard(lock_);
  return failure_.error && failure_.sequence <= sequence ? failure_.error : nullptr;
}

std::shared_ptr<const Error> QueueFailures::report(std::uint64_t sequence, std::uint64_t skipped_until) noexcept {
  if (!failed()) return nullptr;
  Reported forgotten;  // goes behind the lock: its error may hold an exception of the user's
  SpinGuard guard(lock_);
  if (!failure_.error || failure_.sequence > sequence) return nullptr;
  std::shared_ptr<const Error> error = failure_.error;
  const std::uint32_t number = reports_.load(std::memory_order_relaxed) + 1;
  forgotten = std::exchange(reported_[number % most_remembered],
                            Reported{std::exchange(failure_, Failure{}), skipped_until, number});
  reports_.store(number, std::memory_order_release);
  failed_.store(false, std::memory_order_release);
  return error;
}

}  // namespace weir::cpu
