// One thread, in front of a conditional node or at the end of a loop's body.
#include "backends/cuda/condition_kernels.hpp"

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

}  // namespace

cudaError_t launch_set_condition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number,
                                 cudaStream_t stream) {
  void* arguments[] = {&handle, &value, &number};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&set_condition), dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t load_condition_kernels() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&set_condition));
}

}  // namespace weir::cuda
