// What nvcc adds to a kernel: its entry point on a GPU, and how a backend finds it. Part of kernel.hpp where nvcc is at
// work; the declarations at the top are for backends too.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace weir::detail {

/// The size of a launch of one dimension. Elements below `plain` are computed by blocks that ask nothing else: views are
/// dense and there is no guard. It is the count where nobody notes times, either; it leaves out those of the blocks that
/// note them, and is 0 where all blocks are careful.
struct DeviceCount {
  std::uint64_t plain;
  std::uint64_t count;
  std::uint32_t careful;  ///< 1: the first block is, too, and has the last elements
  std::uint32_t alone;    ///< 1: of a grid of one block that notes times; its views are dense, and there is no guard
};

/// The last blocks of a grid, as many as a GPU can have at once, note when they end: all of a large grid's would take turns
/// at one word.
inline constexpr std::uint32_t ending_blocks = 2112;

/// The sizes of a launch of 2 to 4 dimensions, with what turns a linear index into one of each dimension: a division by a
/// constant is a multiplication and a shift as long as there are fewer than 2^31 elements.
struct DeviceExtent {
  std::uint64_t plain;  ///< as in DeviceCount, and 0 where the extent is not narrow
  std::uint64_t count;
  std::uint32_t careful;
  std::uint32_t alone;
  std::uint64_t size[4];
  std::uint32_t factor[4];
  std::uint32_t shift[4];
  std::uint32_t narrow;  ///< fewer than 2^31 elements
};

/// When a kernel ran, in nanoseconds of the device's timer, which only grows. Zero: not yet, or it was skipped.
struct KernelTimes {
  unsigned long long begin;
  unsigned long long end;
};

/// Commands behind a host function that may still fail look here first: they do nothing if their stream failed at or
/// before their place in it. Null: nothing can have failed.
struct DeviceGuard {
  const volatile unsigned long long* failed_at;
  unsigned long long place;
  KernelTimes* times = nullptr;  ///< where kernels with a functor note when they ran, if somebody wants to know
};

/// The device code of one kernel. Made by static initialisation in the program or library that holds the code; the backend
/// keeps in `loaded` what it knows about it.
struct DeviceCode {
  enum class Kind : std::uint8_t {
    line,    ///< (DeviceCount, closure, DeviceGuard)
    shaped,  ///< (DeviceExtent, closure, DeviceGuard)
    blocks,  ///< (BlockSizes, closure, DeviceGuard)
    global,  ///< the closure is a GlobalCall
    file     ///< stands for all kernels of its file, those of CUB and of the user's __global__ functions too
  };

  DeviceCode(Kind k, int (*l)(void**), bool (*d)(const void*) = nullptr);

  Kind kind;
  /// Whether the plain way of the kernel is right for a closure: its views are dense. Null: for each.
  bool (*dense)(const void* closure);
  /// Finds the function in the current device: in the runtime library that is linked to the code itself, for there may be
  /// several in one process. Returns a cudaError_t.
  int (*load)(void** function);
  std::atomic<void*> loaded{nullptr};
  DeviceCode* next = nullptr;
};

/// A launch of a __global__ function of the user's, or of several by an algorithm of the device's.
struct GlobalCall {
  const void* function;  ///< as the runtime that is linked to the code knows it
  unsigned grid[3];
  unsigned block[3];
  std::size_t shared_bytes;
  void** arguments;                                ///< the caller's
  int (*launch)(const GlobalCall&, void* stream);  ///< enqueues the work; returns a cudaError_t
  /// For graphs, which enqueue it later: a copy of the arguments, until it is forgotten.
  void** (*copy)(void** arguments);
  void (*forget)(void** arguments) noexcept;
  /// Not null: do nothing but set it where an earlier host function may still fail.
  bool* declined;
};

}  // namespace weir::detail

#if defined(__CUDACC__)

#include <weir/kernel.hpp>

