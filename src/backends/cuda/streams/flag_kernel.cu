#include "backends/cuda/streams/flag_kernel.hpp"

namespace weir::cuda {

namespace {

__global__ void fetch_flag(const volatile unsigned long long* from, volatile unsigned long long* to) { *to = *from; }

__global__ void lower_flag(const volatile unsigned long long* from, unsigned long long* to) { atomicMin(to, *from); }

}  // namespace

cudaError_t launch_fetch_flag(const volatile unsigned long long* from, volatile unsigned long long* to,
                              cudaStream_t stream) {
  void* arguments[] = {&from, &to};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&fetch_flag), dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t launch_lower_flag(const volatile unsigned long long* from, volatile unsigned long long* to,
                              cudaStream_t stream) {
  void* arguments[] = {&from, &to};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&lower_flag), dim3(1), dim3(1), arguments, 0, stream);
}

cudaError_t load_flag_kernel() {
  cudaFuncAttributes attributes;
  const cudaError_t answer = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&fetch_flag));
  if (answer != cudaSuccess) return answer;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&lower_flag));
}

}  // namespace weir::cuda
