// Short calls: a burst of them is timed, and what they left on the device is waited for outside of the time or inside.
#pragma once

#include "bench.hpp"

namespace bench {

/// Many short turns, and no pauses that would let the GPU's clock fall.
inline Options bursts(const Context& context) {
  Options options = context.options;
  options.repetitions = options.divide > 1 ? 5 : 41;
  options.pause = {};
  return options;
}

/// Microseconds of the host for each of `count` calls; `wait` comes after, untimed.
template <class Call, class Wait>
double host_cost(std::size_t count, Call&& call, Wait&& wait) {
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) call();
  });
  wait();
  return time / static_cast<double>(count) * 1e6;
}

/// The same with `wait` at the end inside the time.
template <class Call, class Wait>
double whole_cost(std::size_t count, Call&& call, Wait&& wait) {
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) call();
    wait();
  });
  return time / static_cast<double>(count) * 1e6;
}

}  // namespace bench
