#include "backends/cuda/collectives/rank_boxes.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <string>
#include <tuple>
#include <utility>

#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/collectives/rank_transport.hpp"
#include "backends/cuda/collectives/reduce_boxes.hpp"
#include "backends/cuda/collectives/reduce_parts.hpp"
#include "backends/cuda/collectives/staging.hpp"
#include "backends/cuda/collectives/stream_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "recycled.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicator";
constexpr const char* reducing = "weir: a collective";
/// Of what the driver shares: other memory of this process does not lie in it.
constexpr std::size_t shared_block = std::size_t{2} << 20;
constexpr std::uint64_t tags_of_processes = std::uint64_t{1} << 63;

std::atomic<std::uint64_t> next_tag{tags_of_processes};

/// Of a thread, in calls that are one unit.
struct Gathers {
  int depth = 0;
  RankBoxes* boxes = nullptr;  ///< where it has gathered last; of a communicator of the unit
};
constinit thread_local Gathers gathers;

/// The stream comes to the part, and to those of the next ones, which have the same kernel; and then that ends.
class KernelEnd final : public Reached, public detail::Recycled<KernelEnd> {
 public:
  KernelEnd(detail::CollectiveCall& call, std::shared_ptr<NcclPart> part, std::shared_ptr<StockEvent> end,
            std::shared_ptr<std::atomic<bool>> spoiled, std::unique_ptr<KernelEnd> next)
      : call_(call),
        part_(std::move(part)),
        end_(std::move(end)),
        spoiled_(std::move(spoiled)),
        next_(std::move(next)) {}

  cudaError_t ask() noexcept override {
    if (!has_come_) {
      const cudaError_t answer = cudaEventQuery(part_->ready->get());
      if (answer != cudaSuccess) return answer;
      come(answer);
    }
    return cudaEventQuery(end_->get());
  }
  void reached(cudaError_t answer) noexcept override {
    if (!has_come_) come(answer);
    if (part_->over()) spoiled_->store(true, std::memory_order_release);
    detail::RankMove& move = *call_->launch()->move;
    if (answer == cudaSuccess) {
      move.state.store(detail::RankMove::State::done, std::memory_order_release);
    } else {
      move.fail(std::string("CUDA says: ") + cudaGetErrorString(answer));
    }
    call_->look_again();
    if (next_ != nullptr) next_->reached(answer);
  }

 private:
  void come(cudaError_t answer) noexcept {
    has_come_ = true;
    note_arrival(call_->parts()[0], answer);
    if (next_ != nullptr) next_->come(answer);
  }

  const CallRef call_;
  const std::shared_ptr<NcclPart> part_;
  const std::shared_ptr<StockEvent> end_;
  const std::shared_ptr<std::atomic<bool>> spoiled_;
  const std::unique_ptr<KernelEnd> next_;
  bool has_come_ = false;
};

}  // namespace

RankBoxes::RankBoxes() : tag_(next_tag.fetch_add(1, std::memory_order_relaxed)) {}

void RankBoxes::open(const FirstCaller& opener, SourceLocation where) {
  if (opener.size < 2 || opener.size > most_box_ranks) return;
  CudaQueue& lane = *opener.lane;
  const DeviceScope scope(lane.device().index());
  void* box = nullptr;
  const std::size_t blocks = (box_bytes(opener.size) + shared_block - 1) / shared_block;
  check(cudaMalloc(&box, blocks * shared_block), making, lane.device().name(), where);
  rank_ = static_cast<std::uint32_t>(opener.rank);
  ranks_ = static_cast<std::uint32_t>(opener.size);
  if (exchange(opener, box, where)) open_.store(true, std::memory_order_release);
}

