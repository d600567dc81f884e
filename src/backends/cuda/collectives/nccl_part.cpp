// Parts: held, let go, and let go at the end of the process.
#include "backends/cuda/collectives/nccl_part.hpp"

#include <unistd.h>

#include <cstdlib>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "failure_reports.hpp"
#include "recycled.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// All that are there: at the end of the process nothing shall wait for ranks that will not come.
class AllParts {
 public:
  static AllParts& instance() {
    static auto& all = *new AllParts;
    return all;
  }

  void add(NcclPart& part) {
    const detail::LockGuard guard(mutex_);
    part.next_ = first_;
    if (first_ != nullptr) first_->previous_ = &part;
    first_ = &part;
  }
  void remove(NcclPart& part) noexcept {
    const detail::LockGuard guard(mutex_);
    (part.previous_ != nullptr ? part.previous_->next_ : first_) = part.next_;
    if (part.next_ != nullptr) part.next_->previous_ = part.previous_;
  }
  void end() noexcept;

 private:
  AllParts() {
    static pid_t process;
    process = getpid();
    note_exit();
    std::atexit([] {
      if (getpid() == process) instance().end();
    });
  }

  detail::Mutex mutex_;
  NcclPart* first_ WEIR_GUARDED_BY(mutex_) = nullptr;
};

void AllParts::end() noexcept {
  const auto error =
      std::make_shared<const Error>(Errc::process_exiting, "weir: a collective", "a communicator",
                                    "the process is ending, and other ranks will not come", SourceLocation{});
  const detail::LockGuard guard(mutex_);
  for (NcclPart* part = first_; part != nullptr; part = part->next_) {
    if (part->state() != NcclPart::State::held) continue;
    part->let_go(error);
    // What others of its row have in lanes may come later than anybody looks.
    if (!part->written_by_lane_.load(std::memory_order_seq_cst)) part->row_->give_up();
  }
}

void let_all_parts_go() noexcept { AllParts::instance().end(); }

NcclPart::NcclPart(CudaQueue& queue, std::uint64_t tag) : queue_(queue), failures_(queue.failures()) {
  AllParts::instance().add(*this);
  try {
    place_ = tag != 0 ? failures_.open_place(tag, in_doubt) : failures_.open_place();
  } catch (...) {
    AllParts::instance().remove(*this);
    throw;
  }
  behind = place_ - 1;
}

NcclPart::~NcclPart() {
  AllParts::instance().remove(*this);
  let_go(nullptr);
  if (member_ != HeldRow::Member::over) leave_row();
}

void NcclPart::hold(SourceLocation where) {
  if (!marked()) mark(queue_.mark_place(times != nullptr, where));
  hold({this}, ready, where);
}

void NcclPart::hold_by_kernel(std::span<NcclPart* const> parts, std::shared_ptr<StockEvent> before,
                              SourceLocation where) {
  enter_row(parts, detail::make_recycled<HeldRow>(std::move(before), parts.size(), where));
}

void NcclPart::hold_beside(const NcclPart& other, SourceLocation where) {
  if (other.marked()) mark(other.ready);
  hold({this}, other.before_row(), where);
}

void NcclPart::hold(const std::vector<NcclPart*>& parts, std::shared_ptr<StockEvent> before, SourceLocation where) {
  const auto row = detail::make_recycled<HeldRow>(std::move(before), parts.size(), where);
  parts.front()->queue_.wait_for_word(row->word(), row->count(), where);
  enter_row(parts, row);
}

void NcclPart::enter_row(std::span<NcclPart* const> parts, const std::shared_ptr<HeldRow>& row) noexcept {
  for (NcclPart* const part : parts) {
    part->row_ = row;
    part->state_.store(State::held, std::memory_order_seq_cst);
    if (part->over()) part->leave_row();
  }
}

bool NcclPart::came() const noexcept {
  constexpr std::uint64_t nobodys_tag = ~std::uint64_t{0};
  const bool is_marked = marked();
  if (!is_marked && (state() != State::held || failures_.in_doubt_beyond(behind, nobodys_tag))) return false;
  const DeviceScope scope(queue_.device().index());
  const cudaError_t answer = cudaEventQuery((is_marked ? ready : before_row())->get());
  note(answer == cudaErrorNotReady ? cudaErrorNotReady : answer);
  return answer == cudaSuccess;
}

bool NcclPart::let_go(const std::shared_ptr<const Error>& failure) noexcept {
  if (over_.exchange(true, std::memory_order_seq_cst)) return false;
  if (failure && !failures_.failed() && failures_.is_unsettled(place_)) detail::note_unseen(failure);
  try {
    failures_.settle(place_, failure);  // first: what runs next looks at the failures
  } catch (...) {
    // Without memory for the list of those that depend on it the streams stay in doubt.
  }
  if (!written_by_lane_.load(std::memory_order_seq_cst)) leave_row();
  return true;
}

void NcclPart::set_written_by_lane(bool so) noexcept {
  if (so) row_->enter_lane(member_);
  written_by_lane_.store(so, std::memory_order_seq_cst);
  if (so) return;
  row_->leave_lane(member_);
  if (over()) leave_row();
}

void NcclPart::lane_ended() noexcept { leave_row(); }

void NcclPart::leave_row() noexcept {
  if (state_.load(std::memory_order_seq_cst) == State::held) row_->end(member_);
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
