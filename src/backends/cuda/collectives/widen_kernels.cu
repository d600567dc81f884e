// A thread for each integer.
#include "backends/cuda/collectives/widen_kernels.hpp"

#include <cstdint>

namespace weir::cuda {

namespace {

constexpr unsigned block_threads = 256;
constexpr std::size_t most_blocks = 65'536;

template <class To, class From>
__global__ void convert(To* to, const From* from, std::size_t count) {
  const std::size_t step = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    to[i] = static_cast<To>(from[i]);
  }
}

template <class To, class From>
cudaError_t launch(void* to, const void* from, std::size_t count, cudaStream_t stream) {
  const std::size_t blocks = (count + block_threads - 1) / block_threads;
  auto* out = static_cast<To*>(to);
  auto* in = static_cast<const From*>(from);
  void* arguments[] = {&out, &in, &count};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&convert<To, From>),
                          dim3(static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks)), dim3(block_threads),
                          arguments, 0, stream);
}

}  // namespace

cudaError_t launch_widen(void* to, const void* from, std::size_t count, bool is_signed, cudaStream_t stream) {
  return is_signed ? launch<std::int32_t, std::int16_t>(to, from, count, stream)
                   : launch<std::uint32_t, std::uint16_t>(to, from, count, stream);
}

cudaError_t launch_narrow(void* to, const void* from, std::size_t count, cudaStream_t stream) {
  return launch<std::uint16_t, std::uint32_t>(to, from, count, stream);
}

cudaError_t load_widen_kernels() {
  for (const void* kernel : {reinterpret_cast<const void*>(&convert<std::int32_t, std::int16_t>),
                             reinterpret_cast<const void*>(&convert<std::uint32_t, std::uint16_t>),
                             reinterpret_cast<const void*>(&convert<std::uint16_t, std::uint32_t>)}) {
    cudaFuncAttributes attributes;
    const cudaError_t answer = cudaFuncGetAttributes(&attributes, kernel);
    if (answer != cudaSuccess) return answer;
  }
  return cudaSuccess;
}

}  // namespace weir::cuda
