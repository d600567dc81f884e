// Work that takes a known time: a loop of a fixed number of steps, so that a thread that loses its core still owes them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bench {

/// `steps` dependent multiplications; the result keeps the compiler from dropping them.
inline std::uint64_t busy(std::size_t steps) {
  std::uint64_t x = steps | 1;
  for (std::size_t i = 0; i < steps; ++i) {
    x = x * 6364136223846793005u + 1442695040888963407u;
    asm volatile("" : "+r"(x));
  }
  return x;
}

/// How many steps an undisturbed core does in that time.
std::size_t busy_steps(double microseconds);

}  // namespace bench
