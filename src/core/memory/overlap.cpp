// Overlap of strided memory: is there a sum of index times stride inside an interval?
#include "core/memory/overlap.hpp"

#include <array>
#include <cstdint>

namespace weir::detail {

namespace {

struct Dimension {
  std::ptrdiff_t stride;
  std::ptrdiff_t lowest;  ///< of the index
  std::ptrdiff_t highest;
};

struct Dimensions {
  std::array<Dimension, max_rank> all{};
  std::size_t count = 0;
};

/// The dimensions that matter, longest stride first: in sane layouts the rest of them never reaches one longer stride.
Dimensions dimensions_of(const Layout& layout, bool differences) {
  Dimensions dimensions;
  for (std::size_t d = 0; d < layout.shape.rank(); ++d) {
    const auto last = static_cast<std::ptrdiff_t>(layout.shape[d]) - 1;
    if (last <= 0) continue;
    std::size_t place = dimensions.count++;
    for (; place > 0 && dimensions.all[place - 1].stride < layout.stride[d]; --place) {
      dimensions.all[place] = dimensions.all[place - 1];
    }
    dimensions.all[place] = {layout.stride[d], differences ? -last : 0, last};
  }
  return dimensions;
}

std::ptrdiff_t floor_divide(std::ptrdiff_t a, std::ptrdiff_t b) {
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

/// Whether some index gives an offset in low..high (high excluded).
bool reaches(const Dimensions& dimensions, std::size_t from, std::ptrdiff_t low, std::ptrdiff_t high) {
  if (from == dimensions.count) return low <= 0 && 0 < high;
  const Dimension& d = dimensions.all[from];
  if (d.stride <= 0) return true;  // every index at one place: part of it is there
  const std::ptrdiff_t near = floor_divide(low, d.stride);
  const std::ptrdiff_t far = floor_divide(high - 1, d.stride);
  for (const std::ptrdiff_t index : {near - 1, near, near + 1, far, far + 1}) {
    if (index < d.lowest || index > d.highest) continue;
    if (reaches(dimensions, from + 1, low - index * d.stride, high - index * d.stride)) return true;
  }
  return near + 1 < far && near + 1 <= d.highest && far - 1 >= d.lowest;
}

std::ptrdiff_t extent_of(const Layout& layout) {
  std::ptrdiff_t last = 0;
  for (std::size_t d = 0; d < layout.shape.rank(); ++d) {
    last += (static_cast<std::ptrdiff_t>(layout.shape[d]) - 1) * layout.stride[d];
  }
  return last + static_cast<std::ptrdiff_t>(layout.element_bytes);
}

bool dense(const Layout& layout) {
  return extent_of(layout) == static_cast<std::ptrdiff_t>(layout.shape.count() * layout.element_bytes);
}

bool same_strides(const Layout& a, const Layout& b) {
  if (a.shape != b.shape) return false;
  for (std::size_t d = 0; d < a.shape.rank(); ++d) {
    if (a.shape[d] > 1 && a.stride[d] != b.stride[d]) return false;
  }
  return true;
}

}  // namespace

bool share_memory(const void* a, const Layout& a_layout, const void* b, const Layout& b_layout) {
  const auto distance =
      static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(b) - reinterpret_cast<std::uintptr_t>(a));
  const auto element = static_cast<std::ptrdiff_t>(a_layout.element_bytes);
  if (distance >= extent_of(a_layout) || -distance >= extent_of(b_layout)) return false;
  // An element of the strided side begins less than an element before the dense side, or inside it.
  if (dense(a_layout)) {
    return reaches(dimensions_of(b_layout, false), 0, -distance - element + 1, -distance + extent_of(a_layout));
  }
  if (dense(b_layout)) {
    return reaches(dimensions_of(a_layout, false), 0, distance - element + 1, distance + extent_of(b_layout));
  }
  if (same_strides(a_layout, b_layout))
    return reaches(dimensions_of(a_layout, true), 0, distance - element + 1, distance + element);
  return false;
}

}  // namespace weir::detail
