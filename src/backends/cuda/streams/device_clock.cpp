// From the device's time to the host's.
#include "backends/cuda/streams/device_clock.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_error.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;

/// The driver's milliseconds are a float, in which a microsecond is lost behind 16 s; and clocks drift apart.
constexpr auto longest_since_base = std::chrono::seconds(5);
constexpr int most_drift = 10'000;  ///< one part in so many
constexpr std::size_t most_streams = 1024;

Clock::duration between(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  note(cudaEventElapsedTime(&milliseconds, begin, end));
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

DeviceClock::Duration DeviceClock::since_base(cudaEvent_t event) const { return between(base_.get(), event); }

Span DeviceClock::span_of(StreamId stream, Time submitted, cudaEvent_t begin, StockEvent& end) {
  const Time now = Clock::now();
  const Duration lasted = between(begin, end.get());
  Time end_time = now;
  if (base_) {
    const Duration since = since_base(end.get());
    base_time_ = std::min(base_time_, now - since);
    end_time = base_time_ + since;
    if (since > longest_since_base) base_time_ = std::min(now, end_time + since / most_drift);
    if (since > longest_since_base) base_ = std::move(end);
  } else {
    base_ = std::move(end);
    base_time_ = now;
  }
  Time begin_time = end_time - lasted;
  Time earliest = submitted;
  if (last_ends_.size() >= most_streams && last_ends_.count(stream) == 0) last_ends_.clear();
  const auto last = last_ends_.find(stream);
  if (last != last_ends_.end()) earliest = std::max(earliest, last->second);
  if (begin_time < earliest) {
    begin_time = earliest;
    end_time = std::max(begin_time, std::min(now, begin_time + lasted));
  }
  last_ends_.insert_or_assign(stream, end_time);
  return {begin_time, end_time};
}

}  // namespace weir::cuda
