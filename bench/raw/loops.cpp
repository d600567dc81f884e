// Loops over memory on all cores, by OpenMP.
#include <cstring>

#include <omp.h>

#include "raw.hpp"
#include "support/proof.hpp"

namespace bench::raw {

void triad(double* __restrict a, const double* __restrict b, const double* __restrict c, double factor, std::size_t n) {
  if constexpr (sabotaged) return;
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + factor * c[i];
}

void triad_alone(double* __restrict a, const double* __restrict b, const double* __restrict c, double factor,
                 std::size_t n) {
  if constexpr (sabotaged) return;
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + factor * c[i];
}

double sum(const double* x, std::size_t n) {
  if constexpr (sabotaged) return 0;
  double total = 0;
#pragma omp parallel for simd schedule(static) reduction(+ : total)
  for (std::size_t i = 0; i < n; ++i) total += x[i];
  return total;
}

namespace {

/// Calls `part(offset, bytes)` on every core with its equal share.
template <class Part>
void split(std::size_t bytes, Part part) {
#pragma omp parallel
  {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = bytes / threads * thread;
    part(begin, thread + 1 == threads ? bytes - begin : bytes / threads);
  }
}

}  // namespace

void copy(void* to, const void* from, std::size_t bytes) {
  if constexpr (sabotaged) return;
  split(bytes, [=](std::size_t offset, std::size_t size) {
    std::memcpy(static_cast<char*>(to) + offset, static_cast<const char*>(from) + offset, size);
  });
}

void vadd(const double* x, const double* y, double* z, double* there_x, double* there_y, double* there_z,
          std::size_t n) {
  if constexpr (sabotaged) return;
  copy(there_x, x, n * sizeof(double));
  copy(there_y, y, n * sizeof(double));
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < n; ++i) there_z[i] = there_x[i] + there_y[i];
  copy(z, there_z, n * sizeof(double));
}

void fill(void* to, int value, std::size_t bytes) {
  if constexpr (sabotaged) return;
  split(bytes,
        [=](std::size_t offset, std::size_t size) { std::memset(static_cast<char*>(to) + offset, value, size); });
}

}  // namespace bench::raw
