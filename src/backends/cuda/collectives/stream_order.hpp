// Events between the streams of a collective: the driver's own calls, which need no current device where they succeed.
#pragma once

#include <cuda_runtime_api.h>

#include <weir/error.hpp>

#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/streams/signals.hpp"

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

/// The part's stream goes on when this one comes here, and when all that was held with the part is through.
inline cudaError_t write_word(cudaStream_t stream, NcclPart& part, int device) {
  if (!part.ends_row()) return cudaSuccess;
  const auto write = [&] {
    return driver().write_word(stream, reinterpret_cast<CUdeviceptr>(&part.row().word().reached), part.row().count(),
                               CU_STREAM_WRITE_VALUE_DEFAULT);
  };
  CUresult answer = write();
  if (answer != CUDA_SUCCESS) {
    const DeviceScope scope(device);  // it may want the context to be current
    answer = write();
  }
  return static_cast<cudaError_t>(answer);
}

}  // namespace weir::cuda
