// A kernel that computes for as long as it is told.
#pragma once

#include <cstddef>
#include <weir/weir.hpp>

namespace weir_test {

/// About 3 ns a step. It begins at 2 and tends to 1: where it stood still, compilers would compute nothing.
struct Compute {
  WEIR_KERNEL void operator()(std::size_t i, double* results, int steps) const {
    double x = 2;
    for (int step = 0; step < steps; ++step) x = x * 0.999999 + 1e-6;
    results[i] = x;
  }
};

}  // namespace weir_test
