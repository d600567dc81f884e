// Atomic operations on elements of arrays, for kernels on both sides. Digestible by nvcc.
#pragma once

#include <cstdint>
#include <ctime>
#include <type_traits>

#include <weir/shape.hpp>

namespace weir {

/// What the atomic operations work on: integers of 32 and 64 bits, float and double.
template <class T>
concept AtomicValue = (std::is_integral_v<T> || std::is_floating_point_v<T>)&&!std::is_same_v<T, bool> &&
                      !std::is_const_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

namespace detail {

/// As CUDA's own functions name the type.
template <class T>
using DeviceWord = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;

template <class T>
WEIR_KERNEL bool replace_if(T& place, T& expected, T desired) {
#if defined(__CUDA_ARCH__)
  using Word = DeviceWord<T>;
  Word before, after;
  __builtin_memcpy(&before, &expected, sizeof(T));
  __builtin_memcpy(&after, &desired, sizeof(T));
  const Word found = atomicCAS(reinterpret_cast<Word*>(&place), before, after);
  __builtin_memcpy(&expected, &found, sizeof(T));
  return found == before;
#else
  return __atomic_compare_exchange(&place, &expected, &desired, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

template <class T>
WEIR_KERNEL T load_relaxed(T& place) {
#if defined(__CUDA_ARCH__)
  return *static_cast<volatile T*>(&place);
#else
  T value;
  __atomic_load(&place, &value, __ATOMIC_RELAXED);
  return value;
#endif
}

/// Puts `change(what is there)` in its place. Returns what was there.
template <class T, class Change>
WEIR_KERNEL T replace(T& place, Change change) {
  T before = load_relaxed(place);
  while (!replace_if(place, before, change(before))) {
  }
  return before;
}

}  // namespace detail

// Each is atomic with respect to all others on the same element, by threads of this launch, of other launches and of the
// host. Memory order is relaxed: nothing else is ordered by it. They return the previous value. Sums of floats depend on the order of
// their terms, which nothing fixes. The place is an element of memory that the kernel may write: `atomic_add(v[i], 1)`.

/// Integers wrap.
template <AtomicValue T>
WEIR_KERNEL T atomic_add(T& place, std::type_identity_t<T> value) {
#if defined(__CUDA_ARCH__)
  if constexpr (std::is_integral_v<T>) {
    using Word = detail::DeviceWord<T>;
    return static_cast<T>(atomicAdd(reinterpret_cast<Word*>(&place), static_cast<Word>(value)));
  } else {
    return atomicAdd(&place, value);
  }
#else
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(&place, value, __ATOMIC_RELAXED);
  } else {
    return detail::replace(place, [value](T before) { return before + value; });
  }
#endif
}

/// The lesser stays. A value that is not a number changes nothing.
template <AtomicValue T>
WEIR_KERNEL T atomic_min(T& place, std::type_identity_t<T> value) {
  T before = detail::load_relaxed(place);
  while (value < before && !detail::replace_if(place, before, value)) {
  }
  return before;
}

/// The greater stays. A value that is not a number changes nothing.
template <AtomicValue T>
WEIR_KERNEL T atomic_max(T& place, std::type_identity_t<T> value) {
  T before = detail::load_relaxed(place);
  while (before < value && !detail::replace_if(place, before, value)) {
  }
  return before;
}

/// Replaces the element by `value`; returns what it was.
template <AtomicValue T>
WEIR_KERNEL T atomic_exchange(T& place, std::type_identity_t<T> value) {
#if defined(__CUDA_ARCH__)
  using Word = detail::DeviceWord<T>;
  Word word;
  __builtin_memcpy(&word, &value, sizeof(T));
  word = atomicExch(reinterpret_cast<Word*>(&place), word);
  __builtin_memcpy(&value, &word, sizeof(T));
  return value;
#else
  T before;
  __atomic_exchange(&place, &value, &before, __ATOMIC_RELAXED);
  return before;
#endif
}

/// Puts `desired` where `expected` is, compared by their bits; what it returns equals `expected` if it did.
template <AtomicValue T>
WEIR_KERNEL T atomic_compare_exchange(T& place, std::type_identity_t<T> expected, std::type_identity_t<T> desired) {
  detail::replace_if(place, expected, desired);
  return expected;
}

// Overloads for places that are not supported: each is refused by a sentence.
namespace detail {
template <class T>
WEIR_KERNEL constexpr auto refuse_place(T& place) {
  static_assert(
      !std::is_const_v<T>,
      "atomic operations change the element: pass its array as weir::inout or weir::accumulate, to a weir::View "
      "of elements that are not const");
  static_assert(AtomicValue<T> || std::is_const_v<T>,
                "atomic operations work on one element, an integer of 32 or 64 bits, a float or a double: "
                "weir::atomic_add(view[i], value)");
  return place;
}
template <class T>
concept NoPlace = !AtomicValue<T>;
}  // namespace detail
template <detail::NoPlace T, class V>
WEIR_KERNEL auto atomic_add(T& place, const V&) {
  return detail::refuse_place(place);
}
template <detail::NoPlace T, class V>
WEIR_KERNEL auto atomic_min(T& place, const V&) {
  return detail::refuse_place(place);
}
template <detail::NoPlace T, class V>
WEIR_KERNEL auto atomic_max(T& place, const V&) {
  return detail::refuse_place(place);
}
template <detail::NoPlace T, class V>
WEIR_KERNEL auto atomic_exchange(T& place, const V&) {
  return detail::refuse_place(place);
}
template <detail::NoPlace T, class V, class W>
WEIR_KERNEL auto atomic_compare_exchange(T& place, const V&, const W&) {
  return detail::refuse_place(place);
}

/// Nanoseconds of a clock that never goes back, the same for all threads of one device; for spans within a kernel, and
/// between kernels of a device. A GPU's advances in steps of up to a microsecond; a CPU's is the host's steady clock.
WEIR_KERNEL inline std::int64_t device_clock() {
#if defined(__CUDA_ARCH__)
  long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  std::timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
#endif
}

}  // namespace weir
