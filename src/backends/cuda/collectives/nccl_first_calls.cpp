#include "backends/cuda/collectives/nccl_first_calls.hpp"

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicators";

using Comm = NcclLibrary::Comm;

struct Rank {
  std::size_t number;
  std::size_t size;
  Comm comm;
  char* scratch;
  cudaStream_t lane;
};

constexpr auto byte = NcclType::u8;

/// Itself, too: scatter and gather do.
NcclResult exchange_with_all(const Rank& rank) {
  for (std::size_t peer = 0; peer < rank.size; ++peer) {
    const auto number = static_cast<int>(peer);
    NcclResult answer = nccl().Send(rank.scratch, 1, byte, number, rank.comm, rank.lane);
    if (answer == NcclResult::success) {
      answer = nccl().Recv(rank.scratch + 1 + peer, 1, byte, number, rank.comm, rank.lane);
    }
    if (answer != NcclResult::success) return answer;
  }
  return NcclResult::success;
}

using FirstCall = NcclResult (*)(const Rank&);
constexpr FirstCall first_calls[] = {
    [](const Rank& r) { return nccl().AllReduce(r.scratch, r.scratch, 1, byte, NcclOperation::sum, r.comm, r.lane); },
    [](const Rank& r) { return nccl().Broadcast(r.scratch, r.scratch, 1, byte, 0, r.comm, r.lane); },
    [](const Rank& r) { return nccl().Reduce(r.scratch, r.scratch, 1, byte, NcclOperation::sum, 0, r.comm, r.lane); },
    [](const Rank& r) { return nccl().AllGather(r.scratch + r.number, r.scratch, 1, byte, r.comm, r.lane); },
    [](const Rank& r) {
      return nccl().ReduceScatter(r.scratch, r.scratch + r.number, 1, byte, NcclOperation::sum, r.comm, r.lane);
    },
    exchange_with_all,
};

}  // namespace

void make_first_calls(NcclRanks& ranks, SourceLocation where) {
  const std::size_t size = ranks.comms.size();
  for (const FirstCall call : first_calls) {
    const detail::LockGuard whole(group_launches());
    check_nccl(nccl().GroupStart(), "ncclGroupStart", where);
    NcclResult answer = NcclResult::success;
    for (std::size_t r = 0; r < size && answer == NcclResult::success; ++r) {
      answer = call({r, size, ranks.comms[r], static_cast<char*>(ranks.scratch[r]), ranks.lanes[r]->stream(where)});
    }
    const NcclResult end = nccl().GroupEnd();
    check_nccl(answer, "a communicator's first calls", where);
    check_nccl(end, "ncclGroupEnd", where);
  }
  for (std::size_t r = 0; r < size; ++r) {
    CudaQueue& lane = *ranks.lanes[r];
    const DeviceScope scope(lane.device().index());
    check(cudaStreamSynchronize(lane.stream(where)), making, lane.label(), where);
  }
}

StackLimits::StackLimits(const NcclRanks& ranks) : ranks_(ranks) {
  for (const CudaDevice* device : ranks.devices) {
    const DeviceScope scope(device->index());
    std::size_t bytes = 0;
    note(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    before_.push_back(bytes);
  }
}

StackLimits::~StackLimits() {
  for (std::size_t r = 0; r < before_.size(); ++r) {
    const DeviceScope scope(ranks_.devices[r]->index());
    std::size_t bytes = 0;
    note(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    if (bytes < before_[r]) note(cudaDeviceSetLimit(cudaLimitStackSize, before_[r]));
  }
}

}  // namespace weir::cuda
