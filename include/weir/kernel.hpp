// What a kernel is: a functor or lambda with its bound arguments, and the code that runs it. Digestible by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include <weir/block.hpp>
#include <weir/detail/call_parameters.hpp>
#include <weir/shape.hpp>
#include <weir/view.hpp>

namespace weir {

/// Why a range of a kernel is being run: the CPU backend splits a launch into ranges of its linear index.
struct KernelRange {
  const Shape* extent;
  std::size_t begin;
  std::size_t end;
};

/// Where the blocks of a cooperative kernel run on the CPU.
struct BlockRange {
  detail::BlockSizes sizes;
  std::size_t begin;
  std::size_t end;
  std::size_t shared_bytes;
  detail::BlockMemory* memory;
};

/// The code and the closure layout of one kernel type: one constant per (closure type, compiler), never per link order.
struct Kernel {
  std::string_view name;        ///< of the functor's type
  std::uint32_t rank;           ///< dimensions of its index; 0 for a cooperative kernel
  std::uint32_t regions;        ///< of its arguments: one for each view
  std::uint32_t closure_bytes;  ///< 0 for an empty closure
  std::uint32_t closure_align;
  void (*run)(const void* closure, const KernelRange&);
  void (*run_blocks)(const void* closure, const BlockRange&);
  void (*copy)(void* to, const void* from);  ///< null: the bytes are the copy
  void (*destroy)(void* closure) noexcept;   ///< null: nothing to destroy
  const void* device_code;  ///< a DeviceCode, what GPUs launch; null where nvcc did not meet the kernel
};

/// A kernel that never runs on a GPU: `host_only([&](std::size_t i) {...})`. Files that nvcc compiles need it around a
/// kernel without WEIR_KERNEL: one that calls host code, owns something, or is a lambda that is not for GPUs.
template <class F>
struct HostOnly : F {
  using F::operator();
};
/// Wraps a kernel so.
template <class F>
HostOnly<std::decay_t<F>> host_only(F&& kernel) {
  return {static_cast<F&&>(kernel)};
}

namespace detail {

/// The compiler that meets a kernel is part of its code's type, so that a .cpp and a .cu using one functor do not
/// depend on link order.
struct HostCompiler {};
struct DeviceCompiler {};
#if defined(__CUDACC__)
using ThisCompiler = DeviceCompiler;
#else
using ThisCompiler = HostCompiler;
#endif

template <std::size_t I, class T>
struct Slot {
  T value;
};
template <class Indices, class... T>
struct Slots;
template <std::size_t... I, class... T>
struct Slots<std::index_sequence<I...>, T...> : Slot<I, T>... {};

/// A kernel with its bound arguments: an aggregate, trivially copyable if they are (std::tuple never is).
template <class F, class... A>
struct Closure {
  F kernel;
  Slots<std::index_sequence_for<A...>, A...> arguments;

