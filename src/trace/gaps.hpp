// When nothing ran.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
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

}  // namespace weir::trace
