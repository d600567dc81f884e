// The calls of NCCL, and the events and words around them.
#include "backends/cuda/collectives/handing.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <tuple>
#include <utility>

#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/peer_gather.hpp"
#include "backends/cuda/collectives/reduce_kernels.hpp"
#include "backends/cuda/collectives/reduce_parts.hpp"
#include "backends/cuda/collectives/standing_waits.hpp"
#include "backends/cuda/collectives/stream_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "recycled.hpp"

namespace weir::cuda {

namespace {

using detail::CollectiveKind;
using detail::CollectiveRequest;
using detail::CollectiveShare;
using detail::Reduction;

constexpr const char* handing = "weir: a collective";

/// What the driver has of a call, until every rank's stream is through with it.
class CallEnd final : public Reached {
 public:
  struct Part {
    std::shared_ptr<NcclPart> part;
    std::shared_ptr<StockEvent> end;
  };

  struct Along {
    CallRef call;
    std::vector<std::shared_ptr<NcclPart>> parts;
  };

  CallEnd(detail::CollectiveCall& call, std::shared_ptr<NcclRanks> ranks, std::vector<Part> parts,
          std::vector<Along> along)
      : call_(call), ranks_(std::move(ranks)), parts_(std::move(parts)), along_(std::move(along)) {
    ranks_->calls.add();
  }
  ~CallEnd() override { ranks_->calls.remove(); }
  CallEnd(const CallEnd&) = delete;
  CallEnd& operator=(const CallEnd&) = delete;

  /// One rank after the other: once one was through nobody asks about it again.
  cudaError_t ask() noexcept override {
    for (; through_ < parts_.size(); ++through_) {
      const cudaError_t answer = cudaEventQuery(parts_[through_].end->get());
      if (answer != cudaSuccess) return answer;
    }
    return cudaSuccess;
  }

  void reached(cudaError_t answer) noexcept override {
    for (const Part& one : parts_) one.part->lane_ended();
    if (answer != cudaSuccess) {
      post(CallOrder::worker(), [call = CallRef(*call_), answer] {
        call->fail_all(Errc::device_failed, std::string("CUDA says: ") + cudaGetErrorString(answer));
      });
      return;
    }
    if (call_->begin()) {
      for (const Part& one : parts_) one.part->let_go(nullptr);
      call_->end();
    }
    for (const Along& one : along_) {
      if (!one.call->begin()) continue;
      for (const auto& part : one.parts) part->let_go(nullptr);
      one.call->end();
    }
    CallOrder::instance().look_if_any_wait();
  }

