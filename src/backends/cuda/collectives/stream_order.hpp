// Events between the streams of a collective: the driver's own calls, which need no current device where they succeed.
#pragma once

#include <cuda_runtime_api.h>

#include <weir/error.hpp>

#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"

namespace weir::cuda {

inline cudaError_t record_in(cudaStream_t stream, cudaEvent_t event, int device) {
  if (driver().record_event(event, stream) == CUDA_SUCCESS) return cudaSuccess;
  const DeviceScope scope(device);
  return cudaEventRecord(event, stream);
}

inline void wait_in(cudaStream_t stream, cudaEvent_t event, int device, SourceLocation where) {
  if (driver().wait_for_event(stream, event, CU_EVENT_WAIT_DEFAULT) == CUDA_SUCCESS) return;
  const DeviceScope scope(device);
  check(cudaStreamWaitEvent(stream, event, cudaEventWaitDefault), "weir: a collective", "a stream", where);
}

}  // namespace weir::cuda
