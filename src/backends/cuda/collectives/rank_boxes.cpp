#include "backends/cuda/collectives/rank_boxes.hpp"

#include <algorithm>
#include <array>
#include <string>
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

/// The stream comes to the part, and then the kernel ends.
class KernelEnd final : public Reached, public detail::Recycled<KernelEnd> {
 public:
  KernelEnd(detail::CollectiveCall& call, std::shared_ptr<NcclPart> part, std::shared_ptr<StockEvent> end,
            std::shared_ptr<std::atomic<bool>> spoiled)
      : call_(call), part_(std::move(part)), end_(std::move(end)), spoiled_(std::move(spoiled)) {}

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
  }

 private:
  void come(cudaError_t answer) noexcept {
    has_come_ = true;
    note_arrival(call_->parts()[0], answer);
  }

  const CallRef call_;
  const std::shared_ptr<NcclPart> part_;
  const std::shared_ptr<StockEvent> end_;
  const std::shared_ptr<std::atomic<bool>> spoiled_;
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

void RankBoxes::launch(detail::CollectiveCall& call, const Place& place) {
  const detail::CollectiveShare share = call.share(0);
  const SourceLocation where = share.where;
  CudaQueue& queue = place.queue;
  CudaDevice& device = queue.device();
  NcclPart& part = *place.part;
  const RoomCall room;
  const DeviceScope scope(device.index());
  const detail::LockGuard guard(mutex_);
  const bool known = last_.end != nullptr && last_.stands_in(queue);
  const bool timed = part.times != nullptr;
  part.mark(known && place.behind_collective && !timed ? last_.end : queue.mark_place(timed, where));
  if (last_.end != nullptr && !known) wait_in(place.stream, last_.end->get(), device.index(), where);
  auto end = detail::make_recycled<StockEvent>(device, timed, where);
  const cudaEvent_t event = end->get();
  std::unique_ptr<Reached> reached = std::make_unique<KernelEnd>(call, place.part, end, spoiled_);
  Staging staging(where);
  const auto [from, to] = staging.bring_in(queue, share);
  part.hold_by_kernel(where);
  BoxReduce job = box_reduce_of(share.request);
  std::copy(std::begin(boxes_), std::end(boxes_), job.boxes);
  job.rank = rank_;
  job.ranks = ranks_;
  job.stop = &part.row().word().reached;
  job.stop_at = part.row().count();
  job.key = call.launch()->key;
  job.guard = place.guard;
  job.from = from;
  job.to = to;
  check(launch_box_reduce(job, device.index(), place.stream), reducing, queue.label(), where);
  staging.take_out();
  check(record_in(place.stream, event, device.index()), reducing, queue.label(), where);
  if (timed) part.times->set(part.ready, end);
  last_ = {tag_, false, std::move(end), &queue, queue.owner()};
  queue.note_end_of_collective();
  Poller::instance().add(&part, device.index(), event, reached);
}

}  // namespace weir::cuda
