// Kernels that bring a word of failure to the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace weir::cuda {

/// A read of the word in pinned memory costs each warp a microsecond, one after the other: kernels of more threads heed a copy
/// in memory of their device.
constexpr std::size_t most_distant_threads = 4096;

/// From pinned memory to memory of the current device.
cudaError_t launch_fetch_flag(const volatile unsigned long long* from, volatile unsigned long long* to,
                              cudaStream_t stream);
/// The same, but never to a later place than the one that is there: where branches of a graph bring it side by side, the one
/// that read it first may write it last.
cudaError_t launch_lower_flag(const volatile unsigned long long* from, volatile unsigned long long* to,
                              cudaStream_t stream);
/// So that no first launch has to wait for running kernels (R66).
cudaError_t load_flag_kernel();

}  // namespace weir::cuda
