// Places, and how failures go from one to those that depend on it.
#include "backends/cuda/streams/failures.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "backend.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

/// Errors that a queue lets go of end behind the lock: what their exceptions do at their end may take it. And observers are told there,
/// by the thread that reports: the driver's own would be held up by what they do.
class FailureState::Afterwards {
 public:
  Afterwards() = default;
  ~Afterwards() {
    if (failures_.empty()) return;
    try {
      auto task = make_task([all = std::move(failures_)] {
        for (const Told& one : all) detail::report_failed(one.stream, one.from, *one.error);
      });
      TaskThread::reporter().post(task);
    } catch (...) {
      // It is not told who has failed.
    }
  }
  Afterwards(const Afterwards&) = delete;
  Afterwards& operator=(const Afterwards&) = delete;

  void let_go(std::shared_ptr<const Error> error) { errors_.push_back(std::move(error)); }
  void tell(StreamId stream, StreamId from, const std::shared_ptr<const Error>& error) noexcept {
    if (stream == 0 || !detail::failures_are_watched()) return;
    try {
      failures_.push_back({stream, from, error});
    } catch (...) {
      // It is not told who has failed.
    }
  }

 private:
  struct Told {
    StreamId stream;
    StreamId from;
    std::shared_ptr<const Error> error;
  };
  std::vector<std::shared_ptr<const Error>> errors_;
  std::vector<Told> failures_;
};

detail::Mutex& FailureState::mutex() {
  static auto& instance = *new detail::Mutex;
  return instance;
}

bool FailureState::skips_all() const { return failed() && doubt_.load(std::memory_order_acquire) == 1; }

bool FailureState::set_flag(volatile unsigned long long* flag) {
  const detail::LockGuard guard(mutex());
  if (has_flag()) return false;
  *flag = failed_at_.load(std::memory_order_relaxed);
  flag_.store(flag, std::memory_order_release);  // with guard() and has_flag(): what it holds
  return true;
}

std::uint64_t FailureState::open_place(std::uint64_t tag) {
  const detail::LockGuard guard(mutex());
  return open_locked(tag);
}

std::uint64_t FailureState::open_place(std::uint64_t tag, bool& in_doubt) {
  const detail::LockGuard guard(mutex());
  const std::uint64_t place = open_locked(tag);
  // Of those that a rank far ahead has, none is looked at.
  in_doubt = unsettled_.front().place <= mixed_until_ && tag_until(place) != tag;
  return place;
}

std::uint64_t FailureState::open_locked(std::uint64_t tag) {
  const std::uint64_t place = place_.load(std::memory_order_relaxed) + 1;
  unsettled_.push_back({place, tag});
  if (unsettled_.size() > 1 && std::prev(unsettled_.end(), 2)->tag != tag) mixed_until_ = place - 1;
  place_.store(place, std::memory_order_release);
  doubt_.fetch_add(1, std::memory_order_release);
  return place;
}

std::deque<FailureState::Unsettled>::const_iterator FailureState::end_of(std::uint64_t place) const {
  return std::upper_bound(unsettled_.begin(), unsettled_.end(), place,
                          [](std::uint64_t one, const Unsettled& open) { return one < open.place; });
}

std::deque<FailureState::Unsettled>::const_iterator FailureState::find(std::uint64_t place) const {
  const auto found = std::lower_bound(unsettled_.begin(), unsettled_.end(), place,
                                      [](const Unsettled& open, std::uint64_t one) { return open.place < one; });
  return found != unsettled_.end() && found->place == place ? found : unsettled_.end();
}

bool FailureState::settled_until(std::uint64_t place) const {
  return unsettled_.empty() || unsettled_.front().place > place;
}

/// The one that all unsettled places up to there have, of which there are some; 0: they differ, or one has none.
std::uint64_t FailureState::tag_until(std::uint64_t place) const {
  std::uint64_t tag = 0;
  for (auto open = unsettled_.begin(); open != unsettled_.end() && open->place <= place; ++open) {
    if (open->tag == 0 || (tag != 0 && tag != open->tag)) return 0;
    tag = open->tag;
  }
  return tag;
}

void FailureState::set_tag(std::uint64_t place, std::uint64_t tag) {
  const detail::LockGuard guard(mutex());
  set_tag_locked(place, tag);
}

void FailureState::set_tag_locked(std::uint64_t place, std::uint64_t tag) {
  if (const auto open = find(place); open != unsettled_.end()) {
    unsettled_[static_cast<std::size_t>(open - unsettled_.begin())].tag = tag;
    mixed_until_ = place_.load(std::memory_order_relaxed);
  }
  for (const Dependent& dependent : dependents_) {
    if (dependent.source_place < place || tag_until(dependent.source_place) != tag) continue;
    dependent.queue->set_tag_locked(dependent.place, tag);
  }
}

void FailureState::settle_tagged(std::uint64_t place) {
  if (!in_doubt()) return;
  Afterwards afterwards;
  const detail::LockGuard guard(mutex());
  std::vector<std::uint64_t> over;
  for (auto open = unsettled_.begin(); open != unsettled_.end() && open->place <= place; ++open) {
    if (open->tag != 0) over.push_back(open->place);
  }
  for (const std::uint64_t one : over) settle_locked(one, nullptr, 0, afterwards);
}

bool FailureState::is_unsettled(std::uint64_t place) const {
  const detail::LockGuard guard(mutex());
  return find(place) != unsettled_.end();
}

bool FailureState::in_doubt_beyond(std::uint64_t place, std::uint64_t tag) const {
  if (!in_doubt()) return false;
  const detail::LockGuard guard(mutex());
  return std::any_of(unsettled_.begin(), end_of(place), [&](const Unsettled& open) { return open.tag != tag; });
}

