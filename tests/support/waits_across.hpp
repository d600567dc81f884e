// Tests of waits across backends, for every pair of devices and way to wait that a test program instantiates them with: see
// WAITS_ACROSS at the end.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include <weir/weir.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/waits_across_failures.hpp"
#include "support/waits_across_pairs.hpp"

namespace weir_test {

//  a: [hold ......]|e
//  b: [mark] wait(e) [mark]
TEST_P(WaitsAcross, W14_later_commands_wait_and_earlier_ones_do_not) {
  Gate gate;
  Marker before, after;
  weir::Stream a(recording()), b(waiting());
  gate.hold(a);
  const weir::Event e = a.record();
  mark(b, before);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    wait(b, e);
    mark(b, after);
  }));
  EXPECT_TRUE(eventually([&] { return before.value() == 1; }));
  EXPECT_TRUE(stays(waiting(), [&] { return after.value() == 0 && !b.done(); }));
  EXPECT_TRUE(stays(recording(), [&] { return after.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(after.value(), 1);
}

//  a: [hold ......]|e
//  b:  wait(e) [mark]|f        the host waits for b, for f, for the device
TEST_P(WaitsAcross, W13_who_waits_for_the_waiting_stream_waits_for_both) {
  for (int way = 0; way < 3; ++way) {
    Gate gate;
    Marker marker;
    weir::Stream a(recording()), b(waiting());
    gate.hold(a);
    wait(b, a);
    mark(b, marker);
    const weir::Event f = b.record();
    EXPECT_FALSE(f.done());
    EXPECT_TRUE(blocks_until_open(waiting(), gate, [&] {
      if (way == 0) b.synchronize();
      if (way == 1) f.synchronize();
      if (way == 2) waiting().synchronize();
    }));
    EXPECT_EQ(marker.value(), 1) << way;
  }
}

//  a: [hold 1 ...]|e [hold 2 ......]|e
//  b:              wait(e)           [mark]      called between the records
TEST_P(WaitsAcross, R70_R72_a_wait_takes_the_last_record_before_it) {
  Gate first, second;
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  weir::Event e(recording());
  first.hold(a);
  a.record(e);
  wait(b, e);
  mark(b, marker);
  second.hold(a);
  a.record(e);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  first.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(second.is_open());
}

//  a: |e [hold ......]|e
//  b:                    wait(e) [mark]
TEST_P(WaitsAcross, R70_a_wait_takes_the_last_record_not_an_earlier_one) {
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  weir::Event e(recording());
  a.record(e);
  a.synchronize();
  gate.hold(a);
  a.record(e);
  wait(b, e);
  mark(b, marker);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: |e [hold ......]
//  b: wait(e) [mark]          also for an event that was never recorded
TEST_P(WaitsAcross, R69_nothing_to_wait_for) {
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  const weir::Event never(recording());
  const weir::Event e = a.record();
  const weir::TimedEvent t = a.record_timed();
  gate.hold(a);
  wait(b, never);
  wait(b, e);
  wait(b, t);
  mark(b, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(gate.is_open());
}

//  a: [hold ......]|e  ~e, ~a
//  b:  wait(e) [mark]  ~b
TEST_P(WaitsAcross, C7_R78_events_and_streams_may_be_destroyed_meanwhile) {
  Gate gate;
  Marker marker;
  {
    weir::Stream a(recording()), b(waiting());
    gate.hold(a);
    wait(b, a);
    mark(b, marker);
  }
  const weir::Stream other(recording());
  const weir::Event reused = other.record();
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  gate.open();
  waiting().synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [hold 1 ...]|e1 [hold 2 ......]|e2
//  b:                                 wait(e2) [mark]     called first
//  c:              wait(e1) [mark]
TEST_P(WaitsAcross, waits_for_events_of_one_stream_do_not_wait_for_each_other) {
  Gate first, second;
  Marker early, late;
  weir::Stream a(recording()), b(waiting()), c(waiting());
  first.hold(a);
  const weir::Event e1 = a.record();
  second.hold(a);
  const weir::Event e2 = a.record();
  wait(b, e2);
  mark(b, late);
  wait(c, e1);
  mark(c, early);
  first.open();
  EXPECT_TRUE(eventually([&] { return early.value() == 1; }));
  EXPECT_TRUE(stays(waiting(), [&] { return late.value() == 0; }));
  second.open();
  b.synchronize();
  EXPECT_EQ(late.value(), 1);
}

//  a1: [hold ......]|e1       b1: wait(e1) [mark]
//  a2: [mark]|e2              b2: wait(e2) [mark]
TEST_P(WaitsAcross, P2_independent_waits_are_independent) {
  Gate gate;
  Marker held, free;
  weir::Stream a1(recording()), a2(recording()), b1(waiting()), b2(waiting());
  gate.hold(a1);
  wait(b1, a1);
  mark(b1, held);
  for (int i = 0; i < 20; ++i) {
    wait(b2, a2);
    count_up(b2, free);
  }
  EXPECT_TRUE(eventually([&] { return free.value() == 20; }));
  EXPECT_EQ(held.value(), 0);
}

//  a: [hold ......]|e
//  each of several streams: wait(e) [mark]
TEST_P(WaitsAcross, many_streams_wait_for_one_event) {
  constexpr std::size_t many = 12;
  Gate gate;
  Marker markers(many);
  weir::Stream a(recording());
  gate.hold(a);
  const weir::Event e = a.record();
  std::vector<weir::Stream> streams;
  for (std::size_t i = 0; i < many; ++i) {
    wait(streams.emplace_back(waiting()), e);
    mark(streams.back(), markers, 1, i);
  }
  EXPECT_TRUE(stays(waiting(), [&] {
    for (std::size_t i = 0; i < many; ++i) {
      if (markers.value(i) != 0) return false;
    }
    return true;
  }));
  gate.open();
  for (std::size_t i = 0; i < many; ++i) {
    streams[i].synchronize();
    EXPECT_EQ(markers.value(i), 1);
  }
}

//  a:      [hold ......]|e
//  legacy:  wait(e)
//  b:               [mark]     blocking: behind the legacy stream's wait
//  c:     [mark]               non-blocking
TEST_P(WaitsAcross, R27_a_wait_in_the_legacy_stream_holds_the_blocking_streams) {
  Gate gate;
  Marker blocking, non_blocking;
  weir::Stream a(recording(), {.blocking = false}), b(waiting()), c(waiting(), {.blocking = false});
  gate.hold(a);
  const weir::StreamRef legacy = weir::legacy_stream(waiting());
  wait(legacy, a);
  mark(legacy, blocking, 1);
  mark(b, blocking, 2);
  mark(c, non_blocking);
  EXPECT_TRUE(eventually([&] { return non_blocking.value() == 1; }));
  EXPECT_TRUE(stays(waiting(), [&] { return blocking.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(blocking.value(), 2);
}

//  a (blocking): [hold ......]
//  legacy:                    |e
//  b:                       wait(e) [mark]
TEST_P(WaitsAcross, R26_a_record_in_the_legacy_stream_stands_for_the_blocking_streams) {
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting(), {.blocking = false});
  gate.hold(a);
  wait(b, weir::legacy_stream(recording()));
  mark(b, marker);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [0]|e   [2]|e ...
//  b:    e[1]|f  f[3]|f ...
TEST_P(WaitsAcross, P3_two_backends_take_turns_by_events) {
  constexpr int hops = 1000;
  Log log(hops);
  weir::Stream a(recording()), b(waiting());
  weir::Event e(recording()), f(waiting());
  std::vector<int> expected;
  for (int i = 0; i < hops; i += 2) {
    log.note(a, i);
    a.record(e);
    wait(b, e);
    log.note(b, i + 1);
    b.record(f);
    wait(a, f);
    expected.insert(expected.end(), {i, i + 1});
  }
  a.synchronize();
  EXPECT_EQ(log.values(), expected);
}

//  each thread, with streams of its own: a and b take turns
TEST_P(WaitsAcross, R205_several_threads_have_streams_that_take_turns) {
  constexpr int threads = 4;
  constexpr int hops = 200;
  std::vector<std::unique_ptr<Log>> logs;
  for (int t = 0; t < threads; ++t) logs.push_back(std::make_unique<Log>(hops));
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const weir::Stream a(recording()), b(waiting());
      for (int i = 0; i < hops; i += 2) {
        logs[static_cast<std::size_t>(t)]->note(a, i);
        wait(b, a);
        logs[static_cast<std::size_t>(t)]->note(b, i + 1);
        wait(a, b);
        if (i % 50 == 0) a.synchronize();
      }
      a.synchronize();
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const auto& log : logs) {
    const std::vector<int> values = log->values();
    ASSERT_EQ(values.size(), static_cast<std::size_t>(hops));
    for (int i = 0; i < hops; ++i) ASSERT_EQ(values[static_cast<std::size_t>(i)], i);
  }
}

//  all threads, with the same streams and event: [count]|e     wait(e) [count]
TEST_P(WaitsAcross, R205_several_threads_use_the_same_streams_and_event) {
  constexpr int threads = 4;
  constexpr int rounds = 200;
  Marker in_a, in_b;
  const weir::Stream a(recording()), b(waiting());
  weir::Event e(recording());
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        count_up(a, in_a);
        a.record(e);
        wait(b, e);
        count_up(b, in_b);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  b.synchronize();
  EXPECT_EQ(in_b.value(), threads * rounds);
  EXPECT_EQ(in_a.value(), threads * rounds);  // the last wait was for a record after all of them, or a later one
  a.synchronize();
}

/// Sees waits and when they ran.
class WaitWitness : public weir::Observer {
 public:
  WaitWitness() { weir::attach(*this); }
  ~WaitWitness() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex_);
    if (const auto* wait = std::get_if<weir::Wait>(&c.op)) waits_.push_back({c.id, c.stream, wait->event_id});
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span) override {
    const std::lock_guard lock(mutex_);
    ran_.push_back(id);
  }
  struct Seen {
    weir::CommandId id;
    weir::StreamId stream;
    std::uint64_t event;
  };
  std::vector<Seen> waits() {
    const std::lock_guard lock(mutex_);
    return waits_;
  }
  bool has_run(weir::CommandId id) {
    const std::lock_guard lock(mutex_);
    return std::count(ran_.begin(), ran_.end(), id) == 1;
  }

 private:
  std::mutex mutex_;
  std::vector<Seen> waits_;
  std::vector<weir::CommandId> ran_;
};

//  a: [hold ......]|e      b: wait(e)  wait(never recorded)
TEST_P(WaitsAcross, observers_see_the_wait_and_when_it_was_over) {
  Gate gate;
  weir::Stream a(recording()), b(waiting());
  const weir::Event never(recording());
  gate.hold(a);
  const weir::Event e = a.record();
  WaitWitness witness;
  wait(b, e);
  wait(b, never);
  const std::vector<WaitWitness::Seen> waits = witness.waits();
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].stream, b.id());
  EXPECT_EQ(waits[0].event, e.id());
  EXPECT_EQ(waits[1].event, never.id());
  EXPECT_TRUE(stays(waiting(), [&] { return !witness.has_run(waits[0].id); }));
  gate.open();
  b.synchronize();
  EXPECT_TRUE(eventually([&] { return witness.has_run(waits[0].id) && witness.has_run(waits[1].id); }));
}

//  b, captured: wait(e of another backend)
TEST_P(WaitsAcross, R131_a_capturing_stream_does_not_wait_for_another_backend) {
  weir::Stream a(recording()), b(waiting());
  const weir::Event e = a.record();
  const weir::Event never(recording());
  weir::capture_begin(b);
  wait(b, never);
  EXPECT_TRUE(fails_with(weir::Errc::capture_isolation, [&] { wait(b, e); }, {"weir::Stream::wait", "backend"}));
  EXPECT_THROW(static_cast<void>(weir::capture_end(b)), weir::Error);
}

//  a, captured: |e      b: wait(e)
TEST_P(WaitsAcross, a_stream_does_not_join_a_capture_of_another_backend) {
  weir::Stream a(recording()), b(waiting());
  weir::Event e(recording());
  weir::capture_begin(a);
  a.record(e);
  EXPECT_TRUE(fails_with(weir::Errc::captured_event, [&] { wait(b, e); }, {"weir::Stream::wait"}));
  EXPECT_THROW(static_cast<void>(weir::capture_end(a)), weir::Error);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { wait(b, e); }, {"record it again"}));
  a.record(e);
  wait(b, e);
  b.synchronize();
}

/// For a scene of a process that ends meanwhile: streams that wait for each other, with work behind.
inline void leave_waits_pending(const Across& across) {
  static std::vector<weir::Stream> streams;  // destroyed after main() returned
  for (int i = 0; i < 3; ++i) {
    const weir::StreamRef a = streams.emplace_back(across.recording);
    const weir::StreamRef b = streams.emplace_back(across.waiting);
    weir::host_call(a, [] { std::this_thread::sleep_for(std::chrono::milliseconds(100)); });
    for (int turn = 0; turn < 10; ++turn) {
      across.wait(b, a.record());
      weir::host_call(b, [owned = std::make_unique<int>(turn)] { *owned += 1; });
      across.wait(a, b.record());
      weir::host_call(a, [owned = std::make_unique<int>(turn)] { *owned += 1; });
    }
  }
}

}  // namespace weir_test

/// Makes the tests of this header, and of waits_across_failures.hpp, for each pair. In weir_test, once in a program.
#define WAITS_ACROSS(pairs) \
  INSTANTIATE_TEST_SUITE_P(across, WaitsAcross, testing::ValuesIn(pairs), weir_test::name_of_across)
