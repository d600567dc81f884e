// Chance with a seed, the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::stress {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  std::size_t between(std::size_t lo, std::size_t hi) { return lo + below(hi - lo + 1); }
  bool percent(unsigned p) { return next() % 100 < p; }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  /// A number with the chance of its weight.
  std::size_t weighted(const std::vector<unsigned>& weights) {
    std::uint64_t sum = 0;
    for (const unsigned w : weights) sum += w;
    std::uint64_t at = next() % sum;
    for (std::size_t i = 0;; ++i) {
      if (at < weights[i]) return i;
      at -= weights[i];
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace weir::stress