void FailureState::settle(std::uint64_t place, std::shared_ptr<const Error> error, StreamId from) {
  Afterwards afterwards;
  const detail::LockGuard guard(mutex());
  settle_locked(place, error, from, afterwards);
}

void FailureState::settle_locked(std::uint64_t place, const std::shared_ptr<const Error>& error, StreamId from,
                                 Afterwards& afterwards) {
  const auto open = find(place);
  if (open == unsettled_.end()) return;
  unsettled_.erase(open);
  if (error && place < failed_at_.load(std::memory_order_relaxed)) {
    if (!error_) doubt_.fetch_add(1, std::memory_order_relaxed);
    if (error_) afterwards.let_go(std::move(error_));
    error_ = error;
    error_from_ = from;
    afterwards.tell(stream_.load(std::memory_order_relaxed), from, error);
    failed_at_.store(place, std::memory_order_release);
    if (auto* flag = flag_.load(std::memory_order_relaxed)) {
      *flag = place;
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  std::vector<Dependent> ready;
  std::erase_if(dependents_, [&](const Dependent& dependent) WEIR_NEEDS(mutex()) {
    if (!settled_until(dependent.source_place)) return false;
    ready.push_back(dependent);
    return true;
  });
  doubt_.fetch_sub(1, std::memory_order_release);
  for (const Dependent& dependent : ready) {
    const bool inherits = failed_at_.load(std::memory_order_relaxed) <= dependent.source_place;
    dependent.queue->settle_locked(dependent.place, inherits ? error_ : nullptr, failed_by_locked(), afterwards);
  }
}

void FailureState::depend_on(FailureState& source, std::uint64_t source_place) {
  const bool lost = source.any_lost_.load(std::memory_order_acquire);
  if (!lost && (&source == this || !source.in_doubt())) return;
  Afterwards afterwards;
  const detail::LockGuard guard(mutex());
  if (const Lost* const lost_there = source.lost_at(source_place)) {  // also of a stream that had this queue before
    const std::uint64_t place = open_locked(0);
    settle_locked(place, lost_there->error, lost_there->stream, afterwards);
    return;
  }
  if (&source == this) return;
  const bool settled = source.settled_until(source_place);
  // While something before it may still fail, a failure is not the one that the source will report.
  const bool failed = settled && source.failed_at_.load(std::memory_order_relaxed) <= source_place;
  if (!failed && settled) return;
  const std::uint64_t place = open_locked(source.tag_until(source_place));
  if (failed) {
    settle_locked(place, source.error_, source.failed_by_locked(), afterwards);
  } else {
    source.dependents_.push_back({source_place, this, place});
  }
}

StreamId FailureState::failed_by_locked() const {
  const StreamId own = stream_.load(std::memory_order_relaxed);
  return own != 0 ? own : error_from_;
}

StreamId FailureState::failed_by() const {
  const detail::LockGuard guard(mutex());
  return failed_by_locked();
}

std::shared_ptr<const Error> FailureState::failure_at(std::uint64_t place) const {
  if (!skips(place) && !any_lost_.load(std::memory_order_acquire)) return nullptr;
  const detail::LockGuard guard(mutex());
  if (const Lost* const lost = lost_at(place)) return lost->error;
  return failed_at_.load(std::memory_order_relaxed) <= place ? error_ : nullptr;
}

std::shared_ptr<const Error> FailureState::take(std::uint64_t place) {
  if (!failed()) return nullptr;
  std::shared_ptr<const Error> let_go;
  const detail::LockGuard guard(mutex());
  return failed_at_.load(std::memory_order_relaxed) <= place ? take_locked(let_go) : nullptr;
}

const FailureState::Lost* FailureState::lost_at(std::uint64_t place) const {
  const auto covers = [&](const Lost& lost) { return lost.from <= place && place <= lost.until; };
  const auto found = std::find_if(lost_.begin(), lost_.end(), covers);
  return found != lost_.end() ? &*found : nullptr;
}

std::shared_ptr<const Error> FailureState::lose() {
  if (!failed()) return nullptr;
  std::shared_ptr<const Error> let_go;
  const detail::LockGuard guard(mutex());
  if (!error_) return nullptr;
  lost_.push_back(
      {failed_at_.load(std::memory_order_relaxed), place_.load(std::memory_order_relaxed), error_, failed_by_locked()});
  any_lost_.store(true, std::memory_order_release);
  return take_locked(let_go);
}

void FailureState::forget(const Error& error) noexcept {
  std::shared_ptr<const Error> let_go;
  const detail::LockGuard guard(mutex());
  std::erase_if(lost_, [&](Lost& lost) {
    if (lost.error.get() != &error) return false;
    let_go = std::move(lost.error);
    return true;
  });
  any_lost_.store(!lost_.empty(), std::memory_order_release);
}

std::shared_ptr<const Error> FailureState::take_locked(std::shared_ptr<const Error>& let_go) {
  if (!error_) return nullptr;
  failed_at_.store(never, std::memory_order_release);
  if (auto* flag = flag_.load(std::memory_order_relaxed)) *flag = never;
  // What is recorded from here on lies behind the failure, and must not be taken for what lay before.
  place_.store(place_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  doubt_.fetch_sub(1, std::memory_order_release);
  let_go = std::exchange(taken_, std::exchange(error_, nullptr));
  return taken_;
}

std::shared_ptr<const Error> FailureState::last_taken() const {
  const detail::LockGuard guard(mutex());
  return taken_;
}

}  // namespace weir::cuda
