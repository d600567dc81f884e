// all_reduce of little without NCCL: its launches alone take longer than such a call.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weir/error.hpp>

#include "backends/cuda/collectives/reduce_kernels.hpp"
#include "collective_call.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;

/// Whether an all_reduce has little enough.
bool fits_boxes(const detail::CollectiveRequest& request);
/// Whether neither of two calls writes what the other one has; all of it is dense.
bool are_apart(const detail::CollectiveRequest& a, const detail::CollectiveRequest& b);
/// What of its kernel's work the call says.
BoxReduce box_reduce_of(const detail::CollectiveRequest& request);

/// A box on each GPU of a communicator. Its memory is the process's until the end: a kernel may come to it when the communicator has
/// failed and is gone.
class ReduceBoxes {
 public:
  /// Nothing where a GPU does not reach another one's memory, or there are too many. The lanes are idle behind it.
  void make(const std::vector<CudaDevice*>& devices, const std::vector<CudaQueue*>& lanes, SourceLocation where);
  /// Whether a call is for them: by what one rank says, all of whose data is dense and none of 16 bits.
  bool suit(const detail::CollectiveRequest& request) const;

  struct Side {
    std::size_t rank;
    const void* from;
    void* to;
    cudaStream_t stream;
  };
  /// All ranks' kernels, in the streams, each behind what its rank's call before was given there. Under group_launches(). `pieces`:
  /// of several such calls, those of each side; empty: it is this one alone.
  void reduce(const detail::CollectiveRequest& request, std::span<const Side> sides,
              std::span<const std::vector<BoxPiece>> pieces, SourceLocation where) const;
  /// Kernels that wait for other ranks end.
  void stop() noexcept;

 private:
  std::vector<int> devices_;
  std::vector<void*> boxes_;
  std::uint32_t* stop_ = nullptr;  ///< null: there are none
};

}  // namespace weir::cuda
