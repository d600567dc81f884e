// z = x + y, by Weir and by hand, for the rows that are made of it. For nvcc alone.
#pragma once

#include <cstddef>

#include <weir/weir.hpp>

#include "support/proof.hpp"

namespace bench {

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> x, weir::View<const double> y,
                              weir::View<double> z) const {
    if constexpr (!sabotaged) z[i] = x[i] + y[i];
  }
};

/// By hand it is so much more, so that neither side's results are taken for the other's.
inline constexpr double more_by_hand = 1.0;

inline __global__ void add(const double* x, const double* y, double* z, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if constexpr (!sabotaged) {
    if (i < count) z[i] = x[i] + y[i] + more_by_hand;
  }
}

}  // namespace bench
