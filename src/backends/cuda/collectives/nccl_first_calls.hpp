// A communicator's first calls of each kind, made while nothing of its collectives is held.
#pragma once

#include <cstddef>
#include <vector>

#include "backends/cuda/collectives/nccl_transport.hpp"

namespace weir::cuda {

/// With each kind's first call NCCL connects ranks, and with a kernel's first launch the driver may make its stacks larger:
/// both wait for running kernels, and for a stream that waits for the collective itself they would wait for ever. So the first
/// calls are made here, of a few bytes in the lanes, and are over when this returns. One caller for each rank of this process; where
/// those are all, under the lock of CallOrder.
struct FirstCaller {
  std::size_t rank;
  std::size_t size;
  NcclLibrary::Comm comm;
  char* scratch;  ///< a byte for each rank, and one more
  CudaQueue* lane;
};
void make_first_calls(const std::vector<FirstCaller>& here, SourceLocation where);

/// Stacks as large as NCCL's kernels need them are made with its communicators, and none smaller than they were.
class StackLimits {
 public:
  explicit StackLimits(const std::vector<CudaDevice*>& devices);
  ~StackLimits();
  StackLimits(const StackLimits&) = delete;
  StackLimits& operator=(const StackLimits&) = delete;

 private:
  const std::vector<CudaDevice*>& devices_;
  std::vector<std::size_t> before_;
};

}  // namespace weir::cuda
