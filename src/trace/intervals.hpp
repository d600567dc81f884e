// Intervals of time, joined and cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <weir/trace.hpp>

namespace weir::trace {

struct Interval {
  std::int64_t begin;
  std::int64_t end;
  friend bool operator==(const Interval&, const Interval&) = default;
};

/// What is covered by any of them, sorted, without overlaps.
inline std::vector<Interval> joined(std::vector<Interval> all) {
  std::sort(all.begin(), all.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> made;
  for (const Interval& one : all) {
    if (!made.empty() && one.begin <= made.back().end) {
      made.back().end = std::max(made.back().end, one.end);
    } else {
      made.push_back(one);
    }
  }
  return made;
}

inline std::int64_t length(const std::vector<Interval>& joined) {
  std::int64_t sum = 0;
  for (const Interval& one : joined) sum += one.end - one.begin;
  return sum;
}

/// How long both cover; of joined ones.
inline std::int64_t common(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::int64_t sum = 0;
  for (std::size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    sum += std::max<std::int64_t>(0, std::min(a[i].end, b[k].end) - std::max(a[i].begin, b[k].begin));
    if (a[i].end < b[k].end) {
      ++i;
    } else {
      ++k;
    }
  }
  return sum;
}

/// Whether it took time: memory, records and waits do not.
inline bool is_work(const Command& command) { return command.state == State::ran && command.lane < Lane::memory; }
/// Whether it is work of a device's own.
inline bool is_of_device(const Command& command) { return is_work(command) && command.lane != Lane::host_function; }

}  // namespace weir::trace
