// The times of a device's events on the host's clock.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <unordered_map>

#include <weir/observer.hpp>

#include "backends/cuda/streams/stocks.hpp"

namespace weir::cuda {

/// The driver tells how long after one event another was reached. When the first one was, the host learns from looking:
/// no event was reached after it was seen to be, and no command began before it was submitted. So the times are right but for
/// the time that the poller takes to see an event at its quickest, and durations are the device's.
/// Thread rule: the poller's thread alone, which looks at events soon after they are reached.
class DeviceClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Between two events that are reached, the second one just now. Spans of one stream do not overlap.
  Span span_of(StreamId stream, Time submitted, cudaEvent_t begin, StockEvent& end);

 private:
  using Duration = std::chrono::steady_clock::duration;
  Duration since_base(cudaEvent_t event) const;

  StockEvent base_;
  Time base_time_;  ///< or a little later
  std::unordered_map<StreamId, Time> last_ends_;
};

}  // namespace weir::cuda
