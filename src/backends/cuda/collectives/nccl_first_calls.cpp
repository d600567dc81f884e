#include "backends/cuda/collectives/nccl_first_calls.hpp"

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicators";

using Comm = NcclLibrary::Comm;

/// In its lane.
struct Rank {
  explicit Rank(const FirstCaller& one, SourceLocation where)
      : number(one.rank), size(one.size), comm(one.comm), scratch(one.scratch), lane(one.lane->stream(where)) {}
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

void make_first_calls(const std::vector<FirstCaller>& here, SourceLocation where) {
  for (const FirstCall call : first_calls) {
    const detail::LockGuard whole(group_launches());
    check_nccl(nccl().GroupStart(), "ncclGroupStart", where);
    NcclResult answer = NcclResult::success;
    for (std::size_t i = 0; i < here.size() && answer == NcclResult::success; ++i) answer = call(Rank(here[i], where));
    const NcclResult end = nccl().GroupEnd();
    check_nccl(answer, "a communicator's first calls", where);
    check_nccl(end, "ncclGroupEnd", where);
  }
  for (const FirstCaller& one : here) {
    const DeviceScope scope(one.lane->device().index());
    check(cudaStreamSynchronize(one.lane->stream(where)), making, one.lane->label(), where);
  }
}

StackLimits::StackLimits(const std::vector<CudaDevice*>& devices) : devices_(devices) {
  for (const CudaDevice* device : devices) {
    const DeviceScope scope(device->index());
    std::size_t bytes = 0;
    note(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    before_.push_back(bytes);
  }
}

StackLimits::~StackLimits() {
  for (std::size_t r = 0; r < before_.size(); ++r) {
    const DeviceScope scope(devices_[r]->index());
    std::size_t bytes = 0;
    note(cudaDeviceGetLimit(&bytes, cudaLimitStackSize));
    if (bytes < before_[r]) note(cudaDeviceSetLimit(cudaLimitStackSize, before_[r]));
  }
}

}  // namespace weir::cuda
