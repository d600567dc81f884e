// Regions as runs of bytes: exact for any strides.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <weir/recording.hpp>

namespace weir::check {

/// Disjoint, sorted, none touching the next.
using Run = std::pair<std::uint64_t, std::uint64_t>;
using Runs = std::vector<Run>;

/// Regions of more rows than these are not compared, and listed as unchecked.
inline constexpr std::uint64_t most_rows = 1 << 16;

/// False if there would be more than most_rows.
bool runs_of(const recorded::Use& use, Runs& runs);

/// Sorts, and joins what touches.
void normalise(Runs& runs);
std::uint64_t bytes_of(const Runs& runs);
/// Both are normal.
Runs common(const Runs& a, const Runs& b);
/// What of `a` is not in `b`.
Runs without(const Runs& a, const Runs& b);
bool overlap(const Runs& a, const Runs& b);

}  // namespace weir::check
