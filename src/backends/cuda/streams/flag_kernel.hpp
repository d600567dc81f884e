// A kernel that brings a stream's word of failure to the device.
#pragma once

#include <cuda_runtime_api.h>

namespace weir::cuda {

/// From pinned memory to memory of the current device.
cudaError_t launch_fetch_flag(const volatile unsigned long long* from, volatile unsigned long long* to,
                              cudaStream_t stream);
/// So that no first launch has to wait for running kernels (R66).
cudaError_t load_flag_kernel();

}  // namespace weir::cuda
