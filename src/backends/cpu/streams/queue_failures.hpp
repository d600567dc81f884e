// What failed in one queue: the present failure, which skips its commands, and those that the host knows of, which waits
// from before the report still inherit. Nothing here allocates: a failure is never lost for want of memory.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <weir/error.hpp>

#include "backends/cpu/workers/futex.hpp"

namespace weir::cpu {

class QueueFailures {
 public:
  /// Whether commands are skipped: a failure that nobody was told of.
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  /// For the consumer, whose own it is, and where others are ordered by what they read before.
  bool failed_relaxed() const { return failed_.load(std::memory_order_relaxed); }
  /// How many failures were reported so far. A wait takes the number along: it inherits what is reported later.
  std::uint32_t reports() const { return reports_.load(std::memory_order_acquire); }

  /// The command `sequence` failed, or inherited a failure. The first one counts. The consumer's.
  void fail(std::uint64_t sequence, std::shared_ptr<const Error> error) noexcept;

  /// The failure that a wait for `sequence` inherits, if `reports_seen` of them had been reported when it was enqueued.
  std::shared_ptr<const Error> inherited_at(std::uint64_t sequence, std::uint32_t reports_seen) const noexcept;
  /// The failure at or before `sequence` that nobody was told of, and stays so.
  std::shared_ptr<const Error> unreported_at(std::uint64_t sequence) const noexcept;
  /// The same for who tells the host: later commands run again. Those up to `skipped_until` were skipped; waits for them
  /// from before this report inherit it all the same.
  std::shared_ptr<const Error> report(std::uint64_t sequence, std::uint64_t skipped_until) noexcept;

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
  static constexpr std::size_t most_remembered = 8;

  std::atomic<bool> failed_{false};
  std::atomic<bool> ever_failed_{false};
  std::atomic<std::uint32_t> reports_{0};
  mutable SpinLock lock_;
  Failure failure_;                                 ///< guarded by lock_
  std::array<Reported, most_remembered> reported_;  ///< guarded by lock_: the last ones, by their number
};

}  // namespace weir::cpu
