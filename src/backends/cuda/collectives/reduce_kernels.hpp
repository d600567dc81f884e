// all_reduce of little among GPUs that reach each other's memory: one kernel on each, which gives its elements to all others and folds
// what it gets.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include <weir/detail/device_code.hpp>

#include "backends/cuda/collectives/nccl_library.hpp"

namespace weir::cuda {

/// Each rank has a box on its device, which all ranks write to; zeroed when it is made, and changed by these kernels alone. A block
/// of a kernel has a part of the box for itself: the number of its last call, and for each of some calls in turn the elements of each rank
/// and whether they have come. A rank gives those of a call once it is through with the one so many before, most_ahead for the first
/// block of a row and one for all others. All others have given those of that one then, and are through with the one twice as many
/// before: room for twice as many is enough.
constexpr std::size_t most_box_ranks = 8;
constexpr std::size_t box_part_bytes = 8192;  ///< that one rank gives one block
constexpr std::size_t most_box_parts = 32;
constexpr std::uint32_t most_ahead = 16;
constexpr std::size_t most_box_bytes = most_box_parts * box_part_bytes;

/// One rank's share.
struct BoxReduce {
  void* boxes[most_box_ranks];  ///< in the order of ranks
  std::uint32_t rank;
  std::uint32_t ranks;
  /// Of the host. Once it has come to `stop_at`, kernels that wait for other ranks end, and leave results as they are; the boxes are of no
  /// use then.
  const std::uint32_t* stop;
  std::uint32_t stop_at;
  /// What the ranks call: to one that calls something else none comes.
  std::uint32_t key;
  detail::DeviceGuard guard;  ///< a rank whose stream has failed gives nothing, and waits until it is stopped
  const void* from;
  void* to;  ///< may be the same
  std::size_t count;
  NcclType type;
  NcclOperation operation;
};

/// What one of several calls has of a kernel.
struct BoxPiece {
  const void* from;
  void* to;  ///< may be the same
  std::size_t count;
  std::uint32_t key;
};
struct BoxReduces {
  BoxReduce common;  ///< but for its elements and its key
  std::uint32_t pieces;
  BoxPiece piece[most_box_parts];
};

/// Folded in the order of ranks. The ranks of a call are launched with nothing between them that
/// may wait for one, and a device has one call at a time: the next one comes behind it.
cudaError_t launch_box_reduce(const BoxReduce& share, int device, cudaStream_t stream);
/// The same for several calls at once, each in blocks of its own, which fit one box. None of them writes what another one has.
cudaError_t launch_box_reduces(const BoxReduce& common, std::span<const BoxPiece> pieces, int device,
                               cudaStream_t stream);
/// Several calls in the same blocks: to the other ranks' kernels they are as if each had one of its own. At most most_box_parts, and none of
/// them writes what another one has.
cudaError_t launch_box_row(const BoxReduce& common, std::span<const BoxPiece> pieces, int device, cudaStream_t stream);
/// Loads all of them for the device, which is current, so that no first launch has to wait for running kernels (R66).
cudaError_t load_reduce_kernels(int device);

}  // namespace weir::cuda
