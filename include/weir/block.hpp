// The block of a cooperative kernel: threads that share memory and go on in phases. Digestible by nvcc.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <weir/detail/block_device.hpp>
#include <weir/detail/block_sizes.hpp>
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
  /// Gives back what take_private() gave, last first; memory that is not given back is released with its block.
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
  WEIR_KERNEL PerThread(T* values, T initial, const detail::BlockSizes& sizes, detail::BlockMemory* memory)
      : values_(values), own_(initial), sizes_(&sizes), memory_(memory) {}
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
  template <std::size_t R>
  WEIR_KERNEL T& operator[]([[maybe_unused]] const Index<R>& thread) const {
#if defined(__CUDA_ARCH__)
    return own_;
#else
    return values_[detail::number_in(sizes_->threads, thread)];
#endif
  }

 private:
  T* values_;
  mutable T own_;  ///< on a GPU, where each thread has a block object of its own
  [[maybe_unused]] const detail::BlockSizes* sizes_;
  [[maybe_unused]] detail::BlockMemory* memory_;
};

namespace detail {
template <class T>
inline constexpr bool is_per_thread<PerThread<T>> = true;

/// The dimensions of the thread that a phase, or a function of the thread, takes.
template <class F>
constexpr std::size_t rank_of_thread() {
  if constexpr (is_per_thread<std::remove_cvref_t<F>> || std::is_invocable_v<F&, std::size_t>) {
    return 1;
  } else if constexpr (std::is_invocable_v<F&, Index<2>>) {
    return 2;
  } else {
    static_assert(std::is_invocable_v<F&, Index<3>>,
                  "a phase, or a function of the thread, takes std::size_t, weir::Index<2> or weir::Index<3>");
    return 3;
  }
}

/// What a thread brings to an operation of its block: its own variable, or what a function of the thread returns.
template <class Value>
WEIR_KERNEL decltype(auto) value_at(const Value& value, const BlockSizes& sizes, std::uint32_t thread) {
  if constexpr (is_per_thread<Value>) {
    return value[thread];
  } else if constexpr (rank_of_thread<const Value>() == 1) {
    return value(std::size_t{thread});
  } else {
    return value(index_in<rank_of_thread<const Value>()>(sizes.threads, thread));
  }
}
template <class Value>
using ThreadValue =
    std::remove_cvref_t<decltype(value_at(std::declval<const Value&>(), std::declval<const BlockSizes&>(), 0))>;
}  // namespace detail

/// What a cooperative kernel gets first: `void operator()(weir::Block& block, args...) const`. Its body is a sequence of
/// phases, `block.each([&](std::size_t thread) {...})`: every thread of the block runs the phase, and all have finished
/// it before the next begins (an implied barrier). All threads must reach the same phases. Same code on CPU and GPU.
class Block {
 public:
  Block(std::size_t index, const detail::BlockSizes& sizes, std::size_t shared_bytes, detail::BlockMemory& memory)
      : index_(index), sizes_(sizes), memory_(&memory) {
    memory.begin_block(shared_bytes);
  }
#if defined(__CUDACC__)
  /// On a GPU: the block of the calling thread.
  __device__ Block(std::size_t index, const detail::BlockSizes& sizes)
      : index_(index), sizes_(sizes), memory_(nullptr) {}
#endif
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  WEIR_KERNEL std::size_t index() const { return index_; }                ///< of this block in the launch
  WEIR_KERNEL std::size_t count() const { return sizes_.count; }          ///< blocks of the launch
  WEIR_KERNEL std::size_t threads() const { return sizes_.all_threads; }  ///< threads of each block

  // The same in R dimensions, 1 to 3, the last of which is the innermost: `auto [row, col] = block.index<2>()`. Dimensions
  // that the launch does not have are 1; if it has more than R, the first of the R stands for several.
  template <std::size_t R>
  WEIR_KERNEL Index<R> index() const {
    if (index_ >> 32 == 0 && sizes_.count >> 32 == 0) {
      const std::uint32_t narrow[3] = {static_cast<std::uint32_t>(sizes_.blocks[0]),
                                       static_cast<std::uint32_t>(sizes_.blocks[1]),
                                       static_cast<std::uint32_t>(sizes_.blocks[2])};
      return detail::index_in<R>(narrow, static_cast<std::uint32_t>(index_));
    }
    return detail::index_in<R>(sizes_.blocks, static_cast<std::uint64_t>(index_));
  }
  template <std::size_t R>
  WEIR_KERNEL Index<R> count() const {
    return detail::sizes_in<R>(sizes_.blocks);
  }
  template <std::size_t R>
  WEIR_KERNEL Index<R> threads() const {
    return detail::sizes_in<R>(sizes_.threads);
  }
  /// Which thread of the whole launch it is: the element that is its own where there is a thread for each.
  WEIR_KERNEL std::size_t global_index(std::size_t thread) const { return index_ * sizes_.all_threads + thread; }
  template <std::size_t R>
  WEIR_KERNEL Index<R> global_index(const Index<R>& thread) const {
    const Index<R> block = index<R>();
    const Index<R> size = threads<R>();
    Index<R> global{};
    for (std::size_t d = 0; d < R; ++d) global.value[d] = block[d] * size[d] + thread[d];
    return global;
  }

