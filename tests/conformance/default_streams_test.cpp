// The legacy and per-thread default streams: the legacy stream waits for all blocking streams, and they for it.
// Rules without a counterpart: R210 (there is no launch without a stream that means the legacy one: it means the
// current one).
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class DefaultStreams : public AnyDevice {
 protected:
  weir::StreamRef legacy() const { return weir::legacy_stream(device()); }
  /// The work of `marker` is held by `gate` and by nothing else.
  void expect_held(Gate& gate, const Marker& marker) {
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
    gate.open();
    EXPECT_TRUE(eventually([&] { return marker.value() != 0; }));
  }
};
ON_EVERY_DEVICE(DefaultStreams);

//  s:      [hold ......]
//  legacy:               [mark]
TEST_P(DefaultStreams, M2_R18_legacy_work_waits_for_earlier_work_of_blocking_streams) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { mark(legacy(), marker); }));
  expect_held(gate, marker);
}

//  a: [hold ......]      b: [hold .........]
//  legacy:                                   [mark]      waits for both
TEST_P(DefaultStreams, C8_R18_legacy_work_waits_for_every_blocking_stream) {
  Gate first, second;
  Marker marker;
  weir::Stream a(device()), b(device());
  first.hold(a);
  second.hold(b);
  mark(legacy(), marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  first.open();
  a.synchronize();
  expect_held(second, marker);
}

//  s:      [hold ......]      ~s
//  legacy:               [mark]
TEST_P(DefaultStreams, C7_R18_legacy_work_waits_for_the_work_of_destroyed_blocking_streams) {
  Gate gate;
  Marker marker;
  {
    weir::Stream s(device());
    gate.hold(s);
  }
  mark(legacy(), marker);
  expect_held(gate, marker);
}

//  legacy: [hold ......]
//  s:                    [mark]
TEST_P(DefaultStreams, M2_R19_work_of_blocking_streams_waits_for_earlier_legacy_work) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold(legacy());
  EXPECT_TRUE(returns_while_held(gate, [&] { mark(s, marker); }));
  expect_held(gate, marker);
}

