// Events: a driver's event that is kept with its state, and what its last record means for failures.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "backend.hpp"

namespace weir::cuda {

class CudaQueue;

struct CudaEvent final : detail::EventState {
  std::atomic<cudaEvent_t> native{nullptr};  ///< made at the first record
  std::atomic<bool> recorded{false};
  std::atomic<CudaQueue*> queue{nullptr};  ///< of the last record, if something in it may fail
  std::atomic<std::uint64_t> place{0};
  // Where the last record is, for those who follow the events of one queue in their order; null: nobody knows.
  std::atomic<CudaQueue*> recorder{nullptr};
  std::atomic<std::uint64_t> number{0};
  /// Of a timed event: what forks a capture, since its own record is a node there. Under the core's lock of captures.
  cudaEvent_t fork = nullptr;
  int graphs = 0;       ///< that record it in their replays; guarded by the device's lock of events, as the next
  bool closed = false;  ///< nobody's but theirs: used again once they are gone

  /// The driver's event, made if it was not.
  cudaEvent_t made(SourceLocation where);
};

}  // namespace weir::cuda
