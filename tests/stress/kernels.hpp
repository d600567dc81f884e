// The commands' kernels as the library runs them.
#pragma once

#include <stdexcept>
#include <weir/weir.hpp>

#include "window.hpp"

namespace weir::stress {

/// Some time, roughly a nanosecond a turn, that a compiler cannot take away.
WEIR_KERNEL inline void spin(std::uint32_t turns) {
  for (std::uint32_t i = 0; i < turns; ++i) asm volatile("" ::: "memory");
}

/// What a failing kernel or host function throws.
struct PlannedFailure : std::runtime_error {
  explicit PlannedFailure(Element number) : std::runtime_error("planned failure"), salt(number) {}
  Element salt;
};

template <std::size_t R>
using At = std::conditional_t<R == 1, std::size_t, Index<R>>;

template <std::size_t R, class T>
WEIR_KERNEL std::size_t linear(const At<R>& i, const View<T, R>& view) {
  if constexpr (R == 1) {
    return i;
  } else {
    std::size_t n = 0;
    for (std::size_t d = 0; d < R; ++d) n = n * view.size(d) + i[d];
    return n;
  }
}

/// The element at an index that wraps around, shifted by `shift` in every dimension.
template <std::size_t R>
WEIR_KERNEL Element wrapped(const View<const Element, R>& x, const At<R>& i, std::size_t shift = 0) {
  if constexpr (R == 1) {
    return x[(i + shift) % x.size(0)];
  } else {
    Index<R> j = i;
    for (std::size_t d = 0; d < R; ++d) j.value[d] = (i[d] + shift) % x.size(d);
    return x[j];
  }
}

/// What all element kernels have: a number that makes each launch different, and a pause within one of its elements.
template <std::size_t R>
struct Salted {
  Element salt;
  std::uint32_t delay;

  template <class T>
  WEIR_KERNEL Element begin(const At<R>& i, const View<T, R>& y) const {
    const std::size_t n = linear<R>(i, y);
    if (delay != 0 && n == salt % y.size()) spin(delay);
    return scramble(salt, static_cast<Element>(n));
  }
};

template <std::size_t R>
struct Set : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<Element, R> y) const { y[i] = this->begin(i, y); }
};
template <std::size_t R>
struct Bump : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<Element, R> y) const {
    const Element old = y[i];
    y[i] = scramble(old, this->begin(i, y));
  }
};
template <std::size_t R>
struct Map : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<const Element, R> x, View<Element, R> y) const {
    const Element own = this->begin(i, y);
    y[i] = scramble(wrapped<R>(x, i), own);
  }
};
template <std::size_t R>
struct Mix : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<const Element, R> x, View<Element, R> y) const {
    const Element old = y[i];
    const Element own = this->begin(i, y);
    y[i] = scramble(old, wrapped<R>(x, i), own);
  }
};
template <std::size_t R>
struct Join : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<const Element, R> a, View<const Element, R> b, View<Element, R> y) const {
    const Element first = wrapped<R>(a, i);
    const Element own = this->begin(i, y);
    y[i] = scramble(first, wrapped<R>(b, i), own);
  }
};
template <std::size_t R>
struct Gather : Salted<R> {
  WEIR_KERNEL void operator()(At<R> i, View<const Element, R> x, View<Element, R> y) const {
    const Element own = this->begin(i, y);
    y[i] = scramble(y[i], wrapped<R>(x, i, this->salt % 1024), own);
  }
};

/// Each block turns its tile of x around through shared memory.
struct Turn {
  Element salt;
  std::uint32_t delay;

  WEIR_KERNEL void operator()(Block& block, View<const Element> x, View<Element> y) const {
    View<Element> tile = block.shared<Element>(block.threads());
    auto mine = block.each_own<Element>(0);
    const std::size_t begin = block.index() * block.threads();
    const std::size_t count = y.size() - begin < block.threads() ? y.size() - begin : block.threads();
    block.each([&](std::size_t t) {
      if (t >= count) return;
      tile[t] = x[begin + t];
      mine[t] = y[begin + t];
    });
    block.each([&](std::size_t t) {
      if (t == 0 && begin == 0) spin(delay);
      if (t < count)
        y[begin + t] = scramble(mine[t], tile[count - 1 - t], scramble(salt, static_cast<Element>(begin + t)));
    });
  }
};

struct ScrambleOne {
  Element salt;
  WEIR_KERNEL Element operator()(Element x) const { return scramble(x, salt); }
};
struct ScrambleTwo {
  Element salt;
  WEIR_KERNEL Element operator()(Element a, Element b) const { return scramble(a, b, salt); }
};

/// Throws at one of its elements.
struct Fail {
  Element salt;
  std::uint32_t delay;
  std::size_t count;

  void operator()(std::size_t i) const {
    if (i != salt % count) return;
    spin(delay);
    throw PlannedFailure(salt);
  }
};

}  // namespace weir::stress
