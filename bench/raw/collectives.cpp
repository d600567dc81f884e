// What two ranks do at least: a loop over both arrays, and threads that meet.
#include <atomic>
#include <thread>

#include "raw.hpp"
#include "ring.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench::raw {

void add_to_both(const float* a, const float* b, float* p, float* q, std::size_t n) {
  if constexpr (sabotaged) return;
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < n; ++i) p[i] = q[i] = a[i] + b[i];
}

double two_barriers(std::size_t count) {
  std::atomic<std::size_t> arrived{0};
  const auto meet = [&](std::size_t times) {
    for (std::size_t i = 1; i <= times; ++i) {
      arrived.fetch_add(1, std::memory_order_acq_rel);
      while (arrived.load(std::memory_order_acquire) < 2 * i) relax();
    }
  };
  std::thread other([&] { meet(2 * count); });
  const double time = seconds([&] { meet(2 * count); });
  other.join();
  return time / static_cast<double>(count) * 1e6;
}

}  // namespace bench::raw
