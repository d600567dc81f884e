// Copies of pageable memory that would have been faster from or to pinned memory.
#pragma once

#include <vector>

#include <weir/trace.hpp>

namespace weir::trace {

/// Each with what it would save: beside copies of pinned memory on the same way that were not much larger; where the recording has
/// none on that way, all the time of those that held the host. Not on the CPU, which copies both alike.
std::vector<Held> slow_copies(const Timeline& timeline);

}  // namespace weir::trace
