// Regions as runs of bytes.
#include "check/regions.hpp"

#include <algorithm>

namespace weir::check {

bool runs_of(const recorded::Use& use, Runs& runs) {
  runs.clear();
  if (use.dimensions == 0) {
    if (use.bytes != 0) runs.emplace_back(use.offset, use.offset + use.bytes);
    return true;
  }
  if (use.total() == 0) return true;
  std::uint64_t bytes = use.bytes;
  std::vector<recorded::Repeat> left;
  for (std::size_t d = 0; d < use.dimensions; ++d) {
    const recorded::Repeat& repeat = use.repeat[d];
    if (repeat.count == 1) continue;
    // Rows that touch or overlap are one.
    if (left.empty() && repeat.stride <= bytes) {
      bytes += (repeat.count - 1) * repeat.stride;
    } else {
      left.push_back(repeat);
    }
  }
  std::uint64_t rows = 1;
  for (const recorded::Repeat& repeat : left) {
    if (repeat.count > most_rows / rows) return false;
    rows *= repeat.count;
  }
  runs.reserve(static_cast<std::size_t>(rows));
  for (std::uint64_t row = 0; row < rows; ++row) {
    std::uint64_t rest = row, at = use.offset;
    for (const recorded::Repeat& repeat : left) {
      at += rest % repeat.count * repeat.stride;
      rest /= repeat.count;
    }
    runs.emplace_back(at, at + bytes);
  }
  if (rows > 1) normalise(runs);
  return true;
}

void normalise(Runs& runs) {
  if (runs.size() < 2) return;
  std::sort(runs.begin(), runs.end());
  std::size_t last = 0;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    if (runs[i].first <= runs[last].second) {
      runs[last].second = std::max(runs[last].second, runs[i].second);
    } else {
      runs[++last] = runs[i];
    }
  }
  runs.resize(last + 1);
}

std::uint64_t bytes_of(const Runs& runs) {
  std::uint64_t bytes = 0;
  for (const auto& [begin, end] : runs) bytes += end - begin;
  return bytes;
}

Runs common(const Runs& a, const Runs& b) {
  Runs made;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const std::uint64_t begin = std::max(a[i].first, b[j].first), end = std::min(a[i].second, b[j].second);
    if (begin < end) made.emplace_back(begin, end);
    if (a[i].second < b[j].second) {
      ++i;
    } else {
      ++j;
    }
  }
  return made;
}

Runs without(const Runs& a, const Runs& b) {
  Runs made;
  for (auto [at, end] : a) {
    for (const auto& [from, to] : b) {
      if (to <= at || from >= end) continue;
      if (from > at) made.emplace_back(at, from);
      at = std::min(to, end);
    }
    if (at < end) made.emplace_back(at, end);
  }
  return made;
}

bool overlap(const Runs& a, const Runs& b) { return !common(a, b).empty(); }

}  // namespace weir::check
