// A communicator's life in NCCL: taken or made at the first need, put away behind its last call.
#include "backends/cuda/collectives/nccl_transport.hpp"

#include <chrono>
#include <string>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/staging.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/late_replay.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

std::atomic<std::uint64_t> next_tag{1};

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Looks whether a stream has come to its part.
void look_at(detail::CollectivePart& part, NcclPart& own) noexcept {
  if (own.came()) part.ready_nanoseconds.store(now_nanoseconds(), std::memory_order_release);
  own.attended.store(false, std::memory_order_release);
}

}  // namespace

NcclTransport::NcclTransport(std::vector<CudaDevice*> devices)
    : tag_(next_tag.fetch_add(1, std::memory_order_relaxed)), ranks_(take_ranks(std::move(devices))) {}

NcclTransport::~NcclTransport() { put_away(std::move(ranks_)); }

void NcclTransport::start(SourceLocation where) { make_unless_made(*ranks_, where); }

void NcclTransport::check_captured(const detail::CollectiveRequest& request, const std::string& object,
                                   SourceLocation where) const {
  const bool reduced = request.reduction != detail::Reduction::none;
  if (!needs_staging(request.in, reduced) && !needs_staging(request.out, reduced)) return;
  throw Error(Errc::capture_unsupported, "weir: a collective", object,
              "slices with strides, and integers of 16 bits, which NCCL does not add, go through memory that a graph "
              "does not have: copy to dense memory in the capture, or call it between the launches of two graphs",
              where);
}

void NcclTransport::gather() noexcept { CallOrder::gather(); }
void NcclTransport::give_out() noexcept { CallOrder::instance().give_out(); }

void NcclTransport::run(detail::CollectiveCall& call, std::size_t lane) {
  CallOrder::instance().add(*this, call, lane);
}

void NcclTransport::let_go(detail::CollectivePart& part) noexcept {
  if (part.own != nullptr) static_cast<NcclPart*>(part.own.get())->let_go(part.failure);
}

void NcclTransport::attend(detail::CollectiveCall& call) noexcept {
  CallOrder::instance().look_if_any_are_gathered();
  constexpr std::uint64_t nobodys_tag = ~std::uint64_t{0};
  for (detail::CollectivePart& part : call.parts()) {
    if (part.own == nullptr || part.ready_nanoseconds.load(std::memory_order_relaxed) != 0) continue;
    ask_nccl(call);
    auto& own = *static_cast<NcclPart*>(part.own.get());
    // Of a rank that is far ahead most are behind others, and there are many.
    if (own.failures().in_doubt_beyond(own.behind, nobodys_tag)) continue;
    if (own.attended.exchange(true, std::memory_order_acquire)) continue;
    if (!own.marked()) {
      post(CallOrder::holder(), [kept = part.own, &own] { own.queue().try_mark_deferred(); });
    }
    post(CallOrder::looker(), [kept = CallRef(call), &part, &own] { look_at(part, own); });
  }
}

/// One question at a time, for all that is pending.
void NcclTransport::ask_nccl(detail::CollectiveCall& call) noexcept {
  if (asking_.exchange(true, std::memory_order_acquire)) return;
  post(CallOrder::worker(), [this, kept = CallRef(call)] {
    NcclResult wrong = NcclResult::success;
    {
      const detail::LockGuard guard(ranks_->in_use);
      wrong = error_of(*ranks_);
    }
    asking_.store(false, std::memory_order_release);
    if (wrong == NcclResult::success) return;
    kept->fail_all(Errc::rank_failed, std::string("NCCL says: ") + nccl().GetErrorString(wrong));
  });
}

void NcclTransport::abandon() noexcept {
  if (abandoned_.exchange(true)) return;
  stop_if_stuck(ranks_);
  CallOrder::instance().look_if_any_wait();  // launches of graphs, of which the communicator does not know
}

std::vector<detail::WaitingLaunch> NcclTransport::waiting_launches() { return LateReplay::waiting_of(*this); }

}  // namespace weir::cuda
