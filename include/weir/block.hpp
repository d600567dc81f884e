// The block of a cooperative kernel: threads that share memory and go on in phases. Digestible by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <weir/block_device.hpp>
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

struct Plus;  // algorithm.hpp

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
  /// The end of what take_private() gave, and is given back last first; what is not goes with its block.
  void give_private(void* data) noexcept;

 private:
  struct Arena {
    std::byte* data = nullptr;
    std::size_t capacity = 0;
    std::size_t used = 0;
  };
  struct Spill {
    Spill* next;
    std::size_t bytes;
  };
  void release_spills();
  void release_first_spill();

  Arena shared_;
  Arena private_;
  std::size_t shared_limit_ = 0;
  Spill* spills_ = nullptr;
  std::size_t spilled_ = 0;       ///< bytes
  std::size_t most_private_ = 0;  ///< bytes that were in use at one time: the next block's arena holds them
};

/// Throws Error(invalid_value): a block has no thread of this number.
[[noreturn]] void refuse_thread(std::size_t thread, std::size_t threads);

template <class V>
inline constexpr bool is_per_thread = false;
}  // namespace detail

/// One value per thread of the block, kept from phase to phase: `auto sum = block.each_own<float>(0); ... sum[t] += x`.
/// A phase uses the value of its own thread; capture it by reference.
template <class T>
class PerThread {
 public:
  WEIR_KERNEL PerThread(T* values, T initial, detail::BlockMemory* memory)
      : values_(values), own_(initial), memory_(memory) {}
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  WEIR_KERNEL ~PerThread() {
#if !defined(__CUDA_ARCH__)
    memory_->give_private(values_);
#endif
  }
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
  [[maybe_unused]] detail::BlockMemory* memory_;
};

namespace detail {
template <class T>
inline constexpr bool is_per_thread<PerThread<T>> = true;

/// What a thread brings to an operation of its block: its own variable, or what a function of the thread returns.
template <class Value>
WEIR_KERNEL decltype(auto) value_at(const Value& value, std::size_t thread) {
  if constexpr (is_per_thread<Value>) {
    return value[thread];
  } else {
    return value(thread);
  }
}
template <class Value>
using ThreadValue = std::remove_cvref_t<decltype(value_at(std::declval<const Value&>(), std::size_t{}))>;
}  // namespace detail

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
    return PerThread<T>(nullptr, initial, nullptr);
#else
    T* values = take_private<T>();
    for (std::size_t thread = 0; thread < threads_; ++thread) values[thread] = initial;
    return PerThread<T>(values, initial, memory_);
#endif
  }

  // What the threads of a block do together. Called outside of phases, by all threads; each is a phase of its own, with a
  // barrier after it. `value` is an own variable (each_own), or a function of the thread: `[&](std::size_t t) { return x[t]; }`.
  // Values are trivially copyable, and of at most 256 bytes.

  /// v(0) op v(1) op ..., for every thread. op is associative; threads keep their order. Neighbours are combined first, in
  /// the same tree on every device.
  template <class Value, class Op = Plus>
  WEIR_KERNEL detail::ThreadValue<Value> reduce(const Value& value, const Op& op = {}) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    return detail::reduce_in_block<T>(detail::value_at(value, threadIdx.x), threadIdx.x, threads_, op);
#else
    T* values = take_private<T>();
    std::size_t count = threads_;
    WEIR_INDEPENDENT_ITERATIONS
    for (std::size_t thread = 0; thread < count; ++thread) values[thread] = detail::value_at(value, thread);
    while (count > 1) {
      const std::size_t pairs = count / 2;
      for (std::size_t i = 0; i < pairs; ++i) values[i] = static_cast<T>(op(values[2 * i], values[2 * i + 1]));
      if (count % 2 != 0) values[pairs] = values[count - 1];
      count -= pairs;
    }
    const T result = values[0];
    memory_->give_private(values);
    return result;