/// Handles by NCCL, and then whether all could be opened: only when all say so, every box is empty and there.
bool RankBoxes::exchange(const FirstCaller& opener, void* box, SourceLocation where) {
  CudaQueue& lane = *opener.lane;
  const cudaStream_t stream = lane.stream(where);
  const auto done = [&](cudaError_t answer) { check(answer, making, lane.label(), where); };
  std::array<cudaIpcMemHandle_t, most_box_ranks> handles{};
  constexpr std::size_t bytes = sizeof handles[0];
  bool reaches = cudaIpcGetMemHandle(&handles[opener.rank], box) == cudaSuccess;
  char* const own = static_cast<char*>(box) + opener.rank * bytes;
  done(cudaMemcpyAsync(own, &handles[opener.rank], bytes, cudaMemcpyHostToDevice, stream));
  {
    const detail::LockGuard whole(group_launches());
    check_nccl(nccl().AllGather(own, box, bytes, NcclType::u8, opener.comm, stream), "ncclAllGather", where);
  }
  done(cudaMemcpyAsync(handles.data(), box, opener.size * bytes, cudaMemcpyDeviceToHost, stream));
  done(cudaMemsetAsync(box, 0, box_bytes(opener.size), stream));
  done(cudaStreamSynchronize(stream));
  for (std::size_t r = 0; r < opener.size && reaches; ++r) {
    boxes_[r] = box;
    if (r == opener.rank) continue;
    reaches = cudaIpcOpenMemHandle(&boxes_[r], handles[r], cudaIpcMemLazyEnablePeerAccess) == cudaSuccess;
  }
  static_cast<void>(cudaGetLastError());
  unsigned char all = reaches ? 1 : 0;
  done(cudaMemcpyAsync(opener.scratch, &all, 1, cudaMemcpyHostToDevice, stream));
  {
    const detail::LockGuard whole(group_launches());
    check_nccl(
        nccl().AllReduce(opener.scratch, opener.scratch, 1, NcclType::u8, NcclOperation::minimum, opener.comm, stream),
        "ncclAllReduce", where);
  }
  done(cudaMemcpyAsync(&all, opener.scratch, 1, cudaMemcpyDeviceToHost, stream));
  done(cudaStreamSynchronize(stream));
  return all != 0;
}

bool RankBoxes::suit(const detail::CollectiveRequest& request) const {
  return open_.load(std::memory_order_acquire) && fits_boxes(request);
}

void RankBoxes::gather() noexcept { ++gathers.depth; }

void RankBoxes::give_out() noexcept {
  --gathers.depth;
  launch_gathered();
}

void RankBoxes::launch_gathered() noexcept {
  RankBoxes* const boxes = std::exchange(gathers.boxes, nullptr);
  if (boxes == nullptr) return;
  const detail::LockGuard guard(boxes->mutex_);
  if (boxes->row_by_ == &gathers) boxes->launch_row();
}

void RankBoxes::launch(detail::CollectiveCall& call, const Place& place) {
  // Ranks that do not gather have one order of all communicators' kernels.
  if (gathers.boxes != this) launch_gathered();
  const detail::CollectiveRequest& request = call.share(0).request;
  const bool gathered = gathers.depth > 0 && place.part->times == nullptr && !needs_staging(request.in, true) &&
                        !needs_staging(request.out, true);
  const detail::LockGuard guard(mutex_);
  if (!row_.empty() && !(gathered && joins_row(call, place))) launch_row();
  const BoxPiece piece{request.in.data, request.out.data, request.in.count(), call.launch()->key};
  if (!gathered) {
    // Nothing is counted for it here: the poller's core may have the call by the end of this.
    const Share alone{call, place.part, piece};
    return enter({&alone, 1}, place);
  }
  row_.push_back({CallRef(call), place.part, piece});
  if (row_.size() > 1) return;
  row_place_.emplace(place);
  row_by_ = &gathers;
  gathers.boxes = this;
}

