// Kernels, values and streams that the tests of arrays, copies, fills and devices share.
#pragma once

#include <cstddef>
#include <numeric>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {

struct Count {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int first) const { x[i] = first + static_cast<int>(i); }
};
struct AddValue {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};
struct CopyElement {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y) const { y[i] = x[i]; }
};

/// first, first + 1, ...
inline std::vector<int> counted(std::size_t n, int first = 0) {
  std::vector<int> values(n);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// A stream that is not ordered with the legacy stream, so that nothing but its own waits orders it.
inline weir::Stream free_stream(weir::Device device, const char* name) {
  return weir::Stream(device, {.blocking = false, .name = name});
}

/// The elements, read once `stream` is through.
template <class T>
std::vector<T> read(weir::StreamRef stream, const weir::ArrayBase<T>& array) {
  std::vector<T> values(array.size());
  weir::copy(stream, values, array);
  stream.synchronize();
  return values;
}
template <class T>
std::vector<T> host_values(const weir::ArrayBase<T>& array) {
  const std::span<T> elements = array.span();
  return std::vector<T>(elements.begin(), elements.end());
}

}  // namespace weir_test
