// How a failure travels: to streams that wait for the failed work, to device synchronisations, not to anybody else.
#include <stdexcept>
#include <string>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Burst {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};

void fail(weir::StreamRef s, const char* name = "burst") {
  weir::launch(s, weir::Extent{.size = 1, .name = name}, Burst{});
}

class FailuresAcross : public testing::Test {
 protected:
  void TearDown() override {
    const auto left = error_of([&] { device_.synchronize(); });
    EXPECT_FALSE(left.has_value() && !HasFailure()) << "the test left a failure behind: " << left->what();
  }
  weir::Device device_ = weir::device("cpu");
};

//  a: [fails]
//  b: [mark]
TEST_F(FailuresAcross, other_streams_are_not_touched) {
  Marker marker;
  weir::Stream a(device_), b(device_);
  fail(a);
  mark(b, marker);
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_THROW(a.synchronize(), weir::Error);
  b.synchronize();
}

//  a: [fails]|e
//  b:  wait(e) [mark: skipped]         b fails with a's error
TEST_F(FailuresAcross, a_stream_that_waits_for_failed_work_fails_with_the_same_error) {
  for (const bool held : {false, true}) {
    Gate gate;
    Marker marker;
    weir::Stream a(device_), b(device_);
    if (held) gate.hold(a);
    fail(a, "the culprit");
    b.wait(a.record());
    mark(b, marker);
    gate.open();
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { b.synchronize(); }, {"the culprit"}));
    EXPECT_EQ(marker.value(), 0);
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }, {"the culprit"}));
    mark(b, marker);
    b.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

//  a: [fails]           non-blocking: the legacy stream does not wait for it
//  legacy: [read x]
TEST_F(FailuresAcross, reading_an_array_back_throws_what_a_stream_failed_by_that_was_given_it) {
  weir::Stream a(device_, {.blocking = false});
  const auto x = weir::zeros<int>(a, 8);
  fail(a, "the culprit");
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { x.to_host(); }, {"the culprit"}));
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }, {"the culprit"}));
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 0));
}

//  a: [fails]|e                      reported and forgotten by a ...
//  b: [hold ......] wait(e) [mark: skipped]                          ... while b, which needs its result, has yet to run
TEST_F(FailuresAcross, a_report_in_the_meantime_does_not_let_waiting_work_run_on_bad_data) {
  Gate gate;
  Marker marker;
  weir::Stream a(device_), b(device_);
  gate.hold(b);
  fail(a, "the culprit");
  b.wait(a.record());
  mark(b, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { EXPECT_THROW(a.synchronize(), weir::Error); }));
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { b.synchronize(); }, {"the culprit"}));
  EXPECT_EQ(marker.value(), 0);
}

//  a: [fails]   b: wait(a) [skipped]   c: wait(b) [skipped]
TEST_F(FailuresAcross, a_failure_travels_along_a_chain_of_waits) {
  Marker marker;
  weir::Stream a(device_), b(device_), c(device_);
  fail(a, "the culprit");
  b.wait(a);
  mark(b, marker);
  c.wait(b);
  mark(c, marker);
  for (const weir::Stream* s : {&c, &b, &a}) {
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s->synchronize(); }, {"the culprit"}));
    s->synchronize();
  }
  EXPECT_EQ(marker.value(), 0);
}

//  a: [mark]|e [fails]
//  b:  wait(e) [mark]         e lies before the failure
TEST_F(FailuresAcross, an_event_from_before_the_failure_carries_nothing) {
  Marker marker;
  weir::Stream a(device_), b(device_);
  const weir::Event e = a.record();
  fail(a);
  b.wait(e);
  mark(b, marker);
  e.synchronize();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_THROW(a.synchronize(), weir::Error);
}

//  a: [fails]|e
TEST_F(FailuresAcross, event_synchronise_throws_and_leaves_the_failure_to_the_stream) {
  weir::Stream a(device_);
  fail(a, "the culprit");
  const weir::Event e = a.record();
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { e.synchronize(); }, {"the culprit"}));
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { weir::synchronize_event(e); }, {"the culprit"}));
  EXPECT_TRUE(e.done());
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }, {"the culprit"}));
  a.synchronize();
}

