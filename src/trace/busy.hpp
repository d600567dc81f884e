// When an engine was busy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "trace/intervals.hpp"

namespace weir::trace {

class Busy {
 public:
  /// Of joined intervals; pauses of no more than `pause` do not end a time in which it was busy.
  Busy(std::vector<Interval> all, std::int64_t pause) : all_(std::move(all)) {
    std::int64_t before = 0;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      before_.push_back(before);
      before += all_[i].end - all_[i].begin;
      const bool goes_on = i > 0 && all_[i].begin - all_[i - 1].end <= pause;
      since_.push_back(goes_on ? since_.back() : all_[i].begin);
    }
  }

  const std::vector<Interval>& all() const { return all_; }
  /// For how long it was busy until a moment.
  std::int64_t until(std::int64_t moment) const {
    const std::size_t begun = begun_at(moment);
    if (begun == 0) return 0;
    const Interval& at = all_[begun - 1];
    return before_[begun - 1] + std::min(moment, at.end) - at.begin;
  }
  /// Since when it has been busy at a moment at which it is, but for short pauses.
  std::int64_t since(std::int64_t moment) const { return since_[begun_at(moment) - 1]; }
  /// The same without any pause.
  std::int64_t since_without_pause(std::int64_t moment) const { return all_[begun_at(moment) - 1].begin; }

 private:
  /// How many intervals have begun.
  std::size_t begun_at(std::int64_t moment) const {
    const auto after = std::upper_bound(all_.begin(), all_.end(), moment,
                                        [](std::int64_t at, const Interval& it) { return at < it.begin; });
    return static_cast<std::size_t>(after - all_.begin());
  }

  std::vector<Interval> all_;
  std::vector<std::int64_t> before_;  ///< of each, for how long it was busy until then
  std::vector<std::int64_t> since_;   ///< of each, since when without a pause that is longer
};

}  // namespace weir::trace
