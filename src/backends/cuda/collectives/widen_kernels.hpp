// Integers of 16 bits, which NCCL does not reduce, as such of 32, and back: sums, products and extremes are the same.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace weir::cuda {

/// Kernels on the current device.
cudaError_t launch_widen(void* to, const void* from, std::size_t count, bool is_signed, cudaStream_t stream);
cudaError_t launch_narrow(void* to, const void* from, std::size_t count, cudaStream_t stream);
/// Loads all of them, so that no first launch has to wait for running kernels (R66).
cudaError_t load_widen_kernels();

}  // namespace weir::cuda
