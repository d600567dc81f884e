// Launches that use what an earlier one used.
#include "recording/repeats.hpp"

#include <algorithm>
#include <new>
#include <variant>

namespace weir::recorded {

Repeats::Known& Repeats::known(std::span<const Region> regions) {
  std::uint64_t hash = 0;
  for (const Region& region : regions)
    hash = (hash ^ reinterpret_cast<std::uintptr_t>(region.begin)) * 0x9e3779b97f4a7c15;
  return known_[hash >> 58];
}

std::uint32_t Repeats::find(const weir::Command& command, const MemoryMap& memory) {
  if (!std::holds_alternative<Launch>(command.op) || command.uses.empty()) return none;
  Known& one = known(command.uses);
  if (!std::equal(one.regions.begin(), one.regions.end(), command.uses.begin(), command.uses.end())) return none;
  if (one.ends != memory.ends()) {
    const bool live = std::all_of(one.regions.begin(), one.regions.end(),
                                  [&](const Region& region) { return memory.place_of(region.buffer) != none; });
    if (!live) return none;
    one.ends = memory.ends();
  }
  return one.place;
}

void Repeats::note(const weir::Command& command, const std::vector<Use>& uses, std::size_t place,
                   const MemoryMap& memory) noexcept {
  if (!std::holds_alternative<Launch>(command.op) || command.uses.empty() || command.uses.size() > most_regions) return;
  // Ranges grow by their uses, and what a raw view names depends on what lives.
  const bool lasts = uses.size() == command.uses.size() && std::all_of(uses.begin(), uses.end(), [](const Use& use) {
                       return !use.raw && (use.buffer & range_bit) == 0;
                     });
  if (!lasts) return;
  Known& one = known(command.uses);
  bytes_ -= one.regions.capacity() * sizeof(Region);
  try {
    one.regions.assign(command.uses.begin(), command.uses.end());
  } catch (const std::bad_alloc&) {
    one.regions.clear();  // the next one like it is told apart again
  }
  bytes_ += one.regions.capacity() * sizeof(Region);
  one.place = static_cast<std::uint32_t>(place);
  one.ends = memory.ends();
}

}  // namespace weir::recorded
