// Operators that every backend has: WEIR_KERNEL versions of the standard ones. Digestible by nvcc.
#pragma once

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

}  // namespace weir
