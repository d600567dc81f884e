// Launches that use what an earlier one used.
#include "recording/repeats.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <variant>

namespace weir::recorded {

namespace {

/// As ==, by a few wide comparisons: a launch of a loop has its regions compared each time.
bool same(const Region& a, const Region& b) {
  // From the beginning to the number of strides, without padding.
  constexpr std::size_t fixed = offsetof(Region, outer_count) + 1;
  static_assert(std::is_standard_layout_v<Region>);
  static_assert(fixed == 4 * sizeof(std::size_t) + sizeof(BufferId) + sizeof(Access) + 1);
  if (std::memcmp(&a, &b, fixed) != 0) return false;
  return a.outer_count == 0 || std::equal(a.outer, a.outer + a.outer_count, b.outer);
}

}  // namespace

Repeats::Known& Repeats::known(const weir::Command& command, const Launch& launch) {
  // Each is multiplied by a number of its own: no product waits for another one.
  std::uint64_t factor = 0x9e3779b97f4a7c15;
  std::uint64_t hash = command.stream * 0xff51afd7ed558ccd;
  const auto mix = [&](const void* what) {
    hash += reinterpret_cast<std::uintptr_t>(what) * factor;
    factor += 0x7f4a7c15f39cc060;
  };
  mix(launch.kernel);
  for (const Region& region : command.uses) mix(region.begin);
  return known_[hash >> 58];
}

bool Repeats::has_uses_of(Known& one, const weir::Command& command, const MemoryMap& memory) {
  if (one.regions.size() != command.uses.size()) return false;
  for (std::size_t i = 0; i < one.regions.size(); ++i) {
    if (!same(one.regions[i], command.uses[i])) return false;
  }
  if (one.ranges && one.shifts != memory.shifts()) return false;
  if (one.ends != memory.ends()) {
    const bool live = std::all_of(one.regions.begin(), one.regions.end(),
                                  [&](const Region& region) { return memory.lives(region.buffer); });
    if (!live) return false;
    one.ends = memory.ends();
  }
  return true;
}

const Repeats::Launched* Repeats::again(const weir::Command& command, const MemoryMap& memory) {
  const auto* const launch = std::get_if<Launch>(&command.op);
  if (launch == nullptr || launch->name != nullptr || command.graph != 0) return nullptr;
  Known& one = known(command, *launch);
  if (one.kernel != launch->kernel || one.line != command.where.line() || one.file != command.where.file_name() ||
      one.thread != command.thread || one.stream != command.stream || !has_uses_of(one, command, memory)) {
    return nullptr;
  }
  return &one.launched;
}

std::uint32_t Repeats::find(const weir::Command& command, const MemoryMap& memory) {
  const auto* const launch = std::get_if<Launch>(&command.op);
  if (launch == nullptr) return none;
  Known& one = known(command, *launch);
  return has_uses_of(one, command, memory) ? one.launched.place : none;
}

void Repeats::note(const weir::Command& command, const Command& made, const std::vector<Use>& uses, std::size_t place,
                   const MemoryMap& memory, bool again) noexcept {
  const auto* const launch = std::get_if<Launch>(&command.op);
  if (launch == nullptr || command.uses.size() > most_regions || uses.size() != command.uses.size()) return;
  bool ranges = false;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const bool range = (uses[i].buffer & range_bit) != 0;
    // What a raw view names depends on what lives, and ranges of memory without an array meet others by their uses.
    if (uses[i].raw || (range && command.uses[i].buffer == 0)) return;
    ranges |= range;
  }
  Known& one = known(command, *launch);
  bytes_ -= one.regions.capacity() * sizeof(Region);
  try {
    one.regions.assign(command.uses.begin(), command.uses.end());
    one.launched.place = static_cast<std::uint32_t>(place);
    keep(one, command, *launch, made, again);
  } catch (const std::bad_alloc&) {  // the next one like it is told apart again
    one.regions.clear();
    one.launched.place = none;
    one.kernel = nullptr;
  }
  bytes_ += one.regions.capacity() * sizeof(Region);
  one.ends = memory.ends();
  one.shifts = memory.shifts();
  one.ranges = ranges;
}

void Repeats::note_like(const weir::Command& command, const Command& made, bool again) noexcept {
  if (const auto* const launch = std::get_if<Launch>(&command.op))
    keep(known(command, *launch), command, *launch, made, again);
}

void Repeats::keep(Known& one, const weir::Command& command, const Launch& launch, const Command& made,
                   bool again) noexcept {
  one.launched.made = made;
  one.kernel = again && launch.name == nullptr && command.graph == 0 ? launch.kernel : nullptr;
  one.file = command.where.file_name();
  one.line = command.where.line();
  one.thread = command.thread;
  one.stream = command.stream;
}

}  // namespace weir::recorded
