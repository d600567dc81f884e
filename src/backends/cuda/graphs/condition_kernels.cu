// One thread each, in front of a conditional node or at the end of a loop's body.
#include "backends/cuda/graphs/condition_kernels.hpp"

#include <weir/kernel.hpp>

namespace weir::cuda {

namespace {

constexpr unsigned no_body = ~0u;

__global__ void set_condition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number,
                              const detail::DeviceGuard guard) {
  // A body whose commands are skipped would never change the value: its loop would have no end.
  if (detail::skipped(guard)) {
    cudaGraphSetConditional(handle, number ? no_body : 0u);
    return;
  }
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

ValueCondition::ValueCondition(cudaGraphConditionalHandle h, const std::int32_t* v, bool n,
                               const detail::DeviceGuard& g)
    : handle(h), value(v), number(n), guard(g), arguments{&handle, &value, &number, &guard} {
  parameters.func = reinterpret_cast<void*>(&set_condition);
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
}

cudaError_t ValueCondition::launch(cudaStream_t stream) const {
  return cudaLaunchKernel(parameters.func, parameters.gridDim, parameters.blockDim, parameters.kernelParams, 0, stream);
}

UnfailedCondition::UnfailedCondition(cudaGraphConditionalHandle h, const detail::DeviceGuard& g)
    : handle(h), guard(g), arguments{&handle, &guard} {
  parameters.func = reinterpret_cast<void*>(&set_unfailed);
  parameters.gridDim = parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
}

cudaError_t load_condition_kernels() {
  cudaFuncAttributes attributes;
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&set_condition));
  if (answer != cudaSuccess) return answer;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&set_unfailed));
}

}  // namespace weir::cuda
