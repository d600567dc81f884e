// Blocks take chunks in turn, as many as there is room for on the device: one that has not begun yet holds up none.
#include "backends/cuda/memory/staged_kernels.hpp"

#include <algorithm>

namespace weir::cuda {

namespace {

constexpr unsigned blocks = 24;  // enough reads on their way to fill the link, on a fifth of a large GPU
constexpr unsigned threads = 512;

/// Zero between jobs.
struct Lane {
  unsigned next;   ///< chunk
  unsigned ended;  ///< blocks
};
__device__ Lane lanes[StagedJob::most_lanes];

__device__ void wait_for(const std::uint32_t* word, std::uint32_t value) {
  while (*static_cast<const volatile std::uint32_t*>(word) != value) __nanosleep(100);
  __threadfence_system();
}

__device__ void tell(std::uint32_t* word, std::uint32_t value) { *static_cast<volatile std::uint32_t*>(word) = value; }

/// Past the caches, which may hold what was in the ring before.
template <StagedWay way, class Unit>
__device__ Unit load(const Unit* from) {
  return way == StagedWay::in ? __ldcv(from) : *from;
}

/// By the whole block: bytes [head, size), in units of 16 but at both ends.
template <StagedWay way>
__device__ void move(char* to, const char* from, unsigned head, unsigned size) {
  constexpr unsigned at_once = 4;
  const unsigned first = (head + 15) / 16;
  const unsigned last = size / 16;
  uint4* const to_units = reinterpret_cast<uint4*>(to);
  const uint4* const from_units = reinterpret_cast<const uint4*>(from);
  unsigned i = first + threadIdx.x;
  for (; i + (at_once - 1) * threads < last; i += at_once * threads) {
    uint4 units[at_once];
#pragma unroll
    for (unsigned k = 0; k < at_once; ++k) units[k] = load<way>(from_units + i + k * threads);
#pragma unroll
    for (unsigned k = 0; k < at_once; ++k) to_units[i + k * threads] = units[k];
  }
  for (; i < last; i += threads) to_units[i] = load<way>(from_units + i);
  const unsigned head_end = min(first * 16, size);
  for (unsigned b = head + threadIdx.x; b < head_end; b += threads) to[b] = load<way>(from + b);
  for (unsigned b = max(last * 16, head_end) + threadIdx.x; b < size; b += threads) to[b] = load<way>(from + b);
}

template <StagedWay way>
__global__ void __launch_bounds__(threads)
    move_staged(const __grid_constant__ StagedJob job, const detail::DeviceGuard guard) {
  __shared__ std::uint32_t taken;
  __shared__ bool skips;
  Lane& lane = lanes[job.lane];
  if (threadIdx.x == 0) {
    skips = detail::skipped(guard);
    tell(&job.words->started, 1);
  }
  __syncthreads();
  while (!skips) {
    if (threadIdx.x == 0) {
      taken = atomicAdd(&lane.next, 1u);
      if (taken < job.chunks) {
        const StagedSlot& slot = job.words->slot[taken % StagedWords::slots];
        if (way == StagedWay::in) {
          wait_for(&slot.filled, taken + 1);
        } else if (taken >= StagedWords::slots) {
          wait_for(&slot.emptied, taken + 1 - StagedWords::slots);
        }
      }
    }
    __syncthreads();
    const std::uint32_t chunk = taken;
    if (chunk >= job.chunks) break;
    const std::uint64_t begin = std::uint64_t{chunk} * job.chunk_bytes;
    const std::uint64_t left = job.bytes - begin;
    const unsigned size = left < job.chunk_bytes ? static_cast<unsigned>(left) : job.chunk_bytes;
    const unsigned head = chunk == 0 ? job.skew : 0;
    char* const there = job.device + begin;
    char* const staged = job.ring + std::size_t{chunk % StagedWords::slots} * StagedJob::slot_bytes;
    if (way == StagedWay::in) {
      move<way>(there, staged, head, size);
    } else {
      move<way>(staged, there, head, size);
      __threadfence_system();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      StagedSlot& slot = job.words->slot[chunk % StagedWords::slots];
      tell(way == StagedWay::in ? &slot.emptied : &slot.filled, chunk + 1);
    }
  }
  if (threadIdx.x != 0) return;
  __threadfence_system();
  if (atomicInc(&lane.ended, gridDim.x - 1) != gridDim.x - 1) return;
  lane.next = 0;
  __threadfence_system();
  tell(&job.words->ended, skips ? StagedWords::skipped : StagedWords::done);
}

const void* kernel_for(StagedWay way) {
  return way == StagedWay::in ? reinterpret_cast<const void*>(&move_staged<StagedWay::in>)
                              : reinterpret_cast<const void*>(&move_staged<StagedWay::out>);
}

}  // namespace

cudaError_t launch_staged_copy(const StagedJob& job, StagedWay way, const detail::DeviceGuard& guard,
                               cudaStream_t stream) {
  void* arguments[] = {const_cast<StagedJob*>(&job), const_cast<detail::DeviceGuard*>(&guard)};
  // Blocks of kernels that began before come first, unless these are more urgent: a copy need not wait for a large kernel in
  // another stream (R17).
  static const int greatest_priority = [] {
    int least = 0;
    int greatest = 0;
    return cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess ? greatest : 0;
  }();
  cudaLaunchAttribute urgent{};
  urgent.id = cudaLaunchAttributePriority;
  urgent.val.priority = greatest_priority;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(std::min(blocks, job.chunks));
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &urgent;
  config.numAttrs = 1;
  const cudaError_t answer = cudaLaunchKernelExC(&config, kernel_for(way), arguments);
  if (answer != cudaErrorInvalidValue && answer != cudaErrorNotSupported) return answer;
  static_cast<void>(cudaGetLastError());
  config.numAttrs = 0;  // a driver that knows of no priorities of launches
  return cudaLaunchKernelExC(&config, kernel_for(way), arguments);
}

cudaError_t load_staged_kernels() {
  for (const StagedWay way : {StagedWay::in, StagedWay::out}) {
    cudaFuncAttributes attributes;
    const cudaError_t answer = cudaFuncGetAttributes(&attributes, kernel_for(way));
    if (answer != cudaSuccess) return answer;
  }
  return cudaSuccess;
}

}  // namespace weir::cuda