  /// One phase, with a barrier after it: a function of std::size_t, or of weir::Index<2> or <3>. Its threads run in any order
  /// and at the same time: none may touch what another one writes in the same phase, but by atomic operations. On the CPU a
  /// phase is a loop over the threads, which the compiler vectorises where every thread makes the same number of steps.
  template <class Phase>
  WEIR_KERNEL void each(Phase&& phase) const {
#if defined(__CUDA_ARCH__)
    constexpr std::size_t R = detail::rank_of_thread<std::remove_reference_t<Phase>>();
    if constexpr (R == 1) {
      phase(static_cast<std::size_t>(threadIdx.x));
    } else {
      phase(detail::index_in<R>(sizes_.threads, threadIdx.x));
    }
    __syncthreads();
#else
    each_thread(phase);
#endif
  }

  /// `count` elements of the block's shared memory, not initialised. Call it outside of phases, in the same order by every
  /// thread; the sum of all calls is limited by the launch's shared_bytes: taking more throws Error(invalid_value) on the
  /// CPU and stops the kernel, as device_failed, on a GPU.
  template <class T>
  WEIR_KERNEL View<T> shared(std::size_t count) const {
    return View<T>(shared_elements<T>(count), count);
  }
  /// In up to 4 dimensions: `block.shared<float>({16, 17})` is a View<float, 2>.
  template <class T, std::integral I, std::size_t R>
    requires(R >= 2 && R <= max_rank)
  WEIR_KERNEL View<T, R> shared(const I (&sizes)[R])
  const {
    std::size_t wide[R];
    std::size_t count = 1;
    for (std::size_t d = 0; d < R; ++d) {
      wide[d] = static_cast<std::size_t>(sizes[d]);
      count *= wide[d];
    }
    return View<T, R>(shared_elements<T>(count), wide);
  }

  /// A variable of every thread that lives through all phases.
  template <class T>
  WEIR_KERNEL PerThread<T> each_own(T initial) const {
    static_assert(std::is_trivially_copyable_v<T>, "per-thread variables are trivially copyable");
#if defined(__CUDA_ARCH__)
    return PerThread<T>(nullptr, initial, sizes_, nullptr);
#else
    T* values = take_private<T>();
    for (std::size_t thread = 0; thread < threads(); ++thread) values[thread] = initial;
    return PerThread<T>(values, initial, sizes_, memory_);
#endif
  }

  // What the threads of a block do together. Called outside of phases, by all threads; each is a phase of its own, with a
  // barrier in it. `value` is an own variable (each_own), or a function of the thread, as for each():
  // `[&](std::size_t t) { return x[t]; }`. Values are trivially copyable, and of at most 256 bytes.

  /// v(0) op v(1) op ..., for every thread. op is associative; threads keep their order. Neighbours are combined first, in
  /// the same tree on every device.
  template <class Value, class Op = Plus>
  WEIR_KERNEL detail::ThreadValue<Value> reduce(const Value& value, const Op& op = {}) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    return detail::reduce_in_block<T>(own_value(value), threadIdx.x, sizes_.all_threads, op);
#else
    T* values = take_private<T>();
    std::size_t count = threads();
    collect(values, value);
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
    return PerThread<T>(nullptr, detail::scan_in_block<T>(own_value(value), threadIdx.x, sizes_.all_threads, op),
                        sizes_, nullptr);
#else
    T* values = take_private<T>();
    collect(values, value);
    for (std::size_t thread = 1; thread < threads(); ++thread) {
      values[thread] = static_cast<T>(op(values[thread - 1], values[thread]));
    }
    return PerThread<T>(values, values[0], sizes_, memory_);
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
        nullptr, detail::exclusive_scan_in_block<T>(own_value(value), initial, threadIdx.x, sizes_.all_threads, op),
        sizes_, nullptr);
#else
    T* values = take_private<T>();
    collect(values, value);
    T sum = initial;
    for (std::size_t thread = 0; thread < threads(); ++thread) {
      const T next = static_cast<T>(op(sum, values[thread]));
      values[thread] = sum;
      sum = next;
    }
    return PerThread<T>(values, initial, sizes_, memory_);
