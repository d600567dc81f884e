// Which buffer of a recording an address lies in.
#include "recording/memory_map.hpp"

#include <algorithm>
#include <iterator>

namespace weir::recorded {

void MemoryMap::add(BufferId id, const void* data, std::size_t bytes, std::uint32_t place) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const Live live{begin, begin + bytes, place};
  by_id_.insert_or_assign(id, live);
  if (bytes != 0) by_address_.insert_or_assign(begin, live);
}

std::uint32_t MemoryMap::remove(BufferId id, const void* data) {
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) {
    unseen_.erase(id);
    return none;
  }
  const std::uint32_t place = found->second.place;
  by_id_.erase(found);
  const auto at = by_address_.find(reinterpret_cast<std::uintptr_t>(data));
  if (at != by_address_.end() && at->second.place == place) by_address_.erase(at);
  return place;
}

std::uint32_t MemoryMap::place_of(BufferId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? none : found->second.place;
}

void MemoryMap::find(BufferId id, std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device,
                     Use& use) {
  const auto inside = [&](const Live& live) { return begin >= live.begin && begin + bytes <= live.end; };
  if (const auto found = by_id_.find(id); id != 0 && found != by_id_.end() && inside(found->second)) {
    use.buffer = found->second.place;
    use.offset = begin - found->second.begin;
    return;
  }
  if (const auto next = by_address_.upper_bound(begin); id == 0 && next != by_address_.begin()) {
    if (const Live& live = std::prev(next)->second; inside(live)) {
      use.buffer = live.place;
      use.offset = begin - live.begin;
      use.raw = true;
      return;
    }
  }
  use.buffer = range_bit | range(id == 0 ? used_ : unseen_[id], begin, bytes, kind, device, id != 0);
  use.offset = begin;
}

std::uint32_t MemoryMap::range(Order& order, std::uintptr_t begin, std::size_t bytes, MemoryKind kind,
                               std::uint32_t device, bool array) {
  Range grown{begin, begin + bytes, static_cast<std::uint32_t>(ranges_.size()), kind, device, array};
  // Of one array all is one.
  auto next = array ? order.begin() : order.upper_bound(begin);
  if (!array && next != order.begin() && ranges_[std::prev(next)->second].end > begin) --next;
  std::uint32_t own = none;
  while (next != order.end() && (array || next->first < grown.end)) {
    const std::uint32_t met = next->second;
    grown.begin = std::min(grown.begin, ranges_[met].begin);
    grown.end = std::max(grown.end, ranges_[met].end);
    if (ranges_[met].kind == MemoryKind::pinned) grown.kind = MemoryKind::pinned;
    if (own == none) {
      own = met;
    } else {
      ranges_[met].part_of = own;
      merged_.push_back(met);
    }
    next = order.erase(next);
  }
  if (own == none) {
    own = grown.part_of;
    ranges_.push_back(grown);
  } else {
    grown.part_of = own;
    ranges_[own] = grown;
  }
  order.emplace(grown.begin, own);
  return own;
}

std::vector<MemoryMap::Part> MemoryMap::parts_of(std::uintptr_t begin, std::size_t bytes) const {
  std::vector<Part> found;
  const std::uintptr_t end = begin + bytes;
  auto next = used_.upper_bound(begin);
  if (next != used_.begin() && ranges_[std::prev(next)->second].end > begin) --next;
  for (; next != used_.end() && next->first < end; ++next) {
    const Range& range = ranges_[next->second];
    found.push_back({next->second, std::max(begin, range.begin) - range.begin, std::min(end, range.end) - range.begin,
                     begin <= range.begin && range.end <= end});
  }
  return found;
}

void MemoryMap::end_ranges(std::uintptr_t begin, std::size_t bytes) {
  for (const Part& part : parts_of(begin, bytes)) {
    if (part.whole) used_.erase(ranges_[part.range].begin);
  }
}

std::uint32_t MemoryMap::whole(std::uint32_t range) const {
  while (ranges_[range].part_of != range) range = ranges_[range].part_of;
  return range;
}

std::size_t MemoryMap::bytes() const {
  constexpr std::size_t node = 48;  // what a map has around a value
  return by_id_.size() * (sizeof(Live) + node) + by_address_.size() * (sizeof(Live) + node) +
         (used_.size() + unseen_.size()) * 2 * node + ranges_.capacity() * sizeof(Range) +
         merged_.capacity() * sizeof(std::uint32_t);
}

}  // namespace weir::recorded
