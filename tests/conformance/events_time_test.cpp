// Timed events: elapsed time on the device, and what it refuses.
#include <chrono>
#include <vector>

#include "support/any_device.hpp"
#include "support/between_looks.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class EventTimes : public AnyDevice {
 protected:
  /// Lets a held kernel run for at least 5 ms, measured by the host while the kernel is known to run.
  void run_for_5_ms(weir::StreamRef s) {
    Gate gate;
    gate.hold(s);
    ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
    const auto begin = std::chrono::steady_clock::now();
    for (int looks = 0; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(5); ++looks)
      weir_test::between_looks(looks);
  }
};
ON_EVERY_DEVICE(EventTimes);

TEST_P(EventTimes, R74_an_event_that_was_never_recorded_has_no_time) {
  weir::Stream s(device());
  const weir::TimedEvent recorded = s.record_timed();
  const weir::TimedEvent never(device());
  s.synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)weir::elapsed(never, recorded); }, {"elapsed"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)weir::elapsed(recorded, never); }, {"elapsed"}));
}

//  s: |start [hold ......]|end
TEST_P(EventTimes, R75_the_time_of_an_event_that_is_not_reached_is_not_ready) {
  Gate gate;
  weir::Stream s(device());
  const weir::TimedEvent start = s.record_timed();
  gate.hold(s);
  const weir::TimedEvent end = s.record_timed();
  EXPECT_TRUE(returns_while_held(gate, [&] {
    EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { (void)weir::elapsed(start, end); }, {"elapsed"}));
    EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { (void)weir::elapsed(end, start); }, {"elapsed"}));
  }));
  gate.open();
  end.synchronize();
  EXPECT_GT(weir::elapsed(start, end).count(), 0.0f);
}

//  s: |start |end [hold ......]|start again
TEST_P(EventTimes, R73_R75_the_newest_record_is_what_is_timed) {
  Gate gate;
  weir::Stream s(device());
  weir::TimedEvent start = s.record_timed();
  const weir::TimedEvent end = s.record_timed();
  s.synchronize();
  EXPECT_GE(weir::elapsed(start, end).count(), 0.0f);
  gate.hold(s);
  s.record(start);
  EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { (void)weir::elapsed(start, end); }));
  gate.open();
  s.synchronize();
  EXPECT_LT(weir::elapsed(start, end).count(), 0.0f) << "start was recorded after end";
}

//  s: |start [5 ms]|end
TEST_P(EventTimes, N4_P2_R77_elapsed_time_is_signed_and_covers_the_work_between) {
  weir::Stream s(device());
  const weir::TimedEvent start = s.record_timed();
  run_for_5_ms(s);
  const weir::TimedEvent end = s.record_timed();
  end.synchronize();
  const float forward = weir::elapsed(start, end).count();
  EXPECT_GE(forward, 4.9f);
  EXPECT_FLOAT_EQ(weir::elapsed(end, start).count(), -forward);
  EXPECT_EQ(weir::elapsed(start, start).count(), 0.0f);
}

//  a: |start [5 ms]|middle
//  b:   wait(middle)  |end
TEST_P(EventTimes, N4_R77_events_of_different_streams_share_a_clock) {
  weir::Stream a(device()), b(device());
  const weir::TimedEvent start = a.record_timed();
  run_for_5_ms(a);
  const weir::TimedEvent middle = a.record_timed();
  b.wait(middle);
  const weir::TimedEvent end = b.record_timed();
  end.synchronize();
  EXPECT_GE(weir::elapsed(start, end).count(), 4.9f);
  EXPECT_GE(weir::elapsed(start, end).count(), weir::elapsed(start, middle).count());
}

//  s: |0|1|2 ... |99          never backwards in one stream
TEST_P(EventTimes, N4_times_of_one_stream_never_go_backwards) {
  Marker marker;
  weir::Stream s(device());
  std::vector<weir::TimedEvent> events;
  for (int i = 0; i < 100; ++i) {
    mark(s, marker, i);
    events.push_back(s.record_timed());
  }
  s.synchronize();
  for (std::size_t i = 1; i < events.size(); ++i) EXPECT_GE(weir::elapsed(events[i - 1], events[i]).count(), 0.0f) << i;
}

TEST_P(EventTimes, timed_events_order_work_like_plain_ones) {
  Gate gate;
  Marker marker;
  weir::Stream a(device()), b(device());
  weir::TimedEvent e(device());
  gate.hold(a);
  a.record(e);
  b.wait(e);
  mark(b, marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(EventTimes, a_moved_from_timed_event_is_refused) {
  weir::Stream s(device());
  weir::TimedEvent e = s.record_timed();
  const weir::TimedEvent taken(std::move(e));
  s.synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)weir::elapsed(e, taken); }));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)weir::elapsed(taken, e); }));
  EXPECT_EQ(weir::elapsed(taken, taken).count(), 0.0f);
}

}  // namespace
}  // namespace weir_test
