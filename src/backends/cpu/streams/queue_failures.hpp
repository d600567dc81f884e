// What failed in one queue: the present failure, which skips its commands; those of streams that had the queue before, of
// which nobody was told; and those that the host knows of, which waits from before the report still inherit. A failure is
// never lost for want of memory: only prepare() allocates.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <weir/error.hpp>

#include "backends/cpu/workers/futex.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

class QueueFailures {
 public:
  /// Memory for the end of the stream that gets the queue now.
  void prepare() {
    if (!spare_) spare_ = std::make_unique<Lost>();
  }

  /// Whether commands are skipped: a failure that nobody was told of.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// For the consumer, whose own it is, and where others are ordered by what they read before.
  bool failed_relaxed() const { return failed_.load(std::memory_order_relaxed); }
  /// How many failures were reported so far. A wait takes the number along: it inherits what is reported later.
  std::uint32_t reports() const { return reports_.load(std::memory_order_acquire); }

  /// The command `sequence` failed, or inherited a failure. The first one counts. The consumer's.
  void fail(std::uint64_t sequence, std::shared_ptr<const Error> error) noexcept;

  /// The failure that a wait for `sequence` inherits, if `reports_seen` of them had been reported when it was enqueued.
  std::shared_ptr<const Error> inherited_at(std::uint64_t sequence, std::uint32_t reports_seen) const noexcept {
    if (!ever_failed_.load(std::memory_order_acquire)) return nullptr;
    return find_inherited(sequence, reports_seen);
  }
  /// Whether there is one that nobody was told of, lost ones too.
  bool any_unreported() const noexcept { return unreported_.load(std::memory_order_acquire); }
  /// The failure that a command up to `sequence` has, and that nobody was told of; it stays so.
  std::shared_ptr<const Error> unreported_at(std::uint64_t sequence) const noexcept {
    if (!unreported_.load(std::memory_order_acquire)) return nullptr;
    return find_unreported(sequence);
  }
  /// Whether that is of a stream that had the queue before.
  bool lost_at(std::uint64_t sequence) const noexcept {
    return unreported_.load(std::memory_order_acquire) && is_lost(sequence);
  }
  /// The same as unreported_at() for who tells the host: later commands run again. Those up to `skipped_until` were skipped; waits for them
  /// from before this report inherit it all the same.
  std::shared_ptr<const Error> report(std::uint64_t sequence, std::uint64_t skipped_until) noexcept;

  // Lost failures: the stream is gone and nobody was told. The queue's next stream runs, but who waits for commands of the
  // old one inherits, until the device reports it. `order` numbers them on the device. The device's lock is held in all.

  /// The stream that ends with the command `until` failed. `legacy_knows`: the legacy stream waits for the failed command,
  /// or need not. False: a host thread was told of the failure meanwhile, and nothing is lost.
  bool lose(std::uint64_t until, std::uint64_t order, bool legacy_knows) noexcept;
  static constexpr std::uint64_t none = ~std::uint64_t{0};
  /// The order of the oldest.
  std::uint64_t oldest_lost() const noexcept { return lost_ ? lost_->order : none; }
  /// Takes the oldest. `forgotten` gets an earlier one that is remembered no longer: it may hold an exception of the user's, and goes
  /// behind the device's lock.
  std::shared_ptr<const Error> report_lost(std::shared_ptr<const Error>& forgotten) noexcept;
  /// Calls f(sequence) for those that the legacy stream has yet to wait for; they are known to it once f returned.
  template <class F>
  void tell_legacy(F&& f) {
    for (Lost* lost = lost_.get(); lost != nullptr; lost = lost->next.get()) {
      if (lost->legacy_knows) continue;
      f(lost->until);
      lost->legacy_knows = true;
    }
  }

 private:
  struct Failure {
    std::uint64_t sequence = 0;
    std::shared_ptr<const Error> error;  ///< null: none
  };
  struct Reported {
    Failure failure;
    std::uint64_t until = 0;
    std::uint32_t number = 0;  ///< of the report: waits that were enqueued after it do not inherit
  };
  struct Lost {
    Failure failure;
    std::uint64_t until = 0;
    std::uint64_t order = 0;
    bool legacy_knows = false;
    std::unique_ptr<Lost> next;
  };
  static constexpr std::size_t most_remembered = 8;
  std::shared_ptr<const Error> find_inherited(std::uint64_t sequence, std::uint32_t reports_seen) const noexcept;
  std::shared_ptr<const Error> find_unreported(std::uint64_t sequence) const noexcept;
  bool is_lost(std::uint64_t sequence) const noexcept;
  const Lost* find_lost(std::uint64_t sequence) const noexcept WEIR_NEEDS(lock_);
  void remember(Failure failure, std::uint64_t until, Reported& forgotten) noexcept WEIR_NEEDS(lock_);

  std::atomic<bool> failed_{false};
  std::atomic<bool> ever_failed_{false};
  std::atomic<bool> unreported_{false};  ///< failed, or lost ones
  std::atomic<std::uint32_t> reports_{0};
  mutable SpinLock lock_;
  Failure failure_ WEIR_GUARDED_BY(lock_);
  std::array<Reported, most_remembered> reported_ WEIR_GUARDED_BY(lock_);  ///< the last ones, by their number
  std::unique_ptr<Lost> lost_;  ///< the list changes under lock_ and the device's lock; oldest first
  std::unique_ptr<Lost> spare_;
};

}  // namespace weir::cpu
