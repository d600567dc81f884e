// One thread for each unit; 32-bit arithmetic where the job is small enough.
#include "backends/cuda/memory/strided_kernels.hpp"

#include <weir/kernel.hpp>

namespace weir::cuda {

namespace {

constexpr unsigned block_threads = 256;
constexpr std::uint64_t most_blocks = 0x7fffffff;

template <class Number>
__device__ void offsets_of(const StridedJob& job, Number linear, std::int64_t& to, std::int64_t& from,
                           std::uint64_t& last) {
  Number rest = linear;
  to = from = 0;
#pragma unroll
  for (int d = StridedJob::most_dimensions - 1; d >= 0; --d) {
    const Number size = static_cast<Number>(job.size[d]);
    Number index = rest;
    if (d > 0) {
      const Number quotient = size == 1 ? rest : rest / size;
      index = rest - quotient * size;
      rest = quotient;
    }
    if (d == StridedJob::most_dimensions - 1) last = index;
    to += static_cast<std::int64_t>(index) * job.to_stride[d];
    from += static_cast<std::int64_t>(index) * job.from_stride[d];
  }
}

__device__ bool place_of(const StridedJob& job, std::int64_t& to, std::int64_t& from, std::uint64_t& last) {
  const std::uint64_t linear = detail::linear_block() * blockDim.x + threadIdx.x;
  if (linear >= job.count) return false;
  if (job.count <= 0xffffffffu) {
    offsets_of(job, static_cast<std::uint32_t>(linear), to, from, last);
  } else {
    offsets_of(job, linear, to, from, last);
  }
  return true;
}

template <class Unit>
__global__ void copy_units(const __grid_constant__ StridedJob job, const detail::DeviceGuard guard) {
  std::int64_t to, from;
  std::uint64_t last;
  if (!place_of(job, to, from, last) || detail::skipped(guard)) return;
  *reinterpret_cast<Unit*>(static_cast<char*>(job.to) + to) =
      *reinterpret_cast<const Unit*>(static_cast<const char*>(job.from) + from);
}

template <class Unit>
__global__ void fill_units(const __grid_constant__ StridedJob job, const __grid_constant__ FillPattern pattern,
                           const detail::DeviceGuard guard) {
  std::int64_t to, from;
  std::uint64_t last;
  if (!place_of(job, to, from, last) || detail::skipped(guard)) return;
  const Unit* units = reinterpret_cast<const Unit*>(pattern.bytes);
  *reinterpret_cast<Unit*>(static_cast<char*>(job.to) + to) =
      pattern.units == 1 ? units[0] : units[last % pattern.units];
}

dim3 grid_of(std::uint64_t count) {
  const std::uint64_t blocks = (count + block_threads - 1) / block_threads;
  const std::uint64_t rows = (blocks + most_blocks - 1) / most_blocks;
  return dim3(static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks), static_cast<unsigned>(rows), 1);
}

cudaError_t launch(const void* kernel, std::uint64_t count, void** arguments, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid_of(count), dim3(block_threads), arguments, 0, stream);
}

template <template <class> class Pick>
const void* pick(std::size_t unit) {
  switch (unit) {
    case 1: return Pick<unsigned char>::kernel();
    case 2: return Pick<unsigned short>::kernel();
    case 4: return Pick<unsigned int>::kernel();
    case 8: return Pick<unsigned long long>::kernel();
    default: return Pick<uint4>::kernel();
  }
}
template <class Unit>
struct CopyKernel {
  static const void* kernel() { return reinterpret_cast<const void*>(&copy_units<Unit>); }
};
template <class Unit>
struct FillKernel {
  static const void* kernel() { return reinterpret_cast<const void*>(&fill_units<Unit>); }
};

}  // namespace

cudaError_t launch_strided_copy(const StridedJob& job, std::size_t unit, const detail::DeviceGuard& guard,
                                cudaStream_t stream) {
  void* arguments[] = {const_cast<StridedJob*>(&job), const_cast<detail::DeviceGuard*>(&guard)};
  return launch(pick<CopyKernel>(unit), job.count, arguments, stream);
}

cudaError_t launch_strided_fill(const StridedJob& job, std::size_t unit, const FillPattern& pattern,
                                const detail::DeviceGuard& guard, cudaStream_t stream) {
  void* arguments[] = {const_cast<StridedJob*>(&job), const_cast<FillPattern*>(&pattern),
                       const_cast<detail::DeviceGuard*>(&guard)};
  return launch(pick<FillKernel>(unit), job.count, arguments, stream);
}

cudaError_t load_strided_kernels() {
  for (const std::size_t unit : {1, 2, 4, 8, 16}) {
    for (const void* kernel : {pick<CopyKernel>(unit), pick<FillKernel>(unit)}) {
      cudaFuncAttributes attributes;
      const cudaError_t answer = cudaFuncGetAttributes(&attributes, kernel);
      if (answer != cudaSuccess) return answer;
    }
  }
  return cudaSuccess;
}

}  // namespace weir::cuda
