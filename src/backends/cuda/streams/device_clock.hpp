// The times of a device on the host's clock.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <unordered_map>

#include <weir/observer.hpp>

#include "backends/cuda/streams/stocks.hpp"

namespace weir::cuda {

/// Where a clock of a device stands on the host's. No command begins before it is submitted, and none ends after it was seen
/// to be over: between these two bounds lies the truth. Where a device is idle, a kernel begins a few microseconds after its
/// call, so the truth is that close to the lower bound. Clocks drift apart, so bounds that nothing confirms widen; and what is
/// known of the clock moves no further than it must, so that times that are told one after the other fit together.
class ClockMapping {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Duration = std::chrono::nanoseconds;

  /// A command that began at `device` was submitted at `host` or later.
  void begins_after(Time host, Duration device);
  /// A command that ended at `device` was over at `host`, or earlier.
  void ends_before(Time host, Duration device);

  Time host_time(Duration device) const { return Time(offset_.value_or(Duration{}) + device); }
  Duration error() const;

 private:
  Duration widened(Duration device);
  void move_between_bounds();

  std::optional<Duration> least_;
  std::optional<Duration> most_;
  std::optional<Duration> offset_;  ///< the host's clock less the device's; none: nothing is known
  bool has_latency_ = false;        ///< offset_ was taken from a lower bound
  Duration at_{};                   ///< when the bounds are as they are
};

/// A device has two clocks: its timer, which kernels read, and that of the driver's events, which tells differences alone. Now and
/// then both are asked at once, by a kernel with an event behind it in a stream of our own. So they agree, and bounds of the host's
/// time are close even where no command begins soon after its call.
/// Thread rule: the poller's thread alone, which looks at commands soon after they are over.
class DeviceClock {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Asks both clocks, unless that was done lately. Takes some microseconds. False: there is no answer yet, and it is worth asking
  /// again: where an answer took so long that its bounds are wide, another may be closer. Of a device that is full for long, the
  /// next answer counts. With the device current.
  bool ask(CudaDevice& device) noexcept;

  /// A command between two events, the second of which was seen to be reached.
  Span between(Time submitted, Time seen, cudaEvent_t begin, cudaEvent_t end);

  /// The same of kernels that noted when they ran: all of them first, then each.
  void learn(Time submitted, Time seen, const detail::KernelTimes& times);
  Span of_kernel(const detail::KernelTimes& times) const;

  /// What comes out of one stream, one after the other: spans do not overlap, and none begins before its command is submitted.
  Span in_order(StreamId stream, Time submitted, Time seen, Span span);
  /// Of what takes no time there.
  Span at_the_end(StreamId stream, Time submitted);

 private:
  ClockMapping timer_;
  StockEvent base_;                      ///< the driver tells how long after it others were reached
  ClockMapping::Duration base_timer_{};  ///< what the timer was then, if nothing came between kernel and event
  ClockMapping::Duration base_late_{};   ///< by how much it may have been more
  Time asked_{};
  Time first_asked_{};  ///< of questions of which each but the last had an answer that was not close
  bool asks_again_ = false;
  StockEvent question_;  ///< behind the kernel that has not answered yet
  std::unordered_map<StreamId, Time> last_ends_;
};

}  // namespace weir::cuda
