// The memory between an operand's first element and its last.
#pragma once

#include <cstddef>

#include <weir/collectives.hpp>

namespace weir::detail {

struct OperandSpan {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool meets(const OperandSpan& other) const { return begin < other.end && other.begin < end; }
};

/// Of no elements: empty, which meets nothing.
inline OperandSpan span_of(const CollectiveOperand& operand) {
  if (operand.count() == 0) return {};
  OperandSpan span{operand.data, operand.data + operand.layout.element_bytes};
  for (std::size_t d = 0; d < operand.layout.shape.rank(); ++d) {
    const std::ptrdiff_t last = operand.layout.stride[d] * static_cast<std::ptrdiff_t>(operand.layout.shape[d] - 1);
    (last < 0 ? span.begin : span.end) += last;
  }
  return span;
}

}  // namespace weir::detail
