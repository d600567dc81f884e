// From the device's time to the host's.
#include "backends/cuda/streams/device_clock.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using Duration = ClockMapping::Duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Clocks differ by 50 in a million at most.
constexpr int drift_part = 20'000;
/// Where one of the bounds is not known.
constexpr Duration usual_error = microseconds(25);
/// From a launch's call to its begin, where nothing is in the way.
constexpr Duration usual_latency = microseconds(4);
/// The driver's milliseconds since the event that was asked for are a float, in which a microsecond is lost behind 16 s.
constexpr Duration asked_lately = milliseconds(200);
constexpr Duration usual_answer = microseconds(100);
constexpr Duration longest_answer = milliseconds(50);
/// Of an answer that took longer, the bounds are not close: the thread was kept from its core, or the kernel from the device.
constexpr Duration close_answer = microseconds(200);
/// From a kernel's end to the time of an event right behind it.
constexpr Duration kernel_to_event = microseconds(1);
/// Of what the driver tells between two questions.
constexpr Duration rounding = std::chrono::nanoseconds(25);
constexpr std::size_t most_streams = 1024;

Duration elapsed(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  note(cudaEventElapsedTime(&milliseconds, begin, end));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

Duration since_epoch(Clock::time_point time) { return time.time_since_epoch(); }

}  // namespace

void ClockMapping::begins_after(Time host, Duration device) {
  const Duration least = since_epoch(host) - device - widened(device);
  least_ = std::max(least_.value_or(least), least);
  if (most_ && *most_ < *least_) most_.reset();  // the clocks have drifted further, or that was wrong
  move_between_bounds();
}

void ClockMapping::ends_before(Time host, Duration device) {
  const Duration most = since_epoch(host) - device + widened(device);
  most_ = std::min(most_.value_or(most), most);
  if (least_ && *least_ > *most_) least_.reset();
  move_between_bounds();
}

/// Bounds are of the latest moment that something was said of; what was known before has widened by then. By how much what is said of
/// an earlier moment has.
Duration ClockMapping::widened(Duration device) {
  if (device <= at_) return (at_ - device) / drift_part;
  const Duration by = (device - std::exchange(at_, device)) / drift_part;
  if (least_) *least_ -= by;
  if (most_) *most_ += by;
  return {};
}

void ClockMapping::move_between_bounds() {
  if (!least_) {
    if (!offset_ || *offset_ > *most_) offset_ = most_;
    return;
  }
  const Duration wide = most_ ? *most_ - *least_ : Duration::max();
  if (!offset_ || !std::exchange(has_latency_, true)) offset_ = *least_ + std::min(usual_latency, wide / 2);
  offset_ = std::clamp(*offset_, *least_ + std::min(usual_latency / 2, wide / 4),
                       *least_ + std::min(2 * usual_latency, wide / 4 * 3));
}

Duration ClockMapping::error() const {
  if (!least_ || !most_) return usual_error;
  return std::max(*offset_ - *least_, *most_ - *offset_);
}

bool DeviceClock::ask(CudaDevice& device) noexcept {
  if (!question_) {
    if (base_ && !asks_again_ && Clock::now() - asked_ < asked_lately) return true;
    try {
      question_ = StockEvent(device, true, {});
    } catch (...) {
      return true;  // the driver makes no more events
    }
    asked_ = Clock::now();
    if (!asks_again_) first_asked_ = asked_;
    asks_again_ = false;
    const cudaError_t answer = device.times_memory().stamp(question_.get());
    note(answer);
    if (answer != cudaSuccess) {
      question_ = {};
      return true;
    }
  }
  // A device that has been full for long is not waited for.
  const Time until = std::min(Clock::now() + usual_answer, asked_ + longest_answer);
  Time seen{};
  cudaError_t answer = cudaErrorNotReady;
  do {
    answer = cudaEventQuery(question_.get());
    seen = Clock::now();
  } while (answer == cudaErrorNotReady && seen < until);
  note(answer);
  if (answer == cudaErrorNotReady) return seen - asked_ > longest_answer;
  if (answer == cudaSuccess) {
    const detail::KernelTimes& times = device.times_memory().stamped();
    learn(asked_, seen, times);
    // The events' clock and the timer go alike. Something may have come between kernel and event, this time or the last: so the later one
    // is right, unless it is later than can be.
    const Duration late = seen - asked_;
    const Duration now = Duration(times.end) + kernel_to_event;
    const Duration before = base_ ? base_timer_ + elapsed(base_.get(), question_.get()) - rounding : now;
    base_timer_ = before > now && before < Duration(times.end) + late ? before : now;
    base_late_ = late;
    std::swap(base_, question_);
    asks_again_ = base_late_ > close_answer && seen - first_asked_ < longest_answer;
  }
  question_ = {};
  return !asks_again_;
}

Span DeviceClock::between(Time submitted, Time seen, cudaEvent_t begin, cudaEvent_t end) {
  const Duration lasted = elapsed(begin, end);
  if (!base_) return {seen - lasted, seen, Span::Source::events, lasted};
  const Duration ended = base_timer_ + elapsed(base_.get(), end);
  // A bound that is not true would hold for kernels, too: they would begin too late by as much.
  timer_.begins_after(submitted, ended - lasted + (base_late_ > close_answer ? base_late_ : 2 * kernel_to_event));
  timer_.ends_before(seen, ended);
  const Time end_time = timer_.host_time(ended);
  return {end_time - lasted, end_time, Span::Source::events, timer_.error() + base_late_};
}

void DeviceClock::learn(Time submitted, Time seen, const detail::KernelTimes& times) {
  timer_.begins_after(submitted, Duration(times.begin));
  timer_.ends_before(seen, Duration(times.end));
}

Span DeviceClock::of_kernel(const detail::KernelTimes& times) const {
  return {timer_.host_time(Duration(times.begin)), timer_.host_time(Duration(times.end)), Span::Source::kernel,
          timer_.error()};
}

Span DeviceClock::in_order(StreamId stream, Time submitted, Time seen, Span span) {
  const Duration lasted = span.end - span.begin;
  if (last_ends_.size() >= most_streams && last_ends_.count(stream) == 0) last_ends_.clear();
  Time& last = last_ends_[stream];
  const Time earliest = std::max(submitted, last);
  if (span.begin < earliest) {
    span.begin = earliest;
    span.end = std::max(span.begin, std::min(seen, span.begin + lasted));
  }
  last = span.end;
  return span;
}

Span DeviceClock::at_the_end(StreamId stream, Time submitted) {
  const auto last = last_ends_.find(stream);
  const Time time = last != last_ends_.end() ? std::max(submitted, last->second) : submitted;
  return {time, time};
}

}  // namespace weir::cuda
