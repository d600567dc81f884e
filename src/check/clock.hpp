// What a moment comes after: for each timeline, the last of its uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weir::check {

using Tick = std::uint64_t;
/// A chain of moments: a stream, a host thread, or a record node of a graph.
using Timeline = std::uint32_t;

/// Only uses and allocations have ticks, so that two clocks are equal where no use tells them apart.
class Clock {
 public:
  Tick operator[](Timeline timeline) const { return timeline < ticks_.size() ? ticks_[timeline] : 0; }
  std::size_t size() const { return ticks_.size(); }
  void clear() { ticks_.clear(); }

  void raise(Timeline timeline, Tick tick) {
    if (timeline >= ticks_.size()) ticks_.resize(timeline + 1);
    if (ticks_[timeline] < tick) ticks_[timeline] = tick;
  }
  void join(const Clock& other) {
    const std::size_t size = other.ticks_.size();
    if (ticks_.size() < size) ticks_.resize(size);
    Tick* const mine = ticks_.data();
    const Tick* const theirs = other.ticks_.data();
    for (std::size_t i = 0; i < size; ++i) mine[i] = mine[i] < theirs[i] ? theirs[i] : mine[i];
  }
  bool covers(const Clock& other) const {
    for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
      if ((*this)[static_cast<Timeline>(i)] < other.ticks_[i]) return false;
    }
    return true;
  }
  void lower(Timeline timeline, Tick tick) {
    if (timeline < ticks_.size() && ticks_[timeline] > tick) ticks_[timeline] = tick;
  }
  void forget(Timeline timeline) {
    if (timeline < ticks_.size()) ticks_[timeline] = 0;
  }

 private:
  std::vector<Tick> ticks_;
};

}  // namespace weir::check