#endif
  }

  /// For each thread v(0) op ... op v(t), in its own variable: `auto sum = block.inclusive_scan(own); ... sum[t]`. op is
  /// associative; in which groups floating point is added differs between devices.
  template <class Value, class Op = Plus>
  WEIR_KERNEL PerThread<detail::ThreadValue<Value>> inclusive_scan(const Value& value, const Op& op = {}) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    return PerThread<T>(
        nullptr, detail::scan_in_block<T>(detail::value_at(value, threadIdx.x), threadIdx.x, threads_, op), nullptr);
#else
    T* values = take_private<T>();
    values[0] = detail::value_at(value, 0);
    for (std::size_t thread = 1; thread < threads_; ++thread) {
      values[thread] = static_cast<T>(op(values[thread - 1], detail::value_at(value, thread)));
    }
    return PerThread<T>(values, values[0], memory_);
#endif
  }

  /// For each thread initial op v(0) op ... op v(t - 1); for the first one `initial`. As inclusive_scan.
  template <class Value, class Op = Plus>
  WEIR_KERNEL PerThread<detail::ThreadValue<Value>> exclusive_scan(const Value& value,
                                                                   const detail::ThreadValue<Value>& initial = {},
                                                                   const Op& op = {}) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    return PerThread<T>(
        nullptr,
        detail::exclusive_scan_in_block<T>(detail::value_at(value, threadIdx.x), initial, threadIdx.x, threads_, op),
        nullptr);
#else
    T* values = take_private<T>();
    T sum = initial;
    for (std::size_t thread = 0; thread < threads_; ++thread) {
      const T next = static_cast<T>(op(sum, detail::value_at(value, thread)));
      values[thread] = sum;
      sum = next;
    }
    return PerThread<T>(values, initial, memory_);
#endif
  }

  /// The value of thread `from`, for every thread. A function is called by that thread alone. A thread that the block has
  /// not throws Error(invalid_value) on the CPU and stops the kernel, as device_failed, on a GPU.
  template <class Value>
  WEIR_KERNEL detail::ThreadValue<Value> broadcast(const Value& value, std::size_t from) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    if (from >= threads_) __trap();
    return detail::broadcast_in_block<T>([&] { return T(detail::value_at(value, from)); }, threadIdx.x == from);
#else
    if (from >= threads_) detail::refuse_thread(from, threads_);
    return T(detail::value_at(value, from));
#endif
  }

  /// Whether the value of any thread is true, for every thread; all threads are asked.
  template <class Predicate>
  WEIR_KERNEL bool any(const Predicate& predicate) const {
    return count(predicate) != 0;
  }
  template <class Predicate>
  WEIR_KERNEL bool all(const Predicate& predicate) const {
    return count(predicate) == threads_;
  }
  /// In how many threads it is true.
  template <class Predicate>
  WEIR_KERNEL std::size_t count(const Predicate& predicate) const {
#if defined(__CUDA_ARCH__)
    return static_cast<std::size_t>(__syncthreads_count(detail::value_at(predicate, threadIdx.x) ? 1 : 0));
#else
    const std::size_t threads = threads_;
    std::size_t sum = 0;
    for (std::size_t thread = 0; thread < threads; ++thread) sum += detail::value_at(predicate, thread) ? 1u : 0u;
    return sum;
#endif
  }

 private:
  /// T, if it may be handed from thread to thread.
  template <class T>
  struct CheckedValue {
    static_assert(std::is_trivially_copyable_v<T>, "what threads of a block hand to each other is trivially copyable");
    static_assert(sizeof(T) <= 256, "what threads of a block hand to each other has at most 256 bytes");
    using type = T;
  };
  template <class T>
  using check_value = typename CheckedValue<T>::type;

  template <class T>
  T* take_private() const {
    return static_cast<T*>(memory_->take_private(threads_ * sizeof(T), alignof(T)));
  }

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
