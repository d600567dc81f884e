// What the two files of twins of NVIDIA Warp's guide share: a size, a kernel, and expected values.
#pragma once

#include <cstddef>
#include <vector>

#include <weir/weir.hpp>

namespace warp_guide {

inline constexpr std::size_t n = 10'007;

struct AddOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> a) const { a[i] += 1.0f; }
};

inline std::vector<float> all(float value) { return std::vector<float>(n, value); }

}  // namespace warp_guide
