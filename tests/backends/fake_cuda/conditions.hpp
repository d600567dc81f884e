// What kernels of the device side call.
#pragma once

#include <cuda_runtime_api.h>

namespace fake_cuda {

/// As cudaGraphSetConditional() of a kernel.
void set_conditional(cudaGraphConditionalHandle handle, unsigned value);

}  // namespace fake_cuda
