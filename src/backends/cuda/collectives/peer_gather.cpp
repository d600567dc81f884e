// Copies of parts, each made by the rank that gets it.
#include "backends/cuda/collectives/peer_gather.hpp"

#include <algorithm>

#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/staging.hpp"
#include "backends/cuda/collectives/stream_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/stocks.hpp"

namespace weir::cuda {

namespace {

constexpr std::size_t least_part = std::size_t{8} << 20;  ///< bytes; below, NCCL's one kernel is there sooner

constexpr const char* gathering = "weir: a collective";

void copy_from_peer(CudaQueue& lane, void* to, CudaQueue& peer, const void* from, std::size_t bytes,
                    SourceLocation where) {
  const int device = lane.device().index();
  const DeviceScope scope(device);
  check(cudaMemcpyPeerAsync(to, device, from, peer.device().index(), bytes, lane.stream(where)), gathering,
        lane.label(), where);
}

/// In its stream, beside what comes from others. Nothing where it lies there already.
void copy_own(const GatherSide& side, char* to, std::size_t bytes, SourceLocation where) {
  if (side.from == to) return;
  const DeviceScope scope(side.lane->device().index());
  check(cudaMemcpyAsync(to, side.from, bytes, cudaMemcpyDefault, side.stream), gathering, side.lane->label(), where);
}

StockEvent event_behind(CudaQueue& lane, cudaStream_t stream, SourceLocation where) {
  CudaDevice& device = lane.device();
  StockEvent event(device, false, where);
  check(record_in(stream, event.get(), device.index()), gathering, lane.label(), where);
  return event;
}

}  // namespace

bool all_reach_all(const std::vector<CudaDevice*>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](const CudaDevice* device) {
    return std::all_of(devices.begin(), devices.end(),
                       [&](const CudaDevice* peer) { return peer == device || device->can_access(peer->index()); });
  });
}

bool suits_copies(const NcclRanks& ranks, const detail::CollectiveCall& call) {
  const std::size_t size = ranks.devices.size();
  for (std::size_t i = 0; i < size; ++i) {
    const detail::CollectiveRequest request = call.share(i).request;
    if (request.kind != detail::CollectiveKind::all_gather) return false;
    if (request.in.count() * request.in.layout.element_bytes < least_part) return false;
    if (needs_staging(request.in, false) || needs_staging(request.out, false)) return false;
  }
  return size > 1 && all_reach_all(ranks.devices);
}

void prepare_copies(const NcclRanks& ranks, SourceLocation where) {
  if (!all_reach_all(ranks.devices)) return;
  for (std::size_t to = 0; to < ranks.lanes.size(); ++to) {
    for (std::size_t from = 0; from < ranks.lanes.size(); ++from) {
      if (from == to) continue;
      // The other one reads where nobody writes.
      copy_from_peer(*ranks.lanes[to], static_cast<char*>(ranks.scratch[to]) + 128, *ranks.lanes[from],
                     ranks.scratch[from], 64, where);
    }
  }
  for (CudaQueue* lane : ranks.lanes) lane->wait_for_all(gathering, where);
}

void gather_by_copies(std::span<const GatherSide> sides, std::size_t bytes, SourceLocation where) {
  const std::size_t size = sides.size();
  std::vector<StockEvent> pulled;
  pulled.reserve(size);
  for (std::size_t to = 0; to < size; ++to) {
    const GatherSide& side = sides[to];
    char* const whole = static_cast<char*>(side.to);
    const cudaStream_t lane = side.lane->stream(where);
    if (lane != side.stream) {
      wait_in(lane, event_behind(*side.lane, side.stream, where).get(), side.lane->device().index(), where);
    }
    copy_own(side, whole + to * bytes, bytes, where);
    // Each begins with the next rank: no rank is read by all at once.
    for (std::size_t step = 1; step < size; ++step) {
      const std::size_t from = (to + step) % size;
      copy_from_peer(*side.lane, whole + from * bytes, *sides[from].lane, sides[from].from, bytes, where);
    }
    pulled.push_back(event_behind(*side.lane, lane, where));
  }
  for (const GatherSide& side : sides) {
    for (const StockEvent& event : pulled) wait_in(side.stream, event.get(), side.lane->device().index(), where);
  }
}

}  // namespace weir::cuda
