#include "backends/cuda/collectives/reduce_boxes.hpp"

#include <algorithm>
#include <atomic>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/peer_gather.hpp"
#include "backends/cuda/collectives/reduce_parts.hpp"
#include "backends/cuda/collectives/staging.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicators";
constexpr const char* reducing = "weir: a collective";

/// Of a driver's pool of its own, which all devices reach: nothing changes in who reaches the user's memory.
void* make_box(CudaDevice& device, const std::vector<CudaDevice*>& all, CudaQueue& lane, SourceLocation where) {
  const DeviceScope scope(device.index());
  const std::size_t bytes = box_bytes(all.size());
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = device.index();
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &props), making, device.name(), where);
  for (const CudaDevice* peer : all) {
    if (peer == &device) continue;
    cudaMemAccessDesc access{};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = peer->index();
    access.flags = cudaMemAccessFlagsProtReadWrite;
    check(cudaMemPoolSetAccess(pool, &access, 1), making, device.name(), where);
  }
  void* box = nullptr;
  const cudaStream_t stream = lane.stream(where);
  check(cudaMallocFromPoolAsync(&box, bytes, pool, stream), making, device.name(), where);
  check(cudaMemsetAsync(box, 0, bytes, stream), making, device.name(), where);
  lane.wait_for_all(making, where);
  return box;
}

}  // namespace

void ReduceBoxes::make(const std::vector<CudaDevice*>& devices, const std::vector<CudaQueue*>& lanes,
                       SourceLocation where) {
  if (stop_ != nullptr || devices.size() < 2 || devices.size() > most_box_ranks || !all_reach_all(devices)) return;
  for (std::size_t r = boxes_.size(); r < devices.size(); ++r) {
    boxes_.push_back(make_box(*devices[r], devices, *lanes[r], where));
    devices_.push_back(devices[r]->index());
  }
  void* word = nullptr;
  check(cudaHostAlloc(&word, sizeof *stop_, cudaHostAllocPortable | cudaHostAllocMapped), making,
        devices.front()->name(), where);
  stop_ = static_cast<std::uint32_t*>(word);
  *stop_ = 0;
}

bool fits_boxes(const detail::CollectiveRequest& request) {
  if (request.kind != detail::CollectiveKind::all_reduce) return false;
  const std::size_t count = request.in.count();
  return count != 0 && count <= most_box_bytes / nccl_elements(request.in, true).bytes;
}

bool are_apart(const detail::CollectiveRequest& a, const detail::CollectiveRequest& b) {
  const auto meets = [](const detail::CollectiveOperand& x, const detail::CollectiveOperand& y) {
    return x.data < y.data + y.count() * y.layout.element_bytes && y.data < x.data + x.count() * x.layout.element_bytes;
  };
  return !meets(a.out, b.out) && !meets(a.out, b.in) && !meets(a.in, b.out);
}

BoxReduce box_reduce_of(const detail::CollectiveRequest& request) {
  BoxReduce share{};
  share.count = request.in.count();
  share.type = nccl_elements(request.in, true).type;
  share.operation = nccl_operation(request.reduction);
  return share;
}

bool ReduceBoxes::suit(const detail::CollectiveRequest& request) const {
  return stop_ != nullptr && fits_boxes(request);
}

void ReduceBoxes::reduce(const detail::CollectiveRequest& request, std::span<const Side> sides,
                         std::span<const std::vector<BoxPiece>> pieces, SourceLocation where) const {
  BoxReduce share = box_reduce_of(request);
  std::copy(boxes_.begin(), boxes_.end(), share.boxes);
  share.ranks = static_cast<std::uint32_t>(boxes_.size());
  share.stop = stop_;
  share.stop_at = 1;
  for (const Side& side : sides) {
    share.rank = static_cast<std::uint32_t>(side.rank);
    share.from = side.from;
    share.to = side.to;
    if (!pieces.empty()) {
      const std::vector<BoxPiece>& all = pieces[static_cast<std::size_t>(&side - sides.data())];
      check(launch_box_reduces(share, all, devices_[side.rank], side.stream), reducing, "a stream", where);
      continue;
    }
    check(launch_box_reduce(share, devices_[side.rank], side.stream), reducing, "a stream", where);
  }
}

void ReduceBoxes::stop() noexcept {
  if (stop_ != nullptr) std::atomic_ref(*stop_).store(1, std::memory_order_relaxed);
}

}  // namespace weir::cuda
