// The layout of elements that lie side by side, row after row.
#pragma once

#include <weir/op.hpp>

namespace weir::detail {

inline Layout dense(const Shape& shape, std::size_t element_bytes) {
  Layout layout{shape, {}, element_bytes};
  auto stride = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t d = max_rank; d-- > 0;) {
    layout.stride[d] = stride;
    stride *= static_cast<std::ptrdiff_t>(shape[d]);
  }
  return layout;
}

}  // namespace weir::detail
