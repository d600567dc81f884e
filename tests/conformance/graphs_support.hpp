// A kernel that the tests of graphs share.
#pragma once

#include <cstddef>

#include <weir/weir.hpp>

namespace weir_test {

struct Plus {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

}  // namespace weir_test
