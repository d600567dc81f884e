// Launches that use what an earlier one used, as those of a loop do: they need not be told apart use by use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <weir/op.hpp>

#include "recording/memory_map.hpp"

namespace weir::recorded {

/// Thread rule: one at a time.
class Repeats {
 public:
  /// The place of a launch that has the uses of this one; none if none is known.
  std::uint32_t find(const weir::Command& command, const MemoryMap& memory);
  /// `uses` are the regions of `command`, which has that place.
  void note(const weir::Command& command, const std::vector<Use>& uses, std::size_t place,
            const MemoryMap& memory) noexcept;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Known {
    std::vector<Region> regions;
    std::uint32_t place = none;
    std::uint64_t ends = 0;  ///< of the memory, when all of its arrays were known to live
  };
  /// Launches of more are rare, and would take too much.
  static constexpr std::size_t most_regions = 16;

  Known& known(std::span<const Region> regions);

  std::array<Known, 64> known_;  ///< each where its regions say
  std::size_t bytes_ = 0;
};

}  // namespace weir::recorded
