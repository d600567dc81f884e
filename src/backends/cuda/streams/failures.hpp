// How a failed host function stops the work behind it, in its stream and in those that wait for it, although that work
// may have been handed to the driver already. docs/architecture.md explains it.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <weir/detail/device_code.hpp>
#include <weir/error.hpp>
#include <weir/op.hpp>

#include "thread_safety.hpp"

namespace weir::cuda {

/// One queue's part. Places number what may fail in a queue: its host functions, and its waits for queues in which one may
/// still fail. Commands behind an unsettled place carry a guard.
class FailureState {
 public:
  static constexpr unsigned long long never = ~0ull;

  /// The stream that has the queue from now on, 0 for those of our own: whom observers are told of.
  void set_stream(StreamId stream) { stream_.store(stream, std::memory_order_relaxed); }

  /// Whether a command must be guarded or skipped: one load in the common case.
  bool in_doubt() const { return doubt_.load(std::memory_order_acquire) != 0; }
  bool failed() const { return failed_at_.load(std::memory_order_acquire) != never; }
  /// Nothing is unsettled, and the queue failed: later commands need not reach the driver.
  bool skips_all() const;
  bool skips(std::uint64_t place) const { return failed_at_.load(std::memory_order_acquire) <= place; }
  std::uint64_t place() const { return place_.load(std::memory_order_acquire); }
  /// For commands that are submitted now. `flag` is what the device reads.
  detail::DeviceGuard guard() const { return {flag_.load(std::memory_order_acquire), place()}; }
  /// Memory that device and host share, before the first place. False if there is some already.
  bool set_flag(volatile unsigned long long* flag);
  bool has_flag() const { return flag_.load(std::memory_order_acquire) != nullptr; }

  /// A host function is about to be submitted. `tag`: whose work it is, if what the driver has suffices for its end (set_tag()).
  std::uint64_t open_place(std::uint64_t tag = 0);
  /// The same. `in_doubt`: whether something before it is unsettled that has another tag, or none.
  std::uint64_t open_place(std::uint64_t tag, bool& in_doubt);
  /// The driver has all of it by now: whatever becomes of the place, it and what depends on it alone need nobody else to go on,
  /// and fail before they do.
  void set_tag(std::uint64_t place, std::uint64_t tag);
  /// The stream is through with what it had up to the place: what has a tag did not fail, and need not wait for who settles it.
  void settle_tagged(std::uint64_t place);
  bool is_unsettled(std::uint64_t place) const;
  /// Whether something up to the place is unsettled that has another tag, or none.
  bool in_doubt_beyond(std::uint64_t place, std::uint64_t tag) const;
  /// It ran, was skipped, or could not be submitted. Null error: nothing failed. The first time counts. `from`: the stream that
  /// had failed by it before, 0 if there is none.
  void settle(std::uint64_t place, std::shared_ptr<const Error> error, StreamId from = 0);
  /// This queue's later commands wait for `source`'s up to `place`.
  void depend_on(FailureState& source, std::uint64_t place);

  /// The stream that has failed by the present failure: this one's, or the one from which a queue of our own has it.
  StreamId failed_by() const;
  /// The failure at or before a place; null if there is none.
  std::shared_ptr<const Error> failure_at(std::uint64_t place) const;
  /// Takes the failure away if it is one of places up to `place`: the host knows of it, and the queue runs again. Who takes
  /// it has waited for what was submitted until the queue was at that place: behind the failure nothing of that may run.
  std::shared_ptr<const Error> take(std::uint64_t place = never - 1);
  /// What was taken last: for who finds its work skipped, and that another thread was told.
  std::shared_ptr<const Error> last_taken() const;
  /// The same as take() where the stream is gone and nobody was told: who waits for places up to now still inherits the failure, until
  /// it was reported. Throws without memory; then nothing has changed.
  std::shared_ptr<const Error> lose();
  /// It was reported.
  void forget(const Error& error) noexcept;

 private:
  /// One for all queues: failures cross them, and host functions are rare.
  static detail::Mutex& mutex();
  struct Lost {
    std::uint64_t from;
    std::uint64_t until;
    std::shared_ptr<const Error> error;
    StreamId stream;
  };
  /// What follows a change, behind the lock.
  class Afterwards;
  std::shared_ptr<const Error> take_locked(std::shared_ptr<const Error>& let_go) WEIR_NEEDS(mutex());
  /// The failure that who waits for the place inherits from a stream that had this queue before, or null.
  const Lost* lost_at(std::uint64_t place) const WEIR_NEEDS(mutex());
  struct Dependent {
    std::uint64_t source_place;
    FailureState* queue;
    std::uint64_t place;
  };
  void settle_locked(std::uint64_t place, const std::shared_ptr<const Error>& error, StreamId from,
                     Afterwards& afterwards) WEIR_NEEDS(mutex());
  StreamId failed_by_locked() const WEIR_NEEDS(mutex());
  std::uint64_t open_locked(std::uint64_t tag) WEIR_NEEDS(mutex());
  void set_tag_locked(std::uint64_t place, std::uint64_t tag) WEIR_NEEDS(mutex());
  bool settled_until(std::uint64_t place) const WEIR_NEEDS(mutex());
  std::uint64_t tag_until(std::uint64_t place) const WEIR_NEEDS(mutex());
  struct Unsettled {
    std::uint64_t place;
    std::uint64_t tag;
  };
  /// Behind all of places up to there.
  std::deque<Unsettled>::const_iterator end_of(std::uint64_t place) const WEIR_NEEDS(mutex());
  /// Of the place, or the end.
  std::deque<Unsettled>::const_iterator find(std::uint64_t place) const WEIR_NEEDS(mutex());

  std::atomic<StreamId> stream_{0};
  std::atomic<std::uint64_t> place_{0};
  std::atomic<std::uint32_t> doubt_{0};  ///< unsettled places, and one more after a failure
  std::atomic<unsigned long long> failed_at_{never};
  std::atomic<volatile unsigned long long*> flag_{nullptr};  ///< written under the mutex; submitters read it without
  std::shared_ptr<const Error> error_ WEIR_GUARDED_BY(mutex());
  StreamId error_from_ WEIR_GUARDED_BY(mutex()) = 0;  ///< 0: it is this queue's own
  std::shared_ptr<const Error> taken_ WEIR_GUARDED_BY(mutex());
  std::vector<Lost> lost_ WEIR_GUARDED_BY(mutex());
  std::atomic<bool> any_lost_{false};
  std::deque<Unsettled> unsettled_ WEIR_GUARDED_BY(mutex());  ///< places rise; a rank that is far ahead has thousands
  std::uint64_t mixed_until_ WEIR_GUARDED_BY(mutex()) = 0;    ///< those behind it all have the tag of the last one
  std::vector<Dependent> dependents_ WEIR_GUARDED_BY(mutex());
};

}  // namespace weir::cuda
