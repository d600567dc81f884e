// Which of NCCL's calls a collective is, for one rank.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/nccl_library.hpp"
#include "collective_call.hpp"

namespace weir::cuda {

struct NcclSide {
  NcclLibrary::Comm comm;
  std::size_t rank;
  std::size_t size;
  void* from;
  void* to;
  cudaStream_t stream;
};

/// Whether an array of the rank is read, or written; for a broadcast its only one.
bool reads(const detail::CollectiveShare& share);
bool writes(const detail::CollectiveShare& share);
/// Of these NCCL is told nothing where nothing moves.
bool has_two_sides(detail::CollectiveKind kind);
bool moves_nothing(const detail::CollectiveRequest& request);

/// Whether every rank's NCCL kernel comes behind all ranks' streams by what it needs of them.
bool is_ordered_by_data(detail::CollectiveKind kind);

NcclOperation nccl_operation(detail::Reduction reduction);
/// In a group of NCCL's. Not for what moves nothing.
NcclResult call_nccl_for(const detail::CollectiveShare& share, const NcclSide& side);

}  // namespace weir::cuda
