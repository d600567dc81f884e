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
};

}  // namespace weir::cuda