bool RankBoxes::joins_row(const detail::CollectiveCall& call, const Place& place) const {
  if (row_by_ != &gathers || row_.size() == most_box_parts) return false;
  const Place& first = *row_place_;
  if (&place.queue != &first.queue || place.stream != first.stream || place.guard.failed_at != first.guard.failed_at ||
      place.guard.place != first.guard.place) {
    return false;
  }
  const detail::CollectiveRequest& request = call.share(0).request;
  const BoxReduce mine = box_reduce_of(request), others = box_reduce_of(row_.front().call->share(0).request);
  return mine.type == others.type && mine.operation == others.operation &&
         std::all_of(row_.begin(), row_.end(),
                     [&](const Gathered& one) { return are_apart(request, one.call->share(0).request); });
}

/// Their calls are made: what goes wrong is theirs.
void RankBoxes::launch_row() noexcept {
  try {
    std::vector<Share> shares;
    shares.reserve(row_.size());
    for (const Gathered& one : row_) shares.push_back({*one.call, one.part, one.piece});
    enter(shares, *row_place_);
  } catch (const std::exception& error) {
    for (const Gathered& one : row_) {
      note_arrival(one.call->parts()[0], cudaSuccess);
      one.call->launch()->move->fail(error.what());
      one.call->look_again();
    }
  }
  row_.clear();
  row_place_.reset();
  row_by_ = nullptr;
}

void RankBoxes::enter(std::span<const Share> shares, const Place& place) {
  const detail::CollectiveShare first = shares.front().call.share(0);
  const SourceLocation where = first.where;
  CudaQueue& queue = place.queue;
  CudaDevice& device = queue.device();
  const RoomCall room;
  const DeviceScope scope(device.index());
  const bool known = last_.end != nullptr && last_.stands_in(queue);
  const bool timed = place.part->times != nullptr;
  const auto before = known && place.behind_collective && !timed ? last_.end : queue.mark_place(timed, where);
  for (const Share& one : shares) one.part->mark(before);
  if (last_.end != nullptr && !known) wait_in(place.stream, last_.end->get(), device.index(), where);
  auto end = detail::make_recycled<StockEvent>(device, timed, where);
  const cudaEvent_t event = end->get();
  std::array<NcclPart*, most_box_parts> parts;
  std::unique_ptr<KernelEnd> ends;
  for (std::size_t i = shares.size(); i-- > 0;) {
    parts[i] = shares[i].part.get();
    ends = std::make_unique<KernelEnd>(shares[i].call, shares[i].part, end, spoiled_, std::move(ends));
  }
  std::unique_ptr<Reached> reached = std::move(ends);
  BoxReduce job = box_reduce_of(first.request);
  Staging staging(where);
  if (shares.size() == 1) std::tie(job.from, job.to) = staging.bring_in(queue, first);
  NcclPart::hold_by_kernel(std::span(parts).first(shares.size()), before, where);
  std::copy(std::begin(boxes_), std::end(boxes_), job.boxes);
  job.rank = rank_;
  job.ranks = ranks_;
  job.stop = &parts[0]->row().word().reached;
  job.stop_at = parts[0]->row().count();
  job.key = shares[0].piece.key;
  job.guard = place.guard;
  check(launch(job, shares, device.index(), place.stream), reducing, queue.label(), where);
  staging.take_out();
  check(record_in(place.stream, event, device.index()), reducing, queue.label(), where);
  if (timed) place.part->times->set(before, end);
  last_ = {tag_, false, std::move(end), &queue, queue.owner()};
  queue.note_end_of_collective();
  Poller::instance().add(parts[0], device.index(), event, reached);
}

cudaError_t RankBoxes::launch(const BoxReduce& job, std::span<const Share> shares, int device, cudaStream_t stream) {
  if (shares.size() == 1) return launch_box_reduce(job, device, stream);
  std::array<BoxPiece, most_box_parts> pieces;
  std::transform(shares.begin(), shares.end(), pieces.begin(), [](const Share& one) { return one.piece; });
  return launch_box_row(job, std::span(pieces).first(shares.size()), device, stream);
}

}  // namespace weir::cuda
