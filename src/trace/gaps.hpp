// When nothing ran.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include <weir/trace.hpp>

#include "trace/intervals.hpp"

namespace weir::trace {

struct IdleGap {
  std::int64_t begin;
  std::int64_t end;
  std::uint32_t before;  ///< the command that ended it
};

/// The longest first; all together they are Summary::idle.
inline std::vector<IdleGap> idle_gaps(const Timeline& timeline) {
  std::int64_t until = std::numeric_limits<std::int64_t>::max();
  std::vector<std::uint32_t> places;
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    const Command& one = timeline.commands[i];
    if (!is_work(one)) continue;
    until = std::min(until, one.call < 0 ? one.begin : std::min(one.call, one.begin));
    places.push_back(i);
  }
  const auto begin_of = [&](std::uint32_t place) { return timeline.commands[place].begin; };
  std::stable_sort(places.begin(), places.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return begin_of(a) < begin_of(b); });
  std::vector<IdleGap> made;
  for (const std::uint32_t place : places) {
    if (begin_of(place) > until) made.push_back({until, begin_of(place), place});
    until = std::max(until, timeline.commands[place].end);
  }
  std::stable_sort(made.begin(), made.end(),
                   [](const IdleGap& a, const IdleGap& b) { return a.end - a.begin > b.end - b.begin; });
  return made;
}

/// A device, and when it went to work again.
using GapEnd = std::pair<std::uint32_t, std::int64_t>;
/// When each device's own gaps began. The first one of each begins with the first call of its work; that of the device that was at
/// work first, as in idle_gaps(), with the first call of all.
inline std::map<GapEnd, std::int64_t> idle_gaps_of_devices(const Timeline& timeline) {
  std::map<std::uint32_t, std::vector<Interval>> busy;
  std::map<std::uint32_t, std::int64_t> calls;
  std::int64_t first_begin = std::numeric_limits<std::int64_t>::max(), first_call = first_begin;
  for (const Command& one : timeline.commands) {
    if (!is_work(one)) continue;
    const std::int64_t call = one.call < 0 ? one.begin : std::min(one.call, one.begin);
    first_call = std::min(first_call, call);
    if (!is_of_device(one)) continue;
    const std::uint32_t device = timeline.streams[one.stream].device;
    busy[device].push_back({one.begin, one.end});
    const auto first = calls.try_emplace(device, call).first;
    first->second = std::min(first->second, call);
  }
  std::map<GapEnd, std::int64_t> made;
  for (auto& [device, intervals] : busy) {
    const std::vector<Interval> all = joined(std::move(intervals));
    made[{device, all.front().begin}] = calls.at(device);
    for (std::size_t i = 1; i < all.size(); ++i) made[{device, all[i].begin}] = all[i - 1].end;
    first_begin = std::min(first_begin, all.front().begin);
  }
  for (auto& [gap_end, begin] : made) {
    if (gap_end.second == first_begin) begin = first_call;
  }
  return made;
}

}  // namespace weir::trace
