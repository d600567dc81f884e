// The block of a cooperative kernel: threads that share memory and go on in phases. Digestible by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weir/shape.hpp>
#include <weir/view.hpp>

// What a phase's contract promises, said to g++: clang would warn of each phase that it cannot vectorise, and nvcc's own
// passes leave no loop to say it of.
#if defined(__CUDACC__) || defined(__clang__)
#define WEIR_INDEPENDENT_ITERATIONS
#else
#define WEIR_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#endif

namespace weir {

namespace detail {
/// The shared and per-thread memory of the blocks that one CPU thread runs; grows, and is used again by later blocks.
class BlockMemory {
 public:
  BlockMemory() = default;
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  ~BlockMemory();

  /// Forgets what the previous block took; keeps the memory.
  void begin_block(std::size_t shared_bytes);
  /// Throws Error(invalid_value) where a block takes more than its launch's shared_bytes.
  void* take_shared(std::size_t bytes, std::size_t alignment);
  void* take_private(std::size_t bytes, std::size_t alignment);

 private:
  struct Arena {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    std::size_t used = 0;
  };
  struct Spill {
    Spill* next;
  };
  void release_spills();

  Arena shared_;
  Arena private_;
  std::size_t shared_limit_ = 0;
  Spill* spills_ = nullptr;
};
}  // namespace detail

/// One value per thread of the block, kept from phase to phase: `auto sum = block.each_own<float>(0); ... sum[t] += x`.
/// A phase uses the value of its own thread; capture it by reference.
template <class T>
class PerThread {
 public:
  WEIR_KERNEL PerThread(T* values, T initial) : values_(values), own_(initial) {}
  WEIR_KERNEL T& operator[]([[maybe_unused]] std::size_t thread) const {
#if defined(__CUDA_ARCH__)
    return own_;
#else
    return values_[thread];
#endif
  }

 private:
  T* values_;
  mutable T own_;  ///< on a GPU, where each thread has a block object of its own
};

/// What a cooperative kernel gets first: `void operator()(weir::Block& block, args...) const`. Its body is a sequence of
/// phases, `block.each([&](std::size_t thread) {...})`: every thread of the block runs the phase, and all have finished
/// it before the next begins (an implied barrier). All threads must reach the same phases. Same code on CPU and GPU.
class Block {
 public:
  Block(std::size_t index, std::size_t count, std::uint32_t threads, std::size_t shared_bytes,
        detail::BlockMemory& memory)
      : index_(index), count_(count), threads_(threads), memory_(&memory) {
    memory.begin_block(shared_bytes);
  }
#if defined(__CUDACC__)
  /// On a GPU: the block of the calling thread.
  __device__ Block(std::size_t index, std::size_t count, std::uint32_t threads)
      : index_(index), count_(count), threads_(threads), memory_(nullptr) {}
#endif

  WEIR_KERNEL std::size_t index() const { return index_; }      ///< of this block in the launch
  WEIR_KERNEL std::size_t count() const { return count_; }      ///< blocks of the launch
  WEIR_KERNEL std::size_t threads() const { return threads_; }  ///< threads of each block

  /// One phase, with a barrier after it. Its threads run in any order and at the same time: none may touch what another
  /// one writes in the same phase, but by atomic operations. On the CPU a phase is a loop over the threads, which the
  /// compiler vectorises where every thread makes the same number of steps.
  template <class Phase>
  WEIR_KERNEL void each(Phase&& phase) const {
#if defined(__CUDA_ARCH__)
    phase(static_cast<std::size_t>(threadIdx.x));
    __syncthreads();
#else
    const std::size_t count = threads_;
    WEIR_INDEPENDENT_ITERATIONS
    for (std::size_t thread = 0; thread < count; ++thread) phase(thread);
#endif
  }

  /// `count` elements of the block's shared memory, zeroed never. Call it outside of phases, in the same order by every
  /// thread; the sum of all calls is limited by the launch's shared_bytes: taking more throws Error(invalid_value) on the
  /// CPU and stops the kernel, as device_failed, on a GPU.
  template <class T>
  WEIR_KERNEL View<T> shared(std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>, "shared memory holds trivially copyable types");
#if defined(__CUDA_ARCH__)
    return View<T>(static_cast<T*>(take_shared(count * sizeof(T), alignof(T))), count);
#else
    return View<T>(static_cast<T*>(memory_->take_shared(count * sizeof(T), alignof(T))), count);
#endif
  }

  /// A variable of every thread that lives through all phases.
  template <class T>
  WEIR_KERNEL PerThread<T> each_own(T initial) const {
    static_assert(std::is_trivially_copyable_v<T>, "per-thread variables are trivially copyable");
#if defined(__CUDA_ARCH__)
    return PerThread<T>(nullptr, initial);
#else
    T* values = static_cast<T*>(memory_->take_private(threads_ * sizeof(T), alignof(T)));
    for (std::size_t thread = 0; thread < threads_; ++thread) values[thread] = initial;
    return PerThread<T>(values, initial);
#endif
  }

 private:
#if defined(__CUDACC__)
  __device__ void* take_shared([[maybe_unused]] std::size_t bytes, [[maybe_unused]] std::size_t alignment) const {
#if defined(__CUDA_ARCH__)
    extern __shared__ unsigned long long weir_shared_memory[];
    unsigned available;
    asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(available));
    const std::size_t begin = (shared_used_ + alignment - 1) / alignment * alignment;
    if (begin + bytes > available) __trap();
    shared_used_ = static_cast<std::uint32_t>(begin + bytes);
    return reinterpret_cast<char*>(weir_shared_memory) + begin;
#else
    return nullptr;
#endif
  }
#endif

  std::size_t index_;
  std::size_t count_;
  std::uint32_t threads_;
  [[maybe_unused]] mutable std::uint32_t shared_used_ =
      0;  ///< on a GPU: the same in all threads, which make the same calls
  detail::BlockMemory* memory_;
};

}  // namespace weir

#undef WEIR_INDEPENDENT_ITERATIONS
