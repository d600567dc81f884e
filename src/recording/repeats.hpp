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
  /// An earlier launch, as it was kept.
  struct Launched {
    Command made;
    std::uint32_t place = none;
  };
  /// A launch of the same kernel by the same line and thread, in the same stream, with the same uses; null if none is known.
  const Launched* again(const weir::Command& command, const MemoryMap& memory);
  /// The place of a launch that has the uses of this one; none if none is known.
  std::uint32_t find(const weir::Command& command, const MemoryMap& memory);

  /// `uses` are the regions of `command`, which has that place as `made`.
  /// `again`: the next one like it may be kept as this one was.
  void note(const weir::Command& command, const Command& made, const std::vector<Use>& uses, std::size_t place,
            const MemoryMap& memory, bool again) noexcept;
  /// Of a command whose uses find() has just found.
  void note_like(const weir::Command& command, const Command& made, bool again) noexcept;
  std::size_t bytes() const { return bytes_; }

 private:
  struct Known {
    std::vector<Region> regions;
    Launched launched;
    std::uint64_t ends = 0;    ///< of the memory, when all of its arrays were known to live
    std::uint64_t shifts = 0;  ///< of the memory; matters if it uses `ranges`
    bool ranges = false;
    // What the next one must share with it to be the same again. Without a kernel: none is.
    const Kernel* kernel = nullptr;
    const char* file = nullptr;
    std::uint32_t line = 0;
    std::uint32_t thread = 0;
    StreamId stream = 0;
  };
  /// Launches of more are rare, and would take too much.
  static constexpr std::size_t most_regions = 16;

  Known& known(const weir::Command& command, const Launch& launch);
  static bool has_uses_of(Known& one, const weir::Command& command, const MemoryMap& memory);
  static void keep(Known& one, const weir::Command& command, const Launch& launch, const Command& made,
                   bool again) noexcept;

  std::array<Known, 64> known_;  ///< each where its kernel, stream and regions say
  std::size_t bytes_ = 0;
};

}  // namespace weir::recorded
