// One thread each, in front of a conditional node or at the end of a loop's body.
#include "backends/cuda/condition_kernels.hpp"

#include <weir/kernel.hpp>

namespace weir::cuda {

namespace {

constexpr unsigned no_body = ~0u;

__global__ void set_condition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number) {
  const std::int32_t present = *value;
  if (number) {
    cudaGraphSetConditional(handle, present < 0 ? no_body : static_cast<unsigned>(present));
  } else {
    cudaGraphSetConditional(handle, present != 0 ? 1u : 0u);
  }
}

__global__ void set_unfailed(cudaGraphConditionalHandle handle, const detail::DeviceGuard guard) {
  cudaGraphSetConditional(handle, detail::skipped(guard) ? 0u : 1u);
}

}  // namespace

UnfailedCondition::UnfailedCondition(cudaGraphConditionalHandle h, const detail::DeviceGuard& g)
    : handle(h), guard(g), arguments{&handle, &guard} {
  parameters.func = reinterpret_cast<void*>(&set_unfailed);
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
}

cudaError_t launch_set_condition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number,
                                 cudaStream_t stream) {
  void* arguments[] = {&handle, &value, &number};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&set_condition), dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t load_condition_kernels() {
  cudaFuncAttributes attributes;
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&set_condition));
  if (answer != cudaSuccess) return answer;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&set_unfailed));
}

}  // namespace weir::cuda
