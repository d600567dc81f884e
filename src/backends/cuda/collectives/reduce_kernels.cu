// A block for each part.
#include "backends/cuda/collectives/reduce_kernels.hpp"

#include <cuda/atomic>

#include "backends/cuda/collectives/reduce_parts.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"

namespace weir::cuda {

namespace {

constexpr unsigned most_threads = 256;
constexpr unsigned looks_between_stops = 1024;

using Mark = ::cuda::atomic_ref<std::uint64_t, ::cuda::thread_scope_system>;

__device__ bool is_stopped(const BoxReduce& share) {
  return *static_cast<const volatile std::uint32_t*>(share.stop) == share.stop_at;
}

/// Whether a rank's elements have come; false: nobody is to wait for them.
__device__ bool wait_for(std::uint64_t& come, std::uint64_t called, const BoxReduce& share) {
  const Mark mark(come);
  for (unsigned looks = 1; mark.load(::cuda::memory_order_acquire) != called; ++looks) {
    if (looks % looks_between_stops == 0 && is_stopped(share)) return false;
  }
  return true;
}

/// One answer for the block: what it gives is whole.
__device__ bool gives_nothing(const BoxReduce& share) {
  if (share.guard.failed_at == nullptr || !__syncthreads_or(threadIdx.x == 0 && detail::skipped(share.guard))) {
    return false;
  }
  while (!is_stopped(share)) __nanosleep(1000);
  return true;
}

/// Of so many calls in a row; part_at(i) is the i-th. False: nobody is to wait for what has not come.
template <class F>
__device__ bool reduce_parts(const BoxReduce& share, std::uint32_t calls, F&& part_at) {
  for (std::uint32_t at = 0; at < calls; ++at) {
    const auto part = part_at(at);
    // Each begins with the next rank: none is written to by all at once.
    for (std::uint32_t step = 1; step < share.ranks; ++step) {
      auto* const there = part.elements((share.rank + step) % share.ranks, share.rank);
      for (std::uint32_t i = threadIdx.x; i < part.count; i += blockDim.x) there[i] = part.from[i];
    }
  }
  __syncthreads();
  const std::uint32_t marks = calls * share.ranks;
  for (std::uint32_t i = threadIdx.x; i < marks; i += blockDim.x) {
    const std::uint32_t other = i % share.ranks;
    if (other == share.rank) continue;
    const auto part = part_at(i / share.ranks);
    Mark(part.come(other, share.rank)).store(part.called(), ::cuda::memory_order_release);
  }
  bool come = true;
  for (std::uint32_t i = threadIdx.x; i < marks && come; i += blockDim.x) {
    const std::uint32_t other = i % share.ranks;
    if (other == share.rank) continue;
    const auto part = part_at(i / share.ranks);
    come = wait_for(part.come(share.rank, other), part.called(), share);
  }
  if (__syncthreads_and(come) == 0) return false;
  for (std::uint32_t at = 0; at < calls; ++at) {
    const auto part = part_at(at);
    for (std::uint32_t i = threadIdx.x; i < part.count; i += blockDim.x) part.to[i] = reduced(part, i);
  }
  __syncthreads();  // the number of the last call is read by all
  if (threadIdx.x == 0) part_at(0).head(share.rank).calls += calls;
  return true;
}

template <class T>
__global__ void box_reduce(const __grid_constant__ BoxReduce share) {
  if (gives_nothing(share)) return;
  const BoxPart<T> part(share, blockIdx.x);
  reduce_parts(share, 1, [&](std::uint32_t) { return part; });
}

template <class T>
__global__ void box_reduces(const __grid_constant__ BoxReduces all) {
  if (gives_nothing(all.common)) return;
  const BoxPart<T> part = part_of<T>(all, blockIdx.x);
  reduce_parts(all.common, 1, [&](std::uint32_t) { return part; });
}

template <class T>
__global__ void box_row(const __grid_constant__ BoxReduces all) {
  if (gives_nothing(all.common)) return;
  for (std::uint32_t first = 0; first < all.pieces;) {
    const std::uint32_t calls = given_at_once<T>(all, first, blockIdx.x);
    const bool is_done = calls == 0 || reduce_parts(all.common, calls, [&](std::uint32_t i) {
                           return BoxPart<T>(all.common, blockIdx.x, all.piece[first + i], blockIdx.x, i);
                         });
    if (!is_done) return;
    first += calls == 0 ? 1 : calls;
    __syncthreads();  // the number of the last call was written by one
  }
}

constexpr int types = static_cast<int>(NcclType::bf16) + 1;
constexpr int most_devices = 64;
/// Of the devices that were started.
enum Calls { one, several, row, ways };
CUfunction functions[most_devices][ways][types];

const void* kernel_of(Calls calls, NcclType type) {
  return with_element(type, [&](auto element) {
    using T = decltype(element);
    switch (calls) {
      case several: return reinterpret_cast<const void*>(&box_reduces<T>);
      case row: return reinterpret_cast<const void*>(&box_row<T>);
      default: return reinterpret_cast<const void*>(&box_reduce<T>);
    }
  });
}

cudaError_t launch(Calls calls, NcclType type, BoxGrid grid, void* argument, int device, cudaStream_t stream) {
  constexpr unsigned warp = 32;
  const auto warps = static_cast<unsigned>((grid.of_block + warp - 1) / warp);
  const unsigned threads = warps * warp < most_threads ? warps * warp : most_threads;
  void* arguments[] = {argument};
  if (device < most_devices &&
      driver().launch_kernel(functions[device][calls][static_cast<int>(type)], grid.blocks, 1, 1, threads, 1, 1, 0,
                             stream, arguments, nullptr) == CUDA_SUCCESS) {
    return cudaSuccess;
  }
  const DeviceScope scope(device);
  return cudaLaunchKernel(kernel_of(calls, type), dim3(grid.blocks), dim3(threads), arguments, 0, stream);
}

}  // namespace

cudaError_t launch_box_reduce(const BoxReduce& share, int device, cudaStream_t stream) {
  const unsigned blocks = blocks_of(share);
  const BoxGrid grid{blocks, blocks > 1 ? part_elements(share) : share.count};
  return launch(one, share.type, grid, const_cast<BoxReduce*>(&share), device, stream);
}

cudaError_t launch_box_reduces(const BoxReduce& common, std::span<const BoxPiece> pieces, int device,
                               cudaStream_t stream) {
  BoxReduces all;
  const BoxGrid grid = grid_of(common, pieces, BoxBlocks::of_each, all);
  return launch(several, common.type, grid, &all, device, stream);
}

cudaError_t launch_box_row(const BoxReduce& common, std::span<const BoxPiece> pieces, int device, cudaStream_t stream) {
  BoxReduces all;
  const BoxGrid grid = grid_of(common, pieces, BoxBlocks::same, all);
  return launch(row, common.type, grid, &all, device, stream);
}

cudaError_t load_reduce_kernels(int device) {
  if (device >= most_devices) return cudaSuccess;
  for (int i = 0; i < ways * types; ++i) {
    const void* const kernel = kernel_of(static_cast<Calls>(i / types), static_cast<NcclType>(i % types));
    cudaFuncAttributes attributes;  // which the driver knows only of what it has loaded
    cudaError_t answer = cudaFuncGetAttributes(&attributes, kernel);
    if (answer == cudaSuccess) answer = cudaGetFuncBySymbol(&functions[device][i / types][i % types], kernel);
    if (answer != cudaSuccess) return answer;
  }
  return cudaSuccess;
}

}  // namespace weir::cuda
