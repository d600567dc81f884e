// Regions of memory, as observers are told them, as uses of a recording.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <weir/op.hpp>

#include "recording/memory_map.hpp"

namespace weir::recorded {

class Uses {
 public:
  explicit Uses(MemoryMap& memory) : memory_(memory) {}

  /// Each region is a use, or several where it has more dimensions than a use can have.
  void add(std::span<const Region> regions, MemoryKind kind, std::uint32_t device, std::vector<Use>& uses);
  /// The only region of a fill or a guard is one use. What would need several counts as one piece of its size.
  void add_side(std::span<const Region> regions, MemoryKind kind, std::uint32_t device, std::vector<Use>& uses);

  /// The regions of a copy, `to` first, are two uses of one shape.
  void add_copy(const Copy& copy, std::span<const Region> regions, std::uint32_t device, std::vector<Use>& uses);

 private:
  void add(const Region& region, MemoryKind kind, std::uint32_t device, bool whole, std::vector<Use>& uses);

  MemoryMap& memory_;
};

}  // namespace weir::recorded
