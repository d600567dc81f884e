// The failures of one queue.
#include "backends/cpu/streams/queue_failures.hpp"

#include <utility>

namespace weir::cpu {

void QueueFailures::fail(std::uint64_t sequence, std::shared_ptr<const Error> error) noexcept {
  SpinGuard guard(lock_);
  if (failure_.error) return;
  failure_ = {sequence, std::move(error)};
  ever_failed_.store(true, std::memory_order_release);
  unreported_.store(true, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
}

const QueueFailures::Lost* QueueFailures::find_lost(std::uint64_t sequence) const noexcept {
  const Lost* lost = lost_.get();
  while (lost != nullptr && (sequence < lost->failure.sequence || lost->until < sequence)) lost = lost->next.get();
  return lost;
}

bool QueueFailures::is_lost(std::uint64_t sequence) const noexcept {
  SpinGuard guard(lock_);
  return find_lost(sequence) != nullptr;
}

std::shared_ptr<const Error> QueueFailures::find_inherited(std::uint64_t sequence,
                                                           std::uint32_t reports_seen) const noexcept {
  SpinGuard guard(lock_);
  if (failure_.error && failure_.sequence <= sequence) return failure_.error;
  if (const Lost* lost = find_lost(sequence)) return lost->failure.error;
  for (const Reported& past : reported_) {
    if (past.number > reports_seen && past.failure.sequence <= sequence && sequence <= past.until)
      return past.failure.error;
  }
  return nullptr;
}

std::shared_ptr<const Error> QueueFailures::find_unreported(std::uint64_t sequence) const noexcept {
  SpinGuard guard(lock_);
  if (failure_.error && failure_.sequence <= sequence) return failure_.error;
  const Lost* lost = find_lost(sequence);
  return lost != nullptr ? lost->failure.error : nullptr;
}

/// `forgotten` goes behind the lock: its error may hold an exception of the user's.
void QueueFailures::remember(Failure failure, std::uint64_t until, Reported& forgotten) noexcept {
  const std::uint32_t number = reports_.load(std::memory_order_relaxed) + 1;
  forgotten = std::exchange(reported_[number % most_remembered], Reported{std::move(failure), until, number});
  unreported_.store(failure_.error || lost_, std::memory_order_release);
  reports_.store(number, std::memory_order_release);
}

std::shared_ptr<const Error> QueueFailures::report(std::uint64_t sequence, std::uint64_t skipped_until) noexcept {
  if (!failed()) return nullptr;
  Reported forgotten;
  SpinGuard guard(lock_);
  if (!failure_.error || failure_.sequence > sequence) return nullptr;
  std::shared_ptr<const Error> error = failure_.error;
  remember(std::exchange(failure_, Failure{}), skipped_until, forgotten);
  failed_.store(false, std::memory_order_release);
  return error;
}

bool QueueFailures::lose(std::uint64_t until, std::uint64_t order, bool legacy_knows) noexcept {
  SpinGuard guard(lock_);
  if (!failure_.error) return false;
  spare_->failure = std::exchange(failure_, Failure{});
  spare_->until = until;
  spare_->order = order;
  spare_->legacy_knows = legacy_knows;
  std::unique_ptr<Lost>* end = &lost_;
  while (*end) end = &(*end)->next;
  *end = std::move(spare_);
  failed_.store(false, std::memory_order_release);
  return true;
}

std::shared_ptr<const Error> QueueFailures::report_lost(std::shared_ptr<const Error>& forgotten) noexcept {
  Reported before;
  std::unique_ptr<Lost> taken;
  SpinGuard guard(lock_);
  taken = std::move(lost_);
  lost_ = std::move(taken->next);
  std::shared_ptr<const Error> error = taken->failure.error;
  remember(std::move(taken->failure), taken->until, before);
  forgotten = std::move(before.failure.error);
  return error;
}

}  // namespace weir::cpu
