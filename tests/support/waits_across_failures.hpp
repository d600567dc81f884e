// Failures that travel along waits across backends: a part of waits_across.hpp.
#pragma once

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include <weir/observer.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/waits_across_pairs.hpp"

namespace weir_test {

//  a: [hold ......][fails]|e
//  b:  wait(e) [mark: skipped]         b fails with a's error; also where a failed before the wait
TEST_P(WaitsAcross, a_stream_that_waits_for_failed_work_fails_with_the_same_error) {
  for (const bool held : {false, true}) {
    Gate gate;
    Marker marker;
    weir::Stream a(recording(), {.name = "the culprit"}), b(waiting());
    if (held) gate.hold(a);
    fail(a);
    ASSERT_TRUE(held || eventually([&] { return a.done(); }));
    wait(b, a);
    mark(b, marker);
    gate.open();
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { b.synchronize(); }, {"the pipe burst", "culprit"}));
    EXPECT_EQ(marker.value(), 0);
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { a.synchronize(); }, {"the pipe burst", "culprit"}));
    mark(b, marker);
    b.synchronize();
    EXPECT_EQ(marker.value(), 1);
    recording().synchronize();  // nothing is reported twice
    waiting().synchronize();
  }
}

//  a: [hold 1 ...][fails]|e                      reported and forgotten by a ...
//  b: [hold 2 ......]  wait(e) [mark: skipped]                          ... while b has yet to reach its wait
TEST_P(WaitsAcross, a_report_in_the_meantime_does_not_let_waiting_work_run_on_bad_data) {
  for (const bool late : {false, true}) {
    Gate first, second;
    Marker marker;
    weir::Stream a(recording()), b(waiting());
    first.hold(a);
    second.hold(b);
    fail(a);
    if (late) first.open();
    wait(b, a);
    mark(b, marker);
    first.open();
    EXPECT_TRUE(returns_while_held(second, [&] { EXPECT_THROW(a.synchronize(), weir::Error); }));
    second.open();
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { b.synchronize(); }, {"the pipe burst"}));
    EXPECT_EQ(marker.value(), 0);
  }
}

/// Which stream fails, and from which it has the failure.
class ToldFailures final : public weir::Observer {
 public:
  using Pair = std::pair<weir::StreamId, weir::StreamId>;
  ToldFailures() { weir::attach(*this, weir::Watch::refusals); }
  ~ToldFailures() override { weir::detach(*this); }
  void failed(const weir::Failure& failure) override {
    const std::lock_guard lock(mutex_);
    pairs_.emplace_back(failure.stream, failure.from);
  }
  /// Sorted by stream: one that inherits may be told before the one that it has the failure from.
  std::vector<Pair> all() {
    const std::lock_guard lock(mutex_);
    std::vector<Pair> sorted = pairs_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

 private:
  std::mutex mutex_;
  std::vector<Pair> pairs_;
};

//  a: [fails]   b: wait(a) [skipped]   c, a's device: wait(b) [skipped]
TEST_P(WaitsAcross, a_failure_travels_there_and_back) {
  ToldFailures told;
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting()), c(recording());
  gate.hold(a);
  fail(a);
  wait(b, a);
  mark(b, marker);
  wait(c, b);
  mark(c, marker);
  gate.open();
  for (const weir::Stream* s : {&c, &b, &a}) {
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s->synchronize(); }, {"the pipe burst"}));
    s->synchronize();
  }
  EXPECT_EQ(marker.value(), 0);
  ASSERT_TRUE(eventually([&] { return told.all().size() >= 3; }));
  EXPECT_EQ(told.all(), (std::vector<ToldFailures::Pair>{{a.id(), 0}, {b.id(), a.id()}, {c.id(), b.id()}}));
}

//  a: [mark]|e [fails]
//  b:  wait(e) [mark]         e lies before the failure
TEST_P(WaitsAcross, an_event_from_before_the_failure_carries_nothing) {
  for (const bool held : {false, true}) {
    Gate gate;
    Marker marker;
    weir::Stream a(recording()), b(waiting());
    if (held) gate.hold(a);
    const weir::Event e = a.record();
    fail(a);
    ASSERT_TRUE(held || eventually([&] { return a.done(); }));
    wait(b, e);
    mark(b, marker);
    gate.open();
    b.synchronize();
    EXPECT_EQ(marker.value(), 1);
    EXPECT_THROW(a.synchronize(), weir::Error);
  }
}

//  a: [fails]|e       reported;  b: wait(e) [mark]
TEST_P(WaitsAcross, a_wait_after_the_report_carries_nothing) {
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  fail(a);
  const weir::Event e = a.record();
  EXPECT_THROW(a.synchronize(), weir::Error);
  wait(b, e);
  mark(b, marker);
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [fails]|e  [fails]|e ...   each reported;   b: wait(e) [skipped] ...   each reported
TEST_P(WaitsAcross, failures_are_each_waits_own) {
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  for (int round = 0; round < 50; ++round) {
    const bool fails = round % 3 != 0;
    if (fails) fail(a);
    wait(b, a);
    mark(b, marker, round + 1);
    if (fails) {
      EXPECT_THROW(b.synchronize(), weir::Error) << round;
      EXPECT_THROW(a.synchronize(), weir::Error) << round;
    } else {
      b.synchronize();
      EXPECT_EQ(marker.value(), round + 1);
      a.synchronize();
    }
  }
}

}  // namespace weir_test
