// A rate that several jobs share by their weights, such as the memory's: when each of them is through.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <tuple>

namespace weir::sim::model {

class SharedRate {
 public:
  /// `rate` bytes a microsecond in all; no more than `most` for each unit of weight.
  SharedRate(double rate, double most) : rate_(rate), most_(most) {}

  void add(double now, std::uint32_t job, double weight, double bytes) {
    advance(now);
    jobs_.emplace(level_ + bytes / weight, job, weight);
    weight_ += weight;
  }
  /// When the next job is through if none comes; infinite without jobs.
  double next() const {
    if (jobs_.empty()) return std::numeric_limits<double>::infinity();
    return last_ + (std::get<0>(*jobs_.begin()) - level_) / speed();
  }
  /// The job that is through at next(), which is `now`.
  std::uint32_t pop(double now) {
    advance(now);
    const auto [level, job, weight] = *jobs_.begin();
    jobs_.erase(jobs_.begin());
    level_ = level;
    weight_ = jobs_.empty() ? 0 : weight_ - weight;
    return job;
  }
  bool empty() const { return jobs_.empty(); }

 private:
  double speed() const { return weight_ * most_ <= rate_ ? most_ : rate_ / weight_; }
  void advance(double now) {
    if (!jobs_.empty()) level_ += (now - last_) * speed();
    last_ = now;
  }

  double rate_;
  double most_;
  double level_ = 0;  ///< bytes that each unit of weight has been given since the beginning
  double last_ = 0;
  double weight_ = 0;
  std::set<std::tuple<double, std::uint32_t, double>> jobs_;
};

}  // namespace weir::sim::model