//  a: [fails]      reported;  |e [mark]      b: wait(e) [mark]
TEST_F(FailuresAcross, an_event_recorded_again_after_the_report_carries_nothing) {
  Marker marker;
  weir::Stream a(device_), b(device_);
  fail(a);
  weir::Event e = a.record();
  EXPECT_THROW(a.synchronize(), weir::Error);
  a.record(e);
  b.wait(e);
  mark(b, marker);
  e.synchronize();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [fails]      reported;  |e [fails again]      b: wait(e) [mark]
TEST_F(FailuresAcross, an_event_from_between_two_failures_carries_neither) {
  Marker marker;
  weir::Stream a(device_), b(device_);
  fail(a, "the first");
  EXPECT_THROW(a.synchronize(), weir::Error);
  const weir::Event e = a.record();
  fail(a, "the second");
  ASSERT_TRUE(eventually([&] { return a.done(); }));
  b.wait(e);
  mark(b, marker);
  e.synchronize();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }, {"the second"}));
}

//  old: [fails]  reported, ~old      a, perhaps in its place: |e [fails]      b: wait(e) [mark]
TEST_F(FailuresAcross, a_new_stream_knows_nothing_of_the_failures_of_one_that_is_gone) {
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 3; ++i) {
      const weir::Stream old(device_);
      fail(old, "long gone");
      EXPECT_THROW(old.synchronize(), weir::Error);
    }
    Marker marker;
    weir::Stream a(device_), b(device_);
    const weir::Event e = a.record();
    fail(a, "the culprit");
    ASSERT_TRUE(eventually([&] { return a.done(); }));
    b.wait(e);
    mark(b, marker);
    e.synchronize();
    b.synchronize();
    ASSERT_EQ(marker.value(), 1);
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }, {"the culprit"}));
  }
}

TEST_F(FailuresAcross, W13_device_synchronise_reports_a_streams_failure_once) {
  weir::Stream a(device_);
  fail(a, "the culprit");
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { device_.synchronize(); }, {"the culprit"}));
  device_.synchronize();
  a.synchronize();
  fail(a, "the next one");
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { weir::synchronize(); }, {"the next one"}));
  weir::synchronize();
}

//  s: [hold ......][fails]      ~s
TEST_F(FailuresAcross, C7_device_synchronise_reports_failures_of_destroyed_streams) {
  Gate gate;
  {
    weir::Stream s(device_, {.name = "gone"});
    gate.hold(s);
    fail(s, "the culprit");
  }
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { device_.synchronize(); }, {"the culprit", "gone"}));
  device_.synchronize();
}

//  s: [hold ......][fails]      ~s      the host waits at the very moment of the failure
TEST_F(FailuresAcross, C7_no_failure_of_a_destroyed_stream_is_lost) {
  for (int round = 0; round < 300; ++round) {
    Gate gate;
    {
      const weir::Stream s(device_);
      if (round % 2 == 0) gate.hold(s);
      fail(s, "the culprit");
    }
    ASSERT_TRUE(round % 2 == 1 || eventually([&] { return gate.begun() == 1; }));
    gate.open();
    ASSERT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { device_.synchronize(); }, {"the culprit"})) << round;
    device_.synchronize();
  }
}

//  a: [fails]    b: [fails]      none is lost
TEST_F(FailuresAcross, failures_of_several_streams_are_all_reported) {
  weir::Stream a(device_), b(device_);
  fail(a, "one");
  fail(b, "two");
  std::string told;
  for (int turn = 0; turn < 2; ++turn) {
    const auto error = error_of([&] { device_.synchronize(); });
    ASSERT_TRUE(error.has_value()) << "after " << turn;
    told += error->what();
  }
  EXPECT_NE(told.find("one"), std::string::npos) << told;
  EXPECT_NE(told.find("two"), std::string::npos) << told;
  device_.synchronize();
}

//  a: [fails]    a.synchronize() takes it; the device has nothing more to report
TEST_F(FailuresAcross, what_a_stream_reported_the_device_does_not_repeat) {
  weir::Stream a(device_);
  fail(a);
  EXPECT_THROW(a.synchronize(), weir::Error);
  device_.synchronize();
}

//  n: [fails]  (non-blocking)      legacy: [mark]
TEST_F(FailuresAcross, C8_the_legacy_stream_is_not_touched_by_a_non_blocking_stream) {
  Marker marker;
  weir::Stream n(device_, {.blocking = false});
  fail(n);
  mark(weir::legacy_stream(device_), marker);
  weir::legacy_stream(device_).synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_THROW(n.synchronize(), weir::Error);
}

//  a: |t0 [fails]|t1
TEST_F(FailuresAcross, N4_a_timer_around_a_failure_does_not_throw_when_destroyed) {
  weir::Stream a(device_);
  {
    const weir::ScopedTimer timer(a, "failing", [](std::string_view, weir::Milliseconds) {});
    fail(a);
  }
  EXPECT_THROW(a.synchronize(), weir::Error);
}

}  // namespace
}  // namespace weir_test