//  n: [hold ......]        legacy: [mark]        (n is non-blocking: no order)
TEST_P(DefaultStreams, C8_R20_legacy_work_does_not_wait_for_non_blocking_streams) {
  Gate gate;
  Marker marker;
  weir::Stream n(device(), {.blocking = false});
  gate.hold(n);
  mark(legacy(), marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  legacy: [hold ......]   n: [mark]
TEST_P(DefaultStreams, C8_R20_non_blocking_streams_do_not_wait_for_legacy_work) {
  Gate gate;
  Marker marker;
  weir::Stream n(device(), {.blocking = false});
  gate.hold(legacy());
  mark(n, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  per thread: [hold ......]          then the other way round
//  legacy:                   [mark]
TEST_P(DefaultStreams, R21_the_per_thread_stream_is_ordered_with_the_legacy_stream) {
  {
    Gate gate;
    Marker marker;
    gate.hold(weir::per_thread_stream(device()));
    mark(legacy(), marker);
    expect_held(gate, marker);
  }
  Gate gate;
  Marker marker;
  gate.hold(legacy());
  mark(weir::per_thread_stream(device()), marker);
  expect_held(gate, marker);
}

//  this thread's:  [hold ......]
//  other thread's: [mark]
TEST_P(DefaultStreams, C8_R22_the_per_thread_streams_of_two_threads_are_independent) {
  Gate gate;
  Marker marker;
  const weir::StreamRef mine = weir::per_thread_stream(device());
  EXPECT_TRUE(mine == weir::per_thread_stream(device()));
  gate.hold(mine);
  std::thread([&] {
    const weir::StreamRef other = weir::per_thread_stream(device());
    EXPECT_FALSE(other == mine);
    mark(other, marker);
    EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  }).join();
  EXPECT_FALSE(gate.is_open());
}

//  another thread's: [hold ......][mark]      the thread ends; its work does not
TEST_P(DefaultStreams, R22_work_of_a_per_thread_stream_outlives_its_thread) {
  Gate gate;
  Marker marker;
  std::thread([&] {
    gate.hold(weir::per_thread_stream(device()));
    mark(weir::per_thread_stream(device()), marker);
  }).join();
  expect_held(gate, marker);
}

//  legacy, this thread: [hold ......]      legacy, other thread: [mark]
TEST_P(DefaultStreams, R23_the_legacy_stream_is_one_for_all_threads) {
  Gate gate;
  Marker marker;
  gate.hold(legacy());
  std::thread([&] {
    EXPECT_TRUE(weir::legacy_stream(device()) == legacy());
    mark(legacy(), marker);
  }).join();
  expect_held(gate, marker);
}

//  s, this thread: [hold ......]    legacy, second thread: [1]    t, third thread: [2]
TEST_P(DefaultStreams, R18_R19_the_barrier_holds_across_threads) {
  Gate gate;
  Log log;
  weir::Stream s(device()), t(device());
  gate.hold(s);
  std::thread([&] { log.note(legacy(), 1); }).join();
  std::thread([&] { log.note(t, 2); }).join();
  EXPECT_TRUE(stays(device(), [&] { return log.size() == 0; }));
  gate.open();
  t.synchronize();
  EXPECT_EQ(log.values(), (std::vector<int>{1, 2}));
}

//  a:      [hold ......]
//  legacy:               [1]
//  b:                        [2]      b waits for the legacy work, hence for a
TEST_P(DefaultStreams, R24_legacy_work_separates_blocking_streams) {
  Gate gate;
  Log log;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  log.note(legacy(), 1);
  log.note(b, 2);
  EXPECT_TRUE(stays(device(), [&] { return log.size() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(log.values(), (std::vector<int>{1, 2}));
}

//  a: [hold ......]
//  b: [mark 1]      [mark 2 after legacy]       work of b from before the legacy work is not held
TEST_P(DefaultStreams, R24_work_before_the_barrier_is_not_held_by_it) {
  Gate gate;
  Marker early, late;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  mark(b, early);
  mark(legacy(), late, 1);
  EXPECT_TRUE(eventually([&] { return early.value() == 1; }));
  expect_held(gate, late);
}

//  s: [hold ......]      legacy: nothing, yet its handle stands for all blocking streams
TEST_P(DefaultStreams, R25_asking_the_legacy_stream_asks_all_blocking_streams) {
  Gate gate;
  weir::Stream s(device());
  gate.hold(s);
  EXPECT_FALSE(legacy().done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { legacy().synchronize(); }));
  EXPECT_TRUE(legacy().done());
}

//  n: [hold ......]      (non-blocking)
TEST_P(DefaultStreams, R25_asking_the_legacy_stream_does_not_ask_non_blocking_streams) {
  Gate gate;
  weir::Stream n(device(), {.blocking = false});
  device().synchronize();
  gate.hold(n);
  EXPECT_TRUE(legacy().done());
  EXPECT_TRUE(returns_while_held(gate, [&] { legacy().synchronize(); }));
}

//  s:      [hold ......]
//  legacy:               |e
TEST_P(DefaultStreams, R26_an_event_of_the_legacy_stream_covers_all_blocking_streams) {
  Gate gate;
  weir::Stream s(device());
  gate.hold(s);
  weir::Event e(device());
  EXPECT_TRUE(returns_while_held(gate, [&] { legacy().record(e); }));
  EXPECT_FALSE(e.done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { e.synchronize(); }));
}

//  n: [hold ......]      legacy: |e done
TEST_P(DefaultStreams, R26_an_event_of_the_legacy_stream_covers_no_non_blocking_stream) {
  Gate gate;
  weir::Stream n(device(), {.blocking = false});
  gate.hold(n);
  const weir::Event e = legacy().record();
  EXPECT_TRUE(returns_while_held(gate, [&] { e.synchronize(); }));
}

//  n:      [hold ......]|e            (non-blocking)
//  legacy: wait(e)
//  s:      [mark]                     held, for it comes after the legacy stream's wait
//  m:      [mark]                     runs (non-blocking)
TEST_P(DefaultStreams, R27_a_wait_of_the_legacy_stream_holds_blocking_streams) {
  Gate gate;
  Marker held, running;
  weir::Stream n(device(), {.blocking = false}), m(device(), {.blocking = false}), s(device());
  gate.hold(n);
  const weir::Event e = n.record();
  EXPECT_TRUE(returns_while_held(gate, [&] { legacy().wait(e); }));
  mark(s, held);
  mark(m, running);
  EXPECT_TRUE(eventually([&] { return running.value() == 1; }));
  expect_held(gate, held);
}

//  s:      [hold ......]
//  legacy:               [host function]
TEST_P(DefaultStreams, R28_a_host_function_in_the_legacy_stream_waits_for_blocking_streams) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold(s);
  weir::host_call(legacy(), [word = marker.word()] { store_word(word, 1); });
  expect_held(gate, marker);
}

//  legacy: [hold ......]
//  s, made afterwards:   [mark]      n, made afterwards: [mark] at once
TEST_P(DefaultStreams, R29_streams_made_after_the_legacy_work_wait_for_it_too) {
  Gate gate;
  Marker held, running;
  gate.hold(legacy());
  weir::Stream s(device());
  weir::Stream n(device(), {.blocking = false});
  mark(s, held);
  mark(n, running);
  EXPECT_TRUE(eventually([&] { return running.value() == 1; }));
  expect_held(gate, held);
}

//  s: [fill 7 ..][hold ......]        no wait in the program
TEST_P(DefaultStreams, W15_reading_an_array_back_needs_no_other_wait) {
  Gate gate;
  weir::Stream s(device());
  gate.hold(s);
  const auto x = weir::full<int>(s, 1000, 7);
  std::vector<int> values;
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { values = x.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(1000, 7));
}

//  legacy, s and t take turns: 0 1 2 0 1 2 ...
TEST_P(DefaultStreams, C8_alternating_between_legacy_and_blocking_streams_keeps_issue_order) {
  Log log(3000);
  weir::Stream s(device()), t(device());
  std::vector<int> expected;
  for (int i = 0; i < 1000; ++i) {
    log.note(s, 3 * i);
    log.note(legacy(), 3 * i + 1);
    log.note(legacy(), 3 * i + 2);
    for (int k = 0; k < 3; ++k) expected.push_back(3 * i + k);
  }
  legacy().synchronize();
  EXPECT_EQ(log.values(), expected);
}

}  // namespace
}  // namespace weir_test
