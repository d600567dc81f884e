// What the tests of graphs share.
#pragma once

#include <cstddef>

#include <weir/weir.hpp>

namespace weir_test {

struct Plus {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

inline weir::Extent named(const char* name, std::size_t size = 16) { return {.size = size, .name = name}; }

}  // namespace weir_test
