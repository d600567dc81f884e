// N3's pipeline by OpenMP's static loops: copy in, block sums, sum, division, copy out.
#include <algorithm>
#include <cstring>

#include <omp.h>

#include "raw.hpp"
#include "support/proof.hpp"

namespace bench::raw {

namespace {

void copy_elements(double* to, const double* from, std::size_t n) {
#pragma omp parallel
  {
    const auto threads = static_cast<std::size_t>(omp_get_num_threads());
    const auto thread = static_cast<std::size_t>(omp_get_thread_num());
    const std::size_t begin = n * thread / threads;
    std::memcpy(to + begin, from + begin, (n * (thread + 1) / threads - begin) * sizeof(double));
  }
}

}  // namespace

void normalize(double* host, double* values, double* sums, std::size_t n, std::size_t block) {
  if constexpr (sabotaged) return;
  copy_elements(values, host, n);
  const std::size_t blocks = (n + block - 1) / block;
#pragma omp parallel for schedule(static)
  for (std::size_t b = 0; b < blocks; ++b) {
    double sum = 0;
    for (std::size_t i = b * block; i < std::min(n, (b + 1) * block); ++i) sum += values[i];
    sums[b] = sum;
  }
  double total = 0;
  for (std::size_t b = 0; b < blocks; ++b) total += sums[b];
#pragma omp parallel for schedule(static)
  for (std::size_t i = 0; i < n; ++i) values[i] /= total;
  copy_elements(host, values, n);
}

}  // namespace bench::raw
