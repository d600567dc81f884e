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
    if (const auto unseen = unseen_.find(id); unseen != unseen_.end()) {
      unseen_at_.erase(ranges_[unseen->second].begin);
      unseen_.erase(unseen);
      ++ends_;
    }
    return none;
  }
  const std::uint32_t place = found->second.place;
  ++ends_;
  recent_[id % recent_.size()] = {};
  by_id_.erase(found);
  const auto at = by_address_.find(reinterpret_cast<std::uintptr_t>(data));
  if (at != by_address_.end() && at->second.place == place) by_address_.erase(at);
  return place;
}

std::uint32_t MemoryMap::place_of(BufferId id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? none : found->second.place;
}

const MemoryMap::Live* MemoryMap::live(BufferId id) {
  Recent& recent = recent_[id % recent_.size()];
  if (recent.id == id) return recent.live;
  const auto found = by_id_.find(id);
  if (found == by_id_.end()) return nullptr;
  recent = {id, &found->second};
  return recent.live;
}

void MemoryMap::find(BufferId id, std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device,
                     Use& use) {
  const auto inside = [&](const Live& live) { return begin >= live.begin && begin + bytes <= live.end; };
  if (const Live* const found = id != 0 ? live(id) : nullptr; found != nullptr && inside(*found)) {
    use.buffer = found->place;
    use.offset = begin - found->begin;
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
  use.offset = begin;
  if (id != 0) {
    use.buffer = range_bit | unseen(id, begin, bytes, kind, device);
    return;
  }
  const auto met = first_behind(unseen_at_, begin);
  use.raw = met != unseen_at_.end() && met->first < begin + bytes;
  const std::uint32_t array = use.raw ? met->second : none;
  if (use.raw) grow(array, begin, bytes);
  use.buffer = range_bit | (use.raw ? array : used(begin, bytes, kind, device));
}

MemoryMap::Order::const_iterator MemoryMap::first_behind(const Order& order, std::uintptr_t begin) const {
  const auto next = order.upper_bound(begin);
  if (next == order.begin() || ranges_[std::prev(next)->second].end <= begin) return next;
  return std::prev(next);
}

void MemoryMap::pinned(const void* data, std::size_t bytes, Name file, std::uint32_t line) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  pins_.insert_or_assign(begin, Pin{begin + bytes, file, line});
  ++shifts_;
}

void MemoryMap::unpinned(const void* data) {
  const auto pin = pins_.find(reinterpret_cast<std::uintptr_t>(data));
  if (pin == pins_.end()) return;
  ++shifts_;
  for (const Part& part : parts_of(pin->first, pin->second.end - pin->first)) {
    Range& range = ranges_[part.range];
    range.kind = MemoryKind::pageable;
    range.line = 0;
    range.was_pinned = true;
  }
  pins_.erase(pin);
}

void MemoryMap::take_in(Range& grown) {
  auto pin = pins_.upper_bound(grown.begin);
  if (pin != pins_.begin() && std::prev(pin)->second.end > grown.begin) --pin;
  for (; pin != pins_.end() && pin->first < grown.end; ++pin) {
    grown.begin = std::min(grown.begin, pin->first);
    grown.end = std::max(grown.end, pin->second.end);
    grown.kind = MemoryKind::pinned;
    grown.file = pin->second.file;
    grown.line = pin->second.line;
  }
  for (auto next = first_behind(used_, grown.begin); next != used_.end() && next->first < grown.end;) {
    Range& met = ranges_[next->second];
    grown.begin = std::min(grown.begin, met.begin);
    grown.end = std::max(grown.end, met.end);
    if (met.kind == MemoryKind::pinned) grown.kind = MemoryKind::pinned;
    grown.was_pinned |= met.was_pinned;
    if (grown.line == 0) {
      grown.file = met.file;
      grown.line = met.line;
    }
    if (grown.part_of == none) {
      grown.part_of = next->second;
    } else {
      met.part_of = grown.part_of;
      merged_.push_back(next->second);
    }
    next = used_.erase(next);
  }
}

std::uint32_t MemoryMap::used(std::uintptr_t begin, std::size_t bytes, MemoryKind kind, std::uint32_t device) {
  Range grown{begin, begin + bytes, none, kind, device, false};
  take_in(grown);
  if (grown.part_of == none) {
    grown.part_of = static_cast<std::uint32_t>(ranges_.size());
    ranges_.push_back(grown);
  } else {
    ranges_[grown.part_of] = grown;
  }
  used_.emplace(grown.begin, grown.part_of);
  return grown.part_of;
}

std::uint32_t MemoryMap::unseen(BufferId id, std::uintptr_t begin, std::size_t bytes, MemoryKind kind,
                                std::uint32_t device) {
  const auto [found, added] = unseen_.try_emplace(id, static_cast<std::uint32_t>(ranges_.size()));
  if (added) {
    ranges_.push_back({begin, begin, found->second, kind, device, true});
  } else if (MemoryKind& known = ranges_[found->second].kind; known != MemoryKind::pinned && known != kind) {
    known = kind;
    ++shifts_;
  }
  const Range& range = ranges_[found->second];
  const bool inside = !added && range.begin <= begin && begin + bytes <= range.end;
  if (!inside || !pins_.empty()) grow(found->second, begin, bytes);  // a new pin may have more of it
  return found->second;
}

/// All of one array is one range; raw views of it may have been used before it was.
void MemoryMap::grow(std::uint32_t array, std::uintptr_t begin, std::size_t bytes) {
  Range grown = ranges_[array];
  unseen_at_.erase(grown.begin);
  grown.begin = std::min(grown.begin, begin);
  grown.end = std::max(grown.end, begin + bytes);
  take_in(grown);
  ranges_[array] = grown;
  unseen_at_.emplace(grown.begin, array);
}

std::vector<MemoryMap::Part> MemoryMap::parts_of(std::uintptr_t begin, std::size_t bytes) const {
  std::vector<Part> found;
  const std::uintptr_t end = begin + bytes;
  for (auto next = first_behind(used_, begin); next != used_.end() && next->first < end; ++next) {
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
         pins_.size() * (sizeof(Pin) + node) + (used_.size() + unseen_.size()) * 2 * node +
         ranges_.capacity() * sizeof(Range) + merged_.capacity() * sizeof(std::uint32_t);
}

}  // namespace weir::recorded
