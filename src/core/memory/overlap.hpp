// Whether two strided pieces of memory share a byte.
#pragma once

#include <weir/op.hpp>

namespace weir::detail {

/// Exact where both have the same strides or one has no gaps; false for other interleavings, which are not decided.
bool share_memory(const void* a, const Layout& a_layout, const void* b, const Layout& b_layout);

}  // namespace weir::detail
