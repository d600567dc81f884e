// Regions of memory as uses of a recording.
#include "recording/recorder_uses.hpp"

#include <algorithm>
#include <cstdlib>

namespace weir::recorded {

namespace {

Access access_of(weir::Access access) {
  switch (access) {
    case weir::Access::read: return Access::in;
    case weir::Access::write: return Access::out;
    case weir::Access::accumulate: return Access::accumulate;
    default: return Access::inout;
  }
}

struct Shape {
  std::uint64_t bytes;
  std::vector<Repeat> repeat;  ///< the innermost first
};

/// The least number of repetitions that says the same.
Shape shape_of(const Region& region) {
  Shape shape{region.row_bytes, {}};
  const auto repeated = [&](std::uint64_t count, std::uint64_t stride) {
    if (count == 1) return;
    if (shape.repeat.empty() && stride == shape.bytes) {
      shape.bytes *= count;
    } else if (!shape.repeat.empty() && stride == shape.repeat.back().count * shape.repeat.back().stride) {
      shape.repeat.back().count *= count;
    } else {
      shape.repeat.push_back({count, stride});
    }
  };
  repeated(region.rows, region.pitch);
  for (std::size_t d = 0; d < region.outer_count; ++d) repeated(region.outer[d].count, region.outer[d].stride);
  return shape;
}

/// How both sides of a copy lie in memory: as few repetitions as can be had for both at a time.
struct SharedShape {
  std::uint64_t bytes;
  struct Repetition {
    std::uint64_t count;
    std::uint64_t stride[2];
  };
  std::vector<Repetition> repeat;  ///< the innermost first
};

SharedShape shape_of(const Copy& copy) {
  const Layout* const sides[2] = {&copy.to_layout, &copy.from_layout};
  SharedShape shape{copy.to_layout.element_bytes, {}};
  for (std::size_t d = copy.to_layout.shape.rank(); d-- > 0;) {
    const SharedShape::Repetition next{copy.to_layout.shape[d],
                                       {static_cast<std::uint64_t>(std::abs(sides[0]->stride[d])),
                                        static_cast<std::uint64_t>(std::abs(sides[1]->stride[d]))}};
    if (next.count == 1) continue;
    const auto follows = [&](std::size_t side) {
      const std::uint64_t whole =
          shape.repeat.empty() ? shape.bytes : shape.repeat.back().count * shape.repeat.back().stride[side];
      return next.stride[side] == whole;
    };
    if (!follows(0) || !follows(1)) {
      shape.repeat.push_back(next);
    } else if (shape.repeat.empty()) {
      shape.bytes *= next.count;
    } else {
      shape.repeat.back().count *= next.count;
    }
  }
  return shape;
}

}  // namespace

void Uses::add_copy(const Copy& copy, std::span<const Region> regions, std::uint32_t device, std::vector<Use>& uses) {
  const SharedShape shape = shape_of(copy);
  const auto side = [&](std::size_t number, MemoryKind kind) {
    const bool written = number == 0;
    const auto region = std::find_if(regions.begin(), regions.end(),
                                     [&](const Region& one) { return (one.access != weir::Access::read) == written; });
    if (region == regions.end() || region->extent_bytes() == 0) return;
    Use use;
    use.access = access_of(region->access);
    memory_.find(region->buffer, reinterpret_cast<std::uintptr_t>(region->begin), region->extent_bytes(), kind, device,
                 use);
    use.bytes = shape.bytes;
    use.dimensions = static_cast<std::uint8_t>(shape.repeat.size());
    for (std::size_t d = 0; d < use.dimensions; ++d)
      use.repeat[d] = {shape.repeat[d].count, shape.repeat[d].stride[number]};
    uses.push_back(use);
  };
  side(0, copy.to_kind);
  side(1, copy.from_kind);
}

void Uses::add(std::span<const Region> regions, MemoryKind kind, std::uint32_t device, std::vector<Use>& uses) {
  for (const Region& region : regions) {
    if (region.extent_bytes() == 0) continue;
    Use& use = uses.emplace_back();
    use.access = access_of(region.access);
    memory_.find(region.buffer, reinterpret_cast<std::uintptr_t>(region.begin), region.extent_bytes(), kind, device,
                 use);
    if (region.rows == 1 && region.outer_count == 0) {
      use.bytes = region.row_bytes;
      continue;
    }
    const Shape shape = shape_of(region);
    use.bytes = shape.bytes;
    use.dimensions = static_cast<std::uint8_t>(shape.repeat.size());
    std::copy(shape.repeat.begin(), shape.repeat.end(), use.repeat.begin());
  }
}

}  // namespace weir::recorded
