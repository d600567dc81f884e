// What decides which body of a conditional node runs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace weir::cuda {

/// Sets the handle of a conditional node from a device value: a truth, or the number of a body.
cudaError_t launch_set_condition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number,
                                 cudaStream_t stream);
/// Loads it, so that no first launch has to wait for running kernels (R66).
cudaError_t load_condition_kernels();

}  // namespace weir::cuda