#endif
  }

  /// The value of thread `from`, for every thread. A function is called by that thread alone. A thread that is not in the
  /// block throws Error(invalid_value) on the CPU and stops the kernel, as device_failed, on a GPU.
  template <class Value>
  WEIR_KERNEL detail::ThreadValue<Value> broadcast(const Value& value, std::size_t from) const {
    using T = check_value<detail::ThreadValue<Value>>;
#if defined(__CUDA_ARCH__)
    if (from >= sizes_.all_threads) __trap();
    return detail::broadcast_in_block<T>([&] { return T(own_value(value)); }, threadIdx.x == from);
#else
    if (from >= sizes_.all_threads) detail::refuse_thread(from, threads());
    return T(detail::value_at(value, sizes_, static_cast<std::uint32_t>(from)));
#endif
  }
  template <class Value, std::size_t R>
  WEIR_KERNEL detail::ThreadValue<Value> broadcast(const Value& value, const Index<R>& from) const {
    const Index<R> size = threads<R>();
    bool there = true;
    for (std::size_t d = 0; d < R; ++d) there = there && from[d] < size[d];
    return broadcast(value, there ? detail::number_in(sizes_.threads, from) : ~std::size_t{0});
  }

  /// Whether the value of any thread is true, for every thread; all threads are asked.
  template <class Predicate>
  WEIR_KERNEL bool any(const Predicate& predicate) const {
    return count(predicate) != 0;
  }
  template <class Predicate>
  WEIR_KERNEL bool all(const Predicate& predicate) const {
    return count(predicate) == threads();
  }
  /// In how many threads it is true.
  template <class Predicate>
  WEIR_KERNEL std::size_t count(const Predicate& predicate) const {
#if defined(__CUDA_ARCH__)
    return static_cast<std::size_t>(__syncthreads_count(own_value(predicate) ? 1 : 0));
#else
    std::size_t sum = 0;
    for (std::uint32_t thread = 0; thread < sizes_.all_threads; ++thread) {
      sum += detail::value_at(predicate, sizes_, thread) ? 1u : 0u;
    }
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

  template <std::size_t R>
  using Rank = std::integral_constant<std::size_t, R>;

  template <class T>
  T* take_private() const {
    return static_cast<T*>(memory_->take_private(threads() * sizeof(T), alignof(T)));
  }
  /// The values of all threads, in their order.
  template <class T, class Value>
  void collect(T* values, const Value& value) const {
    if constexpr (detail::is_per_thread<Value>) {
      for (std::size_t thread = 0; thread < threads(); ++thread) values[thread] = value[thread];
    } else if constexpr (detail::rank_of_thread<const Value>() == 1) {
      each_thread([&](std::size_t thread) { values[thread] = value(thread); });
    } else {
      each_thread([&](const auto& thread) { values[detail::number_in(sizes_.threads, thread)] = value(thread); },
                  Rank<detail::rank_of_thread<const Value>()>());
    }
  }
  template <class F>
  void each_thread(F&& f) const {
    each_thread(f, Rank<detail::rank_of_thread<std::remove_reference_t<F>>()>());
  }
  template <class F>
  void each_thread(F&& f, Rank<1>) const {
    const std::size_t count = sizes_.all_threads;
    WEIR_INDEPENDENT_ITERATIONS
    for (std::size_t thread = 0; thread < count; ++thread) f(thread);
  }
  template <class F, std::size_t R>
  void each_thread(F&& f, Rank<R>) const {
    const Index<R> size = threads<R>();
    const std::size_t planes = R == 3 ? size[0] : 1;
    const std::size_t rows = size[R - 2];
    const std::size_t columns = size[R - 1];
    for (std::size_t plane = 0; plane < planes; ++plane) {
      for (std::size_t row = 0; row < rows; ++row) {
        WEIR_INDEPENDENT_ITERATIONS
        for (std::size_t column = 0; column < columns; ++column) {
          if constexpr (R == 2) {
            f(Index<2>{{row, column}});
          } else {
            f(Index<3>{{plane, row, column}});
          }
        }
      }
    }
  }

  template <class T>
  WEIR_KERNEL T* shared_elements(std::size_t count) const {
    static_assert(std::is_trivially_copyable_v<T>, "shared memory holds trivially copyable types");
#if defined(__CUDA_ARCH__)
    return static_cast<T*>(take_shared(count * sizeof(T), alignof(T)));
#else
    return static_cast<T*>(memory_->take_shared(count * sizeof(T), alignof(T)));
#endif
  }

#if defined(__CUDACC__)
  template <class Value>
  __device__ decltype(auto) own_value([[maybe_unused]] const Value& value) const {
#if defined(__CUDA_ARCH__)
    return detail::value_at(value, sizes_, threadIdx.x);
#else
    return detail::value_at(value, sizes_, 0);
#endif
  }
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
  const detail::BlockSizes& sizes_;
  [[maybe_unused]] mutable std::uint32_t shared_used_ =
      0;  ///< on a GPU: the same in all threads, which make the same calls
  detail::BlockMemory* memory_;
};

}  // namespace weir

#undef WEIR_INDEPENDENT_ITERATIONS
