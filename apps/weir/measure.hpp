// How the demos take times: several runs, in turn, and the median.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include <weir/device.hpp>

namespace tool {

/// The host's time beside a device since it was made.
class Stopwatch {
 public:
  explicit Stopwatch(weir::Device device) : device_(device), start_(weir::host_now(device)) {}
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(weir::host_now(device_) - start_).count();
  }

 private:
  weir::Device device_;
  std::chrono::steady_clock::time_point start_;
};

/// The times of one variant.
class Times {
 public:
  void add(double milliseconds) {
    times_.insert(std::upper_bound(times_.begin(), times_.end(), milliseconds), milliseconds);
  }
  bool none() const { return times_.empty(); }
  std::size_t count() const { return times_.size(); }
  double median() const { return (times_[(times_.size() - 1) / 2] + times_[times_.size() / 2]) / 2; }
  double least() const { return times_.front(); }
  double greatest() const { return times_.back(); }

 private:
  std::vector<double> times_;
};

/// How many times faster `other` is; 1 if it took no time that a clock can tell.
inline double ratio(const Times& one, const Times& other) {
  return other.median() > 0 ? one.median() / other.median() : 1;
}

/// What the demos say below their times.
inline constexpr const char* how_measured =
    "Medians of {} runs each, taken in turn after a warm-up; memory was allocated before and is not counted.\n";

}  // namespace tool
