// Operators that every backend has: WEIR_KERNEL versions of the standard ones. Digestible by nvcc.
#pragma once

#include <type_traits>

#include <weir/shape.hpp>

namespace weir {

struct Plus {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a + b);
  }
};
struct Multiplies {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a * b);
  }
};
struct Minimum {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};
struct Less {
  template <class T>
  WEIR_KERNEL constexpr bool operator()(const T& a, const T& b) const {
    return a < b;
  }
};
struct Greater {
  template <class T>
  WEIR_KERNEL constexpr bool operator()(const T& a, const T& b) const {
    return b < a;
  }
};

namespace detail {
/// Numbers in one of the two usual orders are sorted by their bits, a byte at a time.
template <class K, class Compare>
inline constexpr bool sorts_by_bits = std::is_arithmetic_v<K> && sizeof(K) <= 8 &&
                                      (std::is_same_v<Compare, Less> || std::is_same_v<Compare, Greater>);
}  // namespace detail

}  // namespace weir