namespace weir::detail {

/// The word does not change while a kernel runs that heeds it, so each multiprocessor's cache may have it: all warps of a large
/// grid would take turns at it elsewhere, which takes longer than what they are there for.
__device__ inline bool skipped(const DeviceGuard& guard) {
  return guard.failed_at != nullptr && *const_cast<const unsigned long long*>(guard.failed_at) <= guard.place;
}

__device__ inline unsigned long long device_timer() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)::"memory");
  return now;
}

/// Of the first block, which begins before the others.
__device__ inline void note_begin(const DeviceGuard& guard) {
  if (guard.times != nullptr && threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) {
    guard.times->begin = device_timer();
  }
}

/// The linear block of a grid whose y continues where x ends.
__device__ inline std::size_t linear_block() { return static_cast<std::size_t>(blockIdx.y) * gridDim.x + blockIdx.x; }

/// By all threads of the block. The greatest of those of the first block and of the last ones.
__device__ inline void note_end(const DeviceGuard& guard) {
  if (guard.times == nullptr) return;
  const std::size_t blocks = static_cast<std::size_t>(gridDim.y) * gridDim.x;
  const std::size_t block = linear_block();
  if (block != 0 && blocks - block > ending_blocks) return;
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (blocks == 1) {
    guard.times->end = device_timer();
  } else {
    atomicMax(&guard.times->end, device_timer());
  }
}

/// The same of the only block of a grid, whose times are noted: a short kernel feels each question.
__device__ inline void note_begin_alone(const DeviceGuard& guard) {
  if (threadIdx.x == 0) guard.times->begin = device_timer();
}
__device__ inline void note_end_alone(const DeviceGuard& guard) {
  __syncthreads();
  if (threadIdx.x == 0) guard.times->end = device_timer();
}

/// The element of a thread in a block that is careful.
__device__ inline std::size_t careful_element(std::uint32_t careful) {
  const std::size_t blocks = static_cast<std::size_t>(gridDim.y) * gridDim.x;
  const std::size_t block = linear_block();
  return (block < careful ? blocks - 1 : block - careful) * blockDim.x + threadIdx.x;
}

/// Calls the closure for one index; its views are dense, so that the strides become constants, as on the CPU.
template <class C, class I>
__device__ void call_dense_element(const C& closure, const I& index) {
  if constexpr (has_strides<C>) {
    C local = closure;
    assume_all_unit_stride(local.arguments);
    local.call_on_device(I(index));
  } else {
    closure.call_on_device(I(index));
  }
}

/// The same, whether they are dense or not, unless it is known that they are.
template <class C, class I>
__device__ void call_element(const C& closure, const I& index, bool known_dense) {
  if constexpr (has_strides<C>) {
    if (!known_dense && !all_unit_stride(closure.arguments)) {
      closure.call_on_device(I(index));
      return;
    }
  }
  call_dense_element(closure, index);
}

// A short kernel is bound by what it has to fetch: the plain way comes first and asks nothing else, and what it is told of
// the size comes before the closure, in the first line of the parameters. Each question more, and a second line, made a
// kernel in a chain 0.03 to 0.06 us longer.
template <class C>
__global__ void run_line_on_device(const __grid_constant__ DeviceCount size, const __grid_constant__ C closure,
                                   const DeviceGuard guard) {
  std::size_t i = static_cast<std::size_t>(blockIdx.x - size.careful) * blockDim.x + threadIdx.x;
  if (i < size.plain) {
    call_dense_element(closure, i);
    return;
  }
  if (size.plain == size.count) return;
  const bool alone = size.alone != 0;
  if (alone) {
    note_begin_alone(guard);
  } else {
    if (skipped(guard)) return;
    note_begin(guard);
    i = careful_element(size.careful);
  }
  if (i < size.count) call_element(closure, i, alone);
  alone ? note_end_alone(guard) : note_end(guard);
}

/// The element of a launch of several dimensions and fewer than 2^31 elements.
template <std::size_t R>
__device__ Index<R> narrow_index_of(const DeviceExtent& extent, std::uint32_t linear) {
  Index<R> index;
#pragma unroll
  for (std::size_t d = R - 1; d > 0; --d) {
    const std::uint32_t quotient = (__umulhi(linear, extent.factor[d]) + linear) >> extent.shift[d];
    index.value[d] = linear - quotient * static_cast<std::uint32_t>(extent.size[d]);
    linear = quotient;
  }
  index.value[0] = linear;
  return index;
}

