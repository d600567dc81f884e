// What the threads of a block do together on a GPU: by shuffles within a warp, and by a few words of shared memory among
// warps. For the library; empty where nvcc is not at work.
#pragma once

#include <cstddef>

#if defined(__CUDACC__)

namespace weir::detail {

/// Memory of a block for one value per warp, twice. `warps` is written before the first of two barriers and read by the first
/// warp alone between them; `results` is written by that warp between them and read behind the second. So the next operation
/// of any type needs no barrier before it.
template <class T>
struct BlockScratch {
  T* warps;
  T* results;
};
template <std::size_t bytes, std::size_t alignment>
__device__ inline unsigned char* block_scratch() {
  alignas(alignment < 16 ? 16 : alignment) __shared__ unsigned char memory[bytes];
  return memory;
}
template <class T>
__device__ BlockScratch<T> scratch_of() {
  T* memory = reinterpret_cast<T*>(block_scratch<64 * sizeof(T), alignof(T)>());
  return {memory, memory + 32};
}

/// Shuffles of values of any size, word by word.
template <class T, class Shuffle>
__device__ T shuffle_words(const T& value, Shuffle shuffle) {
  constexpr std::size_t count = (sizeof(T) + sizeof(unsigned) - 1) / sizeof(unsigned);
  unsigned words[count] = {};
  memcpy(words, &value, sizeof(T));
  for (std::size_t i = 0; i < count; ++i) words[i] = shuffle(words[i]);
  T moved = value;
  memcpy(&moved, words, sizeof(T));
  return moved;
}
template <class T>
__device__ T shuffle_down(unsigned mask, const T& value, unsigned distance) {
  return shuffle_words(value, [=](unsigned word) { return __shfl_down_sync(mask, word, distance); });
}
template <class T>
__device__ T shuffle_up(unsigned mask, const T& value, unsigned distance) {
  return shuffle_words(value, [=](unsigned word) { return __shfl_up_sync(mask, word, distance); });
}

/// Where a thread is among the warps of its block.
struct WarpPlace {
  unsigned lane;
  unsigned warp;
  unsigned lanes;  ///< of this warp: the last one of a block may have fewer than 32
  unsigned warps;
  unsigned mask;

  __device__ WarpPlace(unsigned thread, unsigned threads)
      : lane(thread % 32), warp(thread / 32), lanes(threads - warp * 32), warps((threads + 31) / 32) {
    if (lanes > 32) lanes = 32;
    mask = lanes == 32 ? ~0u : (1u << lanes) - 1;
  }
};

/// The first lane gets all of the first `count` lanes; neighbours are combined first.
template <class T, class Op>
__device__ T reduce_in_warp(T value, const WarpPlace& at, unsigned count, const Op& op) {
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const T other = shuffle_down(at.mask, value, distance);
    if (at.lane + distance < count) value = static_cast<T>(op(value, other));
  }
  return value;
}
template <class T, class Op>
__device__ T scan_in_warp(T value, const WarpPlace& at, const Op& op) {
  for (unsigned distance = 1; distance < 32; distance *= 2) {
    const T other = shuffle_up(at.mask, value, distance);
    if (at.lane >= distance) value = static_cast<T>(op(other, value));
  }
  return value;
}

template <class T, class Op>
__device__ T reduce_in_block(T value, unsigned thread, unsigned threads, const Op& op) {
  const WarpPlace at(thread, threads);
  const BlockScratch<T> scratch = scratch_of<T>();
  value = reduce_in_warp(value, at, at.lanes, op);
  if (at.lane == 0) scratch.warps[at.warp] = value;
  __syncthreads();
  if (at.warp == 0) {
    if (at.lane < at.warps) value = scratch.warps[at.lane];
    value = reduce_in_warp(value, at, at.warps, op);
    if (at.lane == 0) scratch.results[0] = value;
  }
  __syncthreads();
  return scratch.results[0];
}

/// scan_in_warp of all threads; `before` becomes what the warps before have, for threads of all but the first warp.
template <class T, class Op>
__device__ T scan_warps(T value, T& before, const WarpPlace& at, const Op& op) {
  const BlockScratch<T> scratch = scratch_of<T>();
  const T sum = scan_in_warp(value, at, op);
  if (at.lane == at.lanes - 1) scratch.warps[at.warp] = sum;
  __syncthreads();
  if (at.warp == 0) {
    T total = at.lane < at.warps ? scratch.warps[at.lane] : value;
    total = scan_in_warp(total, at, op);
    if (at.lane < at.warps) scratch.results[at.lane] = total;
  }
  __syncthreads();
  if (at.warp != 0) before = scratch.results[at.warp - 1];
  return sum;
}

template <class T, class Op>
__device__ T scan_in_block(T value, unsigned thread, unsigned threads, const Op& op) {
  const WarpPlace at(thread, threads);
  T before = value;
  const T sum = scan_warps(value, before, at, op);
  return at.warp == 0 ? sum : static_cast<T>(op(before, sum));
}

template <class T, class Op>
__device__ T exclusive_scan_in_block(T value, const T& initial, unsigned thread, unsigned threads, const Op& op) {
  const WarpPlace at(thread, threads);
  T before = value;
  const T sum = scan_warps(value, before, at, op);
  T result = initial;
  if (at.warp != 0) result = static_cast<T>(op(result, before));
  const T previous = shuffle_up(at.mask, sum, 1);
  if (at.lane != 0) result = static_cast<T>(op(result, previous));
  return result;
}

/// `value()` is called by the thread that is the one.
template <class T, class Value>
__device__ T broadcast_in_block(const Value& value, bool is_the_one) {
  const BlockScratch<T> scratch = scratch_of<T>();
  __syncthreads();
  if (is_the_one) scratch.results[0] = value();
  __syncthreads();
  return scratch.results[0];
}

}  // namespace weir::detail

#endif
