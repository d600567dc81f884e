// Loops over memory on all cores, by OpenMP.
#include <cstring>

#include <omp.h>

#include "raw.hpp"

namespace bench::raw {

void triad(double* __restrict a, const double* __restrict b, const double* __restrict c, double factor, std::size_t n) {
#pragma omp parallel for simd schedule(static)
  for (std::size_t i = 0; i < n; ++i) a[i] = b[i] + factor * c[i];
}

double sum(const double* x, std::size_t n) {
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
  split(bytes, [=](std::size_t offset, std::size_t size) {
    std::memcpy(static_cast<char*>(to) + offset, static_cast<const char*>(from) + offset, size);
  });
}

void fill(void* to, int value, std::size_t bytes) {
  split(bytes,
        [=](std::size_t offset, std::size_t size) { std::memset(static_cast<char*>(to) + offset, value, size); });
}

}  // namespace bench::raw
