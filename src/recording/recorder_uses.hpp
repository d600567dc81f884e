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

  /// Each region is a use.
  void add(std::span<const Region> regions, MemoryKind kind, std::uint32_t device, std::vector<Use>& uses);
  /// The regions of a copy, `to` first, are two uses of one shape.
  void add_copy(const Copy& copy, std::span<const Region> regions, std::uint32_t device, std::vector<Use>& uses);

 private:
  MemoryMap& memory_;
};

}  // namespace weir::recorded