 private:
  const CallRef call_;
  const std::shared_ptr<NcclRanks> ranks_;
  const std::vector<Part> parts_;
  const std::vector<Along> along_;
  std::size_t through_ = 0;
};

}  // namespace

Handing::Handing(LastHanded& last, NcclTransport& transport, detail::CollectiveCall& call, bool hurry)
    : last_(last), transport_(transport), call_(call), hurry_(hurry), where_(call.share(0).where), staging_(where_) {
  const auto parts = call.parts();
  targets_.reserve(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Target target;
    target.part = std::static_pointer_cast<NcclPart>(parts[i].own);
    target.rank = static_cast<std::size_t>(call.share(i).rank);
    targets_.push_back(std::move(target));
  }
}

Handing::~Handing() {
  for (Target& target : targets_) {
    if (!is_with_nccl_ && target.lane != nullptr && !target.direct) target.part->set_written_by_lane(false);
    if (!target.taken) continue;
    DeferredParts& deferred = target.part->queue().deferred();
    std::erase_if(deferred.parts, [](const auto& part) { return part->state() != NcclPart::State::deferred; });
    deferred.give();
  }
}

Handing::Outcome Handing::run() {
  const RoomCall room;
  if (!take_parts()) return Outcome::waits;
  if (!make_what_it_needs()) return Outcome::later;
  for (Target& target : targets_) {
    target.lane = transport_.ranks()->lanes[target.rank];
    if (!target.direct) target.part->set_written_by_lane(true);
  }
  if (!call_.open()) return Outcome::is_over;  // who fails it from here on leaves words to the lanes
  const NcclRanks& ranks = *transport_.ranks();
  if (ranks.boxes.suit(call_.share(0).request)) way_ = Way::boxes;
  check_along();
  if (suits_copies(ranks, call_)) way_ = Way::copies;
  come_behind_all();
  stage();
  way_ == Way::boxes ? reduce_in_boxes() : way_ == Way::copies ? copy_parts() : call_nccl();
  go_on();
  is_with_nccl_ = true;
  watch_ends();
  return Outcome::handed;
}

bool Handing::take_along(detail::CollectiveCall& call) {
  const NcclRanks& ranks = *transport_.ranks();
  const CollectiveRequest& first = call_.share(0).request;
  const CollectiveRequest& next = call.share(0).request;
  const auto parts = call.parts();
  if (!call.open() || parts.size() != targets_.size() || !ranks.boxes.suit(first) || !ranks.boxes.suit(next)) {
    return false;
  }
  const BoxReduce one = box_reduce_of(first), other = box_reduce_of(next);
  if (blocks_ == 0) blocks_ = blocks_of(one);
  const std::size_t blocks = blocks_ + blocks_of(other);
  if (one.type != other.type || one.operation != other.operation || blocks > most_box_parts || !is_apart(call)) {
    return false;
  }
  Along along{&call, {}};
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const NcclPart& mine = *targets_[i].part;
    auto part = std::static_pointer_cast<NcclPart>(parts[i].own);
    const bool together = &part->queue() == &mine.queue() && part->behind == mine.behind && !part->times && !mine.times;
    const CollectiveRequest& request = call.share(i).request;
    if (!together || part->over() || part->state() != NcclPart::State::deferred ||
        mine.state() != NcclPart::State::deferred || needs_staging(request.in, true) ||
        needs_staging(request.out, true)) {
      return false;
    }
    along.parts.push_back(std::move(part));
  }
  along_.push_back(std::move(along));
  blocks_ = blocks;
  return true;
}

/// Whether none of its arrays is written by those that are taken, or the other way.
bool Handing::is_apart(const detail::CollectiveCall& call) const {
  const auto is_apart_from = [&](const detail::CollectiveCall& other) {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      if (!are_apart(call.share(i).request, other.share(i).request)) return false;
    }
    return true;
  };
  return is_apart_from(call_) &&
         std::all_of(along_.begin(), along_.end(), [&](const Along& one) { return is_apart_from(*one.call); });
}

/// They are in streams that nothing stands in the way of, and nobody has failed them; else this call is done alone, or without those.
void Handing::check_along() {
  const bool all_direct = std::all_of(targets_.begin(), targets_.end(), [](const Target& one) { return one.direct; });
  const auto first_gone = std::find_if(along_.begin(), along_.end(), [](const Along& one) {
    return !one.call->open() || std::any_of(one.parts.begin(), one.parts.end(), [](const auto& part) {
      return part->state() != NcclPart::State::deferred;
    });
  });
  along_.erase(all_direct && way_ == Way::boxes ? first_gone : along_.begin(), along_.end());
}

bool Handing::come_to_part(Target& target) {
  if (target.part->state() != NcclPart::State::deferred) return true;
  CudaQueue& queue = target.part->queue();
  target.direct = std::any_of(targets_.begin(), targets_.end(),
                              [&](const Target& other) { return other.taken && &other.part->queue() == &queue; });
  if (target.direct) return true;
  target.taken = queue.deferred().try_take();
  if (!target.taken) return target.part->state() != NcclPart::State::deferred;
  target.direct = target.part->state() == NcclPart::State::deferred;
  return true;
}

bool Handing::take_parts() {
  return std::all_of(targets_.begin(), targets_.end(), [&](Target& target) { return come_to_part(target); });
}

/// Its own streams may wait for it, where it could not be made before: then there is nothing to wait for.
bool Handing::make_what_it_needs() {
  NcclRanks& ranks = *transport_.ranks();
  if (ranks.made.load(std::memory_order_relaxed)) return true;
  const bool stands = std::any_of(targets_.begin(), targets_.end(),
                                  [](const Target& target) { return target.part->state() == NcclPart::State::held; });
  const Making making(stands || !ranks.comms.empty());
  if (making.begun()) make_ranks(ranks, where_);
  return making.begun();
}

