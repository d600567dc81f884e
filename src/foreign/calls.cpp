// Calls of the CUDA API, and which command each of them made.
#include "foreign/calls.hpp"

#include <algorithm>
#include <tuple>

namespace weir::foreign {

Calls::Calls(const std::vector<Activity>& activities) {
  std::vector<const Activity*> told;
  for (const Activity& one : activities) {
    if (one.kind == Activity::Kind::api) told.push_back(&one);
  }
  // What lies within another call of its thread comes behind that one.
  std::sort(told.begin(), told.end(), [](const Activity* a, const Activity* b) {
    return std::tuple(a->thread, a->begin, ~a->end) < std::tuple(b->thread, b->begin, ~b->end);
  });
  for (const Activity* one : told) {
    const bool within = !calls_.empty() && calls_.back().thread == one->thread && one->end <= calls_.back().end;
    if (!within) calls_.push_back({one->begin, one->end, one->thread, one->name});
    by_correlation_.try_emplace(one->correlation, calls_.size() - 1);
  }
}

}  // namespace weir::foreign
