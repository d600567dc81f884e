// Parts: held, let go, and let go at the end of the process.
#include "backends/cuda/collectives/nccl_part.hpp"

#include <unistd.h>

#include <cstdlib>
#include <unordered_set>

#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

/// All that are there: at the end of the process nothing shall wait for ranks that will not come.
class Parts {
 public:
  static Parts& instance() {
    static auto& all = *new Parts;
    return all;
  }

  void add(NcclPart& part) {
    const detail::LockGuard guard(mutex_);
    parts_.insert(&part);
  }
  void remove(NcclPart& part) noexcept {
    const detail::LockGuard guard(mutex_);
    parts_.erase(&part);
  }
  void end() noexcept;

 private:
  Parts() {
    static pid_t process;
    process = getpid();
    note_exit();
    std::atexit([] {
      if (getpid() == process) instance().end();
    });
  }

  detail::Mutex mutex_;
  std::unordered_set<NcclPart*> parts_ WEIR_GUARDED_BY(mutex_);
};

void Parts::end() noexcept {
  const auto error =
      std::make_shared<const Error>(Errc::process_exiting, "weir: a collective", "a communicator",
                                    "the process is ending, and other ranks will not come", SourceLocation{});
  const detail::LockGuard guard(mutex_);
  for (NcclPart* part : parts_) {
    if (part->state() == NcclPart::State::held) part->let_go(error);
  }
}

}  // namespace

void let_all_parts_go() noexcept { Parts::instance().end(); }

NcclPart::NcclPart(CudaQueue& queue) : queue_(queue), failures_(queue.failures()) {
  Parts::instance().add(*this);
  try {
    place_ = failures_.open_place();
  } catch (...) {
    Parts::instance().remove(*this);
    throw;
  }
  behind = place_ - 1;
}

NcclPart::~NcclPart() {
  Parts::instance().remove(*this);
  let_go(nullptr);
  if (SignalWord* const word = word_.load(std::memory_order_relaxed)) Signals::instance().give_word(*word);
}

void NcclPart::hold(SourceLocation where) {
  if (!marked()) mark(queue_.mark_place(where));
  SignalWord& word = Signals::instance().take_word(where);
  count_ = word.awaited;
  word_.store(&word, std::memory_order_seq_cst);
  try {
    queue_.wait_for_word(word, count_, where);
  } catch (...) {
    reach_word();  // nothing waits for it, and it may serve again
    word_.store(nullptr, std::memory_order_seq_cst);
    Signals::instance().give_word(word);
    throw;
  }
  state_.store(State::held, std::memory_order_seq_cst);
  if (over()) reach_word();
}

bool NcclPart::let_go(const std::shared_ptr<const Error>& failure) noexcept {
  if (over_.exchange(true, std::memory_order_seq_cst)) return false;
  if (failure && !failures_.failed() && failures_.is_unsettled(place_)) detail::note_unseen(failure);
  try {
    failures_.settle(place_, failure);  // first: what runs next looks at the failures
  } catch (...) {
    // Without memory for the list of those that depend on it the streams stay in doubt.
  }
  if (!written_by_lane_.load(std::memory_order_seq_cst)) reach_word();
  return true;
}

void NcclPart::set_written_by_lane(bool so) noexcept {
  written_by_lane_.store(so, std::memory_order_seq_cst);
  if (!so && over()) reach_word();
}

void NcclPart::reach_word() noexcept {
  SignalWord* const word = word_.load(std::memory_order_seq_cst);
  if (word != nullptr) std::atomic_ref(word->reached).store(count_, std::memory_order_seq_cst);
}

bool DeferredParts::take() noexcept {
  for (;;) {
    int seen = state_.load(std::memory_order_acquire);
    if (seen == none) return false;
    if (seen == taken) {
      state_.wait(taken, std::memory_order_acquire);
      continue;
    }
    if (state_.compare_exchange_strong(seen, taken, std::memory_order_acq_rel)) return true;
  }
}

bool DeferredParts::try_take() noexcept {
  int seen = some;
  return state_.compare_exchange_strong(seen, taken, std::memory_order_acq_rel);
}

bool DeferredParts::take_empty() noexcept {
  int seen = none;
  return state_.compare_exchange_strong(seen, taken, std::memory_order_acq_rel);
}

void DeferredParts::give() noexcept {
  state_.store(parts.empty() ? none : some, std::memory_order_release);
  state_.notify_all();
}

}  // namespace weir::cuda