/// NCCL's streams, and what they wait for before it.
void Handing::come_behind_all() {
  const bool nothing = moves_nothing(call_.share(0).request);
  last_.devices.resize(std::max(last_.devices.size(), static_cast<std::size_t>(driver().device_count)));
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    const CollectiveShare share = call_.share(i);
    const CollectiveRequest& request = share.request;
    const bool reduced = request.reduction != Reduction::none;
    CudaQueue& queue = target.part->queue();
    target.beside = !target.direct || (!nothing && ((reads(share) && needs_staging(request.in, reduced)) ||
                                                    ((writes(share) || request.kind == CollectiveKind::broadcast) &&
                                                     needs_staging(request.out, reduced))));
    if (target.direct && !target.part->marked()) mark_in_stream(target);
    target.stream = target.beside ? target.lane->stream(where_) : queue.stream_behind_deferred();
    if (!target.part->marked()) mark_in_lane(target);
  }
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    const int device = target.lane->device().index();
    if (target.beside) wait_in(target.stream, target.part->ready->get(), device, where_);
    const CollectiveShare share = call_.share(i);
    target.by_nccl = way_ == Way::nccl &&
                     (!has_two_sides(share.request.kind) || share.request.in.count() + share.request.out.count() != 0);
    const LastHanded::OfDevice& before = last_.devices[static_cast<std::size_t>(device)];
    // NCCL itself keeps the order of those of one communicator.
    const bool known =
        (before.tag == transport_.tag() && before.by_nccl && target.by_nccl) || before.stands_in(target.in());
    if (before.end != nullptr && !known) wait_in(target.stream, before.end->get(), device, where_);
    if (way_ != Way::copies && (is_ordered_by_data(share.request.kind) || (nothing && target.by_nccl))) continue;
    for (const Target& other : targets_) {
      if (&other != &target) wait_in(target.stream, other.part->ready->get(), device, where_);
    }
  }
}

/// Of one that nobody else comes behind, when its stream has come to it is when that was through with the collective before.
void Handing::mark_in_stream(Target& target) {
  CudaQueue& queue = target.part->queue();
  const LastHanded::OfDevice& before = last_.devices[static_cast<std::size_t>(queue.device().index())];
  const bool is_known = way_ == Way::boxes && !target.beside && target.part->behind_collective &&
                        target.part->times == nullptr && before.end != nullptr && before.stands_in(queue);
  target.part->mark(is_known ? before.end : queue.mark_place(target.part->times != nullptr, where_));
}

/// What was held with others comes behind those, all of which the device has been given.
void Handing::mark_in_lane(Target& target) {
  const int device = target.lane->device().index();
  wait_in(target.stream, target.part->before_row()->get(), device, where_);
  const LastHanded::OfDevice& before = last_.devices[static_cast<std::size_t>(device)];
  if (before.end != nullptr) wait_in(target.stream, before.end->get(), device, where_);
  auto place = detail::make_recycled<StockEvent>(target.lane->device(), target.part->times != nullptr, where_);
  check(record_in(target.stream, place->get(), device), handing, target.lane->label(), where_);
  target.part->mark(std::move(place));
}

void Handing::stage() {
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    Target& target = targets_[i];
    const CollectiveShare share = call_.share(i);
    if (moves_nothing(share.request)) continue;
    std::tie(target.from, target.to) = staging_.bring_in(*target.lane, share);
  }
}

void Handing::call_nccl() {
  const DeviceScope scope(targets_.front().lane->device().index());
  const detail::LockGuard whole(group_launches());
  check_nccl(nccl().GroupStart(), "ncclGroupStart", where_);
  NcclResult answer = NcclResult::success;
  for (std::size_t i = 0; i < targets_.size() && answer == NcclResult::success; ++i)
    answer = call_nccl(targets_[i], call_.share(i));
  const NcclResult end = nccl().GroupEnd();
  check_nccl(answer, "a call of NCCL", where_);
  check_nccl(end, "ncclGroupEnd", where_);
}