  template <std::size_t I, class T>
  static WEIR_KERNEL const T& get(const Slot<I, T>& slot) {
    return slot.value;
  }
  template <class First>
  void call(First&& first) const {
    call(first, std::index_sequence_for<A...>{});
  }
  template <class First, std::size_t... I>
  void call(First& first, std::index_sequence<I...>) const {
    kernel(as_declared<F>(first), get<I>(arguments)...);
  }
#if defined(__CUDACC__)
  // A call of its own, so that nvcc refuses kernels that are not for devices here, and nowhere else.
  template <class First>
  __device__ void call_on_device(First&& first) const {
    call_on_device(first, std::index_sequence_for<A...>{});
  }
  template <class First, std::size_t... I>
  __device__ void call_on_device(First& first, std::index_sequence<I...>) const {
    kernel(as_declared<F>(first), get<I>(arguments)...);
  }
#endif
};

template <class T>
inline constexpr bool is_view = false;
template <class T, std::size_t R>
inline constexpr bool is_view<View<T, R>> = true;

template <std::size_t I, class T>
WEIR_KERNEL constexpr bool unit_stride(const Slot<I, T>& slot) {
  if constexpr (is_view<T>) {
    return slot.value.unit_stride();
  } else {
    return true;
  }
}
template <std::size_t I, class T>
WEIR_KERNEL constexpr void assume_unit_stride(Slot<I, T>& slot) {
  if constexpr (is_view<T>) slot.value.assume_unit_stride();
}
template <std::size_t... I, class... T>
WEIR_KERNEL constexpr bool all_unit_stride(const Slots<std::index_sequence<I...>, T...>& slots) {
  return (unit_stride<I>(slots) && ...);
}
template <std::size_t... I, class... T>
WEIR_KERNEL constexpr void assume_all_unit_stride(Slots<std::index_sequence<I...>, T...>& slots) {
  (assume_unit_stride<I>(slots), ...);
}

/// Calls the closure for every index of a range; the inner loop runs along the last dimension.
template <std::size_t R, class C>
void run_loop(const C& closure, const KernelRange& range) {
  if constexpr (R == 1) {
    for (std::size_t i = range.begin; i != range.end; ++i) closure.call(std::size_t{i});
  } else {
    const Shape& extent = *range.extent;
    Index<R> index;
    std::size_t rest = range.begin;
    for (std::size_t d = R; d-- > 0;) {
      index.value[d] = rest % extent[d];
      rest /= extent[d];
    }
    for (std::size_t done = range.begin; done != range.end;) {
      const std::size_t row_end = extent[R - 1];
      std::size_t steps = row_end - index.value[R - 1];
      if (steps > range.end - done) steps = range.end - done;
      for (std::size_t stop = index.value[R - 1] + steps; index.value[R - 1] != stop; ++index.value[R - 1]) {
        closure.call(Index<R>(index));
      }
      done += steps;
      for (std::size_t d = R - 1; d > 0 && index.value[d] == extent[d]; --d) {
        index.value[d] = 0;
        ++index.value[d - 1];
      }
    }
  }
}

template <class C>
void run_block_loop(const C& closure, const BlockRange& range) {
  const BlockSizes sizes = range.sizes;  // of the loop's own: nothing that a kernel writes can be it
  for (std::size_t b = range.begin; b != range.end; ++b) {
    Block block(b, sizes, range.shared_bytes, *range.memory);
    closure.call(block);
  }
}

/// Calls `loop` with the closure. With dense views the strides become constants, and the compiler can vectorise.
template <class C, class Loop>
void with_known_strides(const void* closure, const Loop& loop) {
  const C& original = *static_cast<const C*>(closure);
  if constexpr (std::is_trivially_copyable_v<C>) {
    C local = original;
    if (all_unit_stride(local.arguments)) {
      assume_all_unit_stride(local.arguments);
      loop(local);
      return;
    }
  }
  loop(original);
}

template <std::size_t R, class C>
void run_closure(const void* closure, const KernelRange& range) {
  with_known_strides<C>(closure, [&](const C& c) { run_loop<R>(c, range); });
}

template <class C>
void run_closure_blocks(const void* closure, const BlockRange& range) {
  with_known_strides<C>(closure, [&](const C& c) { run_block_loop(c, range); });
}

template <class T>
constexpr std::string_view find_type_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__;
  constexpr std::size_t start = text.find("T = ");
  if constexpr (start == std::string_view::npos) {
    return text;
  } else {
    std::string_view rest = text.substr(start + 4);
    const std::size_t end = rest.find_first_of(";]");
    return rest.substr(0, end);
  }
}
/// A constant: looking for it takes longer than a launch.
template <class T>
inline constexpr std::string_view type_name_constant = find_type_name<T>();
template <class T>
constexpr std::string_view type_name() {
  return type_name_constant<T>;
}

template <class C>
void copy_closure(void* to, const void* from) {
  ::new (to) C(*static_cast<const C*>(from));
}
template <class C>
void destroy_closure(void* closure) noexcept {
  static_cast<C*>(closure)->~C();
}

template <class C>
inline constexpr std::uint32_t view_count = 0;
template <class F, class... A>
inline constexpr std::uint32_t view_count<Closure<F, A...>> = (0u + ... + (is_view<A> ? 1u : 0u));

/// Whether a kernel runs faster with a copy of its closure whose views are known to be dense.
template <class C>
inline constexpr bool has_strides = view_count<C> != 0 && std::is_trivially_copyable_v<C>;

template <class C>
bool is_dense(const void* closure) {
  return all_unit_stride(static_cast<const C*>(closure)->arguments);
}
/// For DeviceCode.
template <class C>
constexpr bool (*test_of_density())(const void*) {
  if constexpr (has_strides<C>) {
    return &is_dense<C>;
  } else {
    return nullptr;
  }
}
template <class C>
inline constexpr std::uint32_t closure_bytes = sizeof(C);
template <class F>
inline constexpr std::uint32_t closure_bytes<Closure<F>> = std::is_empty_v<F> ? 0 : sizeof(Closure<F>);
template <class C>
constexpr void (*closure_copy)(void*, const void*) = std::is_trivially_copyable_v<C> ? nullptr : &copy_closure<C>;
template <class C>
constexpr void (*closure_destroy)(void*) noexcept = std::is_trivially_destructible_v<C> ? nullptr : &destroy_closure<C>;

template <class C>
inline constexpr bool is_host_only = false;
template <class F, class... A>
inline constexpr bool is_host_only<Closure<HostOnly<F>, A...>> = true;
template <class R, class... P, class... A>
inline constexpr bool is_host_only<Closure<R (*)(P...), A...>> = true;  // the address of a host function

/// What a device compiler adds to a kernel: specialised where nvcc is at work, null elsewhere.
template <class C, std::size_t R, class Compiler>
inline constexpr const void* device_code = nullptr;

/// How a closure goes into a queue: not at all, by as many bytes as are named, or by its constructor.
enum class ClosureCopy : std::uint8_t { none, bytes_32, bytes_64, other };
template <class C>
inline constexpr ClosureCopy closure_copy_kind =
    closure_bytes<C> == 0                                 ? ClosureCopy::none
    : !std::is_trivially_copyable_v<C> || alignof(C) > 16 ? ClosureCopy::other
    : closure_bytes<C> <= 32                              ? ClosureCopy::bytes_32
    : closure_bytes<C> <= 64                              ? ClosureCopy::bytes_64
                                                          : ClosureCopy::other;

/// A closure on its way to a queue, with all the bytes that are copied.
template <class C, ClosureCopy kind = closure_copy_kind<C>>
struct StoredClosure {
  C closure;
};
template <class C>
struct StoredClosure<C, ClosureCopy::bytes_32> {
  union {
    C closure;
    unsigned char storage[32];
  };
};
template <class C>
struct StoredClosure<C, ClosureCopy::bytes_64> {
  union {
    C closure;
    unsigned char storage[64];
  };
};

template <class C, class F, std::size_t R, class Compiler>
inline constexpr Kernel element_kernel{
    type_name<F>(),     R,       view_count<C>,   closure_bytes<C>,   alignof(C),
    &run_closure<R, C>, nullptr, closure_copy<C>, closure_destroy<C>, device_code<C, R, Compiler>};

template <class C, class F, class Compiler>
inline constexpr Kernel block_kernel{type_name<F>(),
                                     0,
                                     view_count<C>,
                                     closure_bytes<C>,
                                     alignof(C),
                                     nullptr,
                                     &run_closure_blocks<C>,
                                     closure_copy<C>,
                                     closure_destroy<C>,
                                     device_code<C, 0, Compiler>};

}  // namespace detail
}  // namespace weir

#include <weir/detail/device_code.hpp>
