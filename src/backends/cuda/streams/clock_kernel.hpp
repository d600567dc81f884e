// A kernel that says what time it is on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <weir/detail/device_code.hpp>

namespace weir::cuda {

/// Notes it in pinned memory. On the current device.
cudaError_t launch_note_time(detail::KernelTimes* to, cudaStream_t stream);
/// So that no first launch has to wait for running kernels (R66).
cudaError_t load_clock_kernel();

}  // namespace weir::cuda