void Handing::reduce_in_boxes() {
  std::array<ReduceBoxes::Side, most_box_ranks> sides;
  for (std::size_t i = 0; i < targets_.size(); ++i) {
    const Target& target = targets_[i];
    sides[i] = {target.rank, target.from, target.to, target.stream};
  }
  const std::span all = std::span(sides).first(targets_.size());
  std::vector<std::vector<BoxPiece>> pieces;
  if (!along_.empty()) pieces.resize(targets_.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].push_back({all[i].from, all[i].to, call_.share(i).request.in.count(), 0});
    for (const Along& one : along_) {
      const CollectiveRequest& request = one.call->share(i).request;
      pieces[i].push_back({request.in.data, request.out.data, request.in.count(), 0});
    }
  }
  const detail::LockGuard whole(group_launches());
  transport_.ranks()->boxes.reduce(call_.share(0).request, all, pieces, where_);
}

void Handing::copy_parts() {
  std::vector<GatherSide> sides;
  for (const Target& target : targets_) {
    sides.push_back({target.lane, target.stream, target.from, target.to});
  }
  const detail::CollectiveOperand in = call_.share(0).request.in;
  gather_by_copies(sides, in.count() * in.layout.element_bytes, where_);
}

NcclResult Handing::call_nccl(const Target& target, const CollectiveShare& share) {
  const NcclRanks& ranks = *transport_.ranks();
  if (moves_nothing(share.request)) {
    void* const scratch = ranks.scratch[target.rank];
    if (!target.by_nccl) return NcclResult::success;
    return nccl().AllReduce(scratch, scratch, 1, NcclType::u8, NcclOperation::sum, ranks.comms[target.rank],
                            target.stream);
  }
  return call_nccl_for(
      share, {ranks.comms[target.rank], target.rank, ranks.comms.size(), target.from, target.to, target.stream});
}

/// Before the stream goes on: who has waited for that may be told when it ran.
void Handing::note_times(const Target& target) noexcept {
  const NcclPart& part = *target.part;
  if (part.times == nullptr || !part.ready->timed()) return;
  try {
    CudaDevice& device = target.lane->device();
    auto end = detail::make_recycled<StockEvent>(device, true, where_);
    const cudaError_t answer = record_in(target.stream, end->get(), device.index());
    note(answer);
    if (answer == cudaSuccess) part.times->set(part.ready, std::move(end));
  } catch (...) {
    // It is not told when it ran.
  }
}

/// What every stream goes on behind.
void Handing::go_on() {
  staging_.take_out();
  for (Target& target : targets_) {
    NcclPart& part = *target.part;
    CudaDevice& device = target.lane->device();
    note_times(target);
    if (!target.direct) check(write_word(target.stream, part, device.index()), handing, target.lane->label(), where_);
    target.end = detail::make_recycled<StockEvent>(device, false, where_);
    check(record_in(target.stream, target.end->get(), device.index()), handing, target.lane->label(), where_);
    if (target.direct) {
      if (target.beside) part.queue().come_behind(target.end->get(), handing, where_);
      part.set_handed();
      part.queue().note_end_of_collective();
    }
    part.failures().set_tag(part.place(), transport_.tag());
    for (const Along& one : along_) {
      NcclPart& other = *one.parts[static_cast<std::size_t>(&target - targets_.data())];
      if (!other.marked()) other.mark(part.ready);
      other.set_handed();
      other.failures().set_tag(other.place(), transport_.tag());
    }
    last_.devices[static_cast<std::size_t>(device.index())] = {transport_.tag(), target.by_nccl, target.end,
                                                               &target.in(), target.in().owner()};
  }
}

void Handing::watch_ends() {
  std::vector<CallEnd::Part> parts;
  parts.reserve(targets_.size());
  for (const Target& target : targets_) parts.push_back({target.part, target.end});
  CudaQueue& lane = *targets_.front().lane;
  const cudaEvent_t first = targets_.front().end->get();
  std::vector<CallEnd::Along> along;
  along.reserve(along_.size());
  for (const Along& one : along_) along.push_back({CallRef(*one.call), one.parts});
  std::unique_ptr<Reached> reached =
      std::make_unique<CallEnd>(call_, transport_.ranks(), std::move(parts), std::move(along));
  // Those that wait for it are settled by it; else it is in nobody's way for a moment.
  const auto hurry = hurry_ ? Poller::Hurry::yes : Poller::Hurry::no;
  Poller::instance().add(&lane, lane.device().index(), first, reached, hurry);
}

}  // namespace weir::cuda
