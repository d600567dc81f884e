// Communicators that fail while NCCL has calls of theirs: their kernels are set free, and what NCCL had of them is freed later.
#pragma once

#include <condition_variable>
#include <memory>
#include <vector>

#include "backends/cuda/collectives/nccl_library.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
struct NcclRanks;

/// To stop one takes a while, and NCCL and the driver must not come down meanwhile.
class Stops {
 public:
  static Stops& instance();
  /// False: the process is ending, and the communicator ends with it.
  bool begin() noexcept;
  void end() noexcept;

 private:
  Stops();
  void close() noexcept;

  detail::Mutex mutex_;
  std::condition_variable_any ended_;
  int running_ WEIR_GUARDED_BY(mutex_) = 0;
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

/// A rank of a communicator that has failed. Its kernels may spin for others that do not come.
struct FailedRank {
  CudaDevice* device;
  NcclLibrary::Comm comm;
  int rank;
  void* scratch;  ///< two bytes that nobody uses
};

/// NCCL's revocation sets kernels free and frees nothing. Before 2.28.9 there is the abort alone. It frees what all ranks of the process
/// had once it was called for the last of them; the driver waits for all that runs on their GPUs then, and lets nobody launch. But before
/// that it waits for the end of graphs with kernels of theirs, as of 2.14: so each rank gets a kernel in a graph that is never launched.
/// While this lives, an abort frees nothing, and that of the last rank does not return.
class AbortHold {
 public:
  /// Throws weir::Error where NCCL does not wait for graphs, or refuses the kernel.
  explicit AbortHold(const FailedRank& rank);
  ~AbortHold();
  AbortHold(const AbortHold&) = delete;
  AbortHold& operator=(const AbortHold&) = delete;

 private:
  const int device_;
  cudaGraph_t graph_ = nullptr;
};

/// The kernels end early, whatever stands before others of theirs. Returns when threads for that are there; frees nothing.
void set_free(std::shared_ptr<NcclRanks> ranks, std::vector<FailedRank> failed);

/// What set_free() left, but for communicators of which a graph has kernels, or that have calls with NCCL still. The driver waits for
/// what runs on their GPUs: by who makes another communicator, which waits for that, too.
void free_what_failed();

}  // namespace weir::cuda
