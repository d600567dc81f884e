// all_gather of large parts by copies between GPUs that reach each other: they leave the multiprocessors alone, and move more
// a second than NCCL's kernels do.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include <weir/error.hpp>

#include "collective_call.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;
struct NcclRanks;

bool all_reach_all(const std::vector<CudaDevice*>& devices);

/// Whether copies do a call better than NCCL does: every GPU reaches every other one's memory, and the parts are dense and large.
bool suits_copies(const NcclRanks& ranks, const detail::CollectiveCall& call);

/// One rank's side. Its stream stands behind what every rank's part comes behind; it may be its lane's.
struct GatherSide {
  CudaQueue* lane = nullptr;      ///< for copies from other GPUs
  cudaStream_t stream = nullptr;  ///< for that of its own part
  const void* from = nullptr;
  void* to = nullptr;
};

/// The driver makes what a stream's first copy from another GPU needs, which may wait for all kernels: to be done for each lane when a
/// communicator is made. Nothing where a GPU does not reach another one's memory.
void prepare_copies(const NcclRanks& ranks, SourceLocation where);

/// `sides` in the order of ranks, `bytes` of each. Behind it each stream comes behind all copies that read or write its rank's memory.
void gather_by_copies(std::span<const GatherSide> sides, std::size_t bytes, SourceLocation where);

}  // namespace weir::cuda