template <std::size_t R>
__device__ Index<R> index_of(const DeviceExtent& extent, std::size_t linear) {
  if (extent.narrow != 0) return narrow_index_of<R>(extent, static_cast<std::uint32_t>(linear));
  Index<R> index;
#pragma unroll
  for (std::size_t d = R - 1; d > 0; --d) {
    index.value[d] = linear % extent.size[d];
    linear /= extent.size[d];
  }
  index.value[0] = linear;
  return index;
}

template <class C, std::size_t R>
__global__ void run_shaped_on_device(const __grid_constant__ DeviceExtent extent, const __grid_constant__ C closure,
                                     const DeviceGuard guard) {
  std::size_t linear = static_cast<std::size_t>(blockIdx.x - extent.careful) * blockDim.x + threadIdx.x;
  if (linear < extent.plain) {
    call_dense_element(closure, narrow_index_of<R>(extent, static_cast<std::uint32_t>(linear)));
    return;
  }
  if (extent.plain == extent.count) return;
  const bool alone = extent.alone != 0;
  if (alone) {
    note_begin_alone(guard);
  } else {
    if (skipped(guard)) return;
    note_begin(guard);
    linear = careful_element(extent.careful);
  }
  if (linear < extent.count) call_element(closure, index_of<R>(extent, linear), alone);
  alone ? note_end_alone(guard) : note_end(guard);
}

template <class C>
__global__ void __launch_bounds__(1024)
    run_blocks_on_device(const __grid_constant__ BlockSizes sizes, const __grid_constant__ C closure,
                         const DeviceGuard guard) {
  if (skipped(guard)) return;
  note_begin(guard);
  const std::size_t index = linear_block();
  if (index < sizes.count) {
    Block block(index, sizes);
    closure.call_on_device(block);
  }
  note_end(guard);
}

template <class C, std::size_t R>
constexpr DeviceCode::Kind device_kind() {
  return R == 0 ? DeviceCode::Kind::blocks : R == 1 ? DeviceCode::Kind::line : DeviceCode::Kind::shaped;
}

template <class C, std::size_t R>
const void* device_symbol() {
  if constexpr (R == 0) {
    return reinterpret_cast<const void*>(&run_blocks_on_device<C>);
  } else if constexpr (R == 1) {
    return reinterpret_cast<const void*>(&run_line_on_device<C>);
  } else {
    return reinterpret_cast<const void*>(&run_shaped_on_device<C, R>);
  }
}

inline int load_symbol(const void* symbol, void** function) {
  cudaFunction_t found = nullptr;
  const cudaError_t answer = cudaGetFuncBySymbol(&found, symbol);
  *function = found;
  if (answer != cudaSuccess) static_cast<void>(cudaGetLastError());
  return answer;
}

template <class C, std::size_t R>
int load_device_code(void** function) {
  return load_symbol(device_symbol<C, R>(), function);
}

template <class C, std::size_t R>
inline DeviceCode device_code_object{device_kind<C, R>(), &load_device_code<C, R>, test_of_density<C>()};

template <class C, std::size_t R>
constexpr const void* find_device_code() {
  if constexpr (is_host_only<C>) {
    return nullptr;
  } else {
    return &device_code_object<C, R>;
  }
}

template <class C, std::size_t R>
inline constexpr const void* device_code<C, R, DeviceCompiler> = find_device_code<C, R>();

// In every file, not inline: each has device code of its own, also of templates that others instantiate.
namespace {

__global__ void this_file() {}
int load_this_file(void** function) { return load_symbol(reinterpret_cast<const void*>(&this_file), function); }
DeviceCode code_of_this_file{DeviceCode::Kind::file, &load_this_file};

}  // namespace

}  // namespace weir::detail

#endif
