// From the device's time to the host's.
#include "backends/cuda/streams/device_clock.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using Duration = ClockMapping::Duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Clocks that differ by 50 in a million are 13 us apart then.
constexpr Duration bounds_hold = milliseconds(250);
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
constexpr std::size_t most_streams = 1024;

Duration elapsed(cudaEvent_t begin, cudaEvent_t end) {
  float milliseconds = 0;
  note(cudaEventElapsedTime(&milliseconds, begin, end));
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double, std::milli>(milliseconds));
}

Duration since_epoch(Clock::time_point time) { return time.time_since_epoch(); }

template <class Better>
std::optional<Duration> better_of(std::optional<Duration> a, std::optional<Duration> b, Better better) {
  if (!a || !b) return a ? a : b;
  return better(*a, *b) ? a : b;
}

}  // namespace

void ClockMapping::begins_after(Time host, Duration device) {
  renew(device);
  const Duration least = since_epoch(host) - device;
  now_.least = std::max(now_.least.value_or(least), least);
  if (now_.most && *now_.most < least) now_.most.reset();  // the clocks have drifted
}

void ClockMapping::ends_before(Time host, Duration device) {
  renew(device);
  const Duration most = since_epoch(host) - device;
  now_.most = std::min(now_.most.value_or(most), most);
  if (now_.least && *now_.least > most) now_.least.reset();
}

void ClockMapping::renew(Duration device) {
  if (device - since_ < bounds_hold) return;
  before_ = device - since_ < 2 * bounds_hold ? now_ : Bounds{};
  now_ = {};
  since_ = device;
}

ClockMapping::Bounds ClockMapping::bounds() const {
  Bounds both{better_of(now_.least, before_.least, std::greater<>()),
              better_of(now_.most, before_.most, std::less<>())};
  return both.least && both.most && *both.least > *both.most ? now_ : both;
}

Duration ClockMapping::offset() const {
  const Bounds known = bounds();
  if (!known.least) return known.most.value_or(Duration{});
  const Duration above = known.most ? std::min(usual_latency, (*known.most - *known.least) / 2) : usual_latency;
  return *known.least + above;
}

Duration ClockMapping::error() const {
  const Bounds known = bounds();
  if (!known.least || !known.most) return bounds_hold / 10'000;
  return std::max(offset() - *known.least, *known.most - offset());
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
    std::swap(base_, question_);
    base_timer_ = Duration(times.end) + kernel_to_event;
    base_late_ = seen - asked_;
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
  timer_.begins_after(submitted, ended - lasted + base_late_);
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
