// Calls of the CUDA API, and which command each of them made.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "foreign/activity.hpp"

namespace weir::foreign {

/// One call of the program's. What the runtime calls of the driver within is part of it.
struct Call {
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t thread;
  std::uint32_t name;
};

class Calls {
 public:
  explicit Calls(const std::vector<Activity>& activities);

  /// Null for one that is not known.
  const Call* of(std::uint32_t correlation) const {
    const auto at = by_correlation_.find(correlation);
    return at == by_correlation_.end() ? nullptr : &calls_[at->second];
  }
  /// Those of a thread by their begin, one thread after the other.
  const std::vector<Call>& all() const { return calls_; }

 private:
  std::vector<Call> calls_;
  std::unordered_map<std::uint32_t, std::size_t> by_correlation_;
};

}  // namespace weir::foreign
