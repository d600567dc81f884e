// Events: a snapshot of a stream's work at the moment of the record, waited for by streams and by the host.
// Rules without a counterpart: R76 (asking a plain event for a time does not compile), R81 (no flag bits), R83
// (external flags belong to capture), R209 (there is one way to wait).
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class Events : public AnyDevice {};
ON_EVERY_DEVICE(Events);

TEST_P(Events, R68_an_event_that_was_never_recorded_is_done) {
  const weir::Event e(device());
  const weir::TimedEvent t(device());
  EXPECT_TRUE(e.done());
  EXPECT_TRUE(t.done());
  e.synchronize();
  t.synchronize();
  EXPECT_EQ(e.device(), device());
  EXPECT_EQ(weir::Event().device(), device());
}

//  b: wait(e) [mark]              e is recorded only afterwards, behind held work
//  a: [hold ......]|e
TEST_P(Events, R69_waiting_for_an_event_that_was_never_recorded_is_nothing) {
  Gate gate;
  Marker marker;
  weir::Stream a(device()), b(device());
  weir::Event e(device());
  b.wait(e);
  gate.hold(a);
  a.record(e);
  mark(b, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(e.done());
}

//  a: [hold ......]|e
//  b: [1]      wait(e) [2]
TEST_P(Events, W14_R70_work_after_a_wait_runs_after_the_recorded_work) {
  Gate gate;
  Marker before, after;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::Event e = a.record();
    mark(b, before);
    b.wait(e);
    mark(b, after);
  }));
  EXPECT_TRUE(eventually([&] { return before.value() == 1; })) << "work before the wait is not affected";
  EXPECT_TRUE(stays(device(), [&] { return after.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(after.value(), 1);
}

//  a: [mark]|e [hold ......]
//  b: wait(e) [mark]
TEST_P(Events, R71_R9_an_event_covers_only_the_work_before_it) {
  Gate gate;
  Marker first, second;
  weir::Stream a(device()), b(device());
  mark(a, first);
  const weir::Event e = a.record();
  gate.hold(a);
  b.wait(e);
  mark(b, second);
  EXPECT_TRUE(returns_while_held(gate, [&] { e.synchronize(); }));
  EXPECT_EQ(first.value(), 1);
  EXPECT_TRUE(e.done());
  EXPECT_FALSE(a.done());
  EXPECT_TRUE(eventually([&] { return second.value() == 1; }));
}

//  a: [hold ......]|e
TEST_P(Events, W13_R9_event_synchronise_waits_for_the_work_before_the_record) {
  Gate gate;
  weir::Stream a(device());
  gate.hold(a);
  const weir::Event e = a.record();
  EXPECT_FALSE(e.done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { e.synchronize(); }));
  EXPECT_TRUE(e.done());
}

//  a: [hold 1 ....]|e (first record)
//  b: wait(e) [mark]                       keeps the first record
//  c: [hold 2 .............]|e (second record)
TEST_P(Events, R72_recording_again_does_not_change_earlier_waits) {
  Gate first, second;
  Marker marker;
  weir::Stream a(device()), b(device()), c(device());
  weir::Event e(device());
  first.hold(a);
  a.record(e);
  b.wait(e);
  mark(b, marker);
  second.hold(c);
  c.record(e);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  first.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; })) << "the wait took the second record instead";
  EXPECT_FALSE(e.done());
  second.open();
  e.synchronize();
}

//  a: [hold ......]|e (first)
//  b: |e (second: at once)          queries, waits and synchronisations see this one
TEST_P(Events, R73_only_the_newest_record_counts_afterwards) {
  Gate gate;
  Marker marker;
  weir::Stream a(device()), b(device()), c(device());
  weir::Event e(device());
  gate.hold(a);
  a.record(e);
  EXPECT_FALSE(e.done());
  b.record(e);
  EXPECT_TRUE(returns_while_held(gate, [&] { e.synchronize(); }));
  EXPECT_TRUE(e.done());
  c.wait(e);
  mark(c, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  a: [hold ......]|e      ~e      b: (waits already) [mark]
TEST_P(Events, R78_destroying_an_event_leaves_its_waiters_waiting) {
  Gate gate;
  Marker marker;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::Event e = a.record();
    b.wait(e);
  }));
  for (int i = 0; i < 100; ++i) const weir::Event taker = b.record();  // may take the place of the one that is gone
  mark(b, marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [hold ......]|e      ~a      b: wait(e) [mark]
TEST_P(Events, C7_an_event_outlives_the_stream_that_recorded_it) {
  Gate gate;
  Marker marker;
  weir::Stream b(device());
  weir::Event e(device());
  {
    weir::Stream a(device());
    gate.hold(a);
    a.record(e);
  }
  const weir::Stream next(device());  // may take the place of the one that is gone
  EXPECT_FALSE(e.done());
  b.wait(e);
  mark(b, marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0 && !e.done(); }));
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { e.synchronize(); }));
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(Events, R79_R80_events_that_are_gone_or_empty_are_refused) {
  weir::Stream s(device());
  weir::Event moved(device());
  const weir::Event taker(std::move(moved));
  weir::EventRef destroyed;
  {
    const weir::Event e = s.record();
    destroyed = e;
  }
  const weir::Event next(device());
  for (const weir::EventRef e : {weir::EventRef{}, weir::EventRef(moved), destroyed}) {
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)e.done(); }));
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { e.synchronize(); }));
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { (void)e.device(); }));
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { s.record(e); }));
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { s.wait(e); }));
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { weir::synchronize_event(e); }));
  }
  EXPECT_TRUE(taker.done());
  s.synchronize();
}

//  a: [hold ......]|e
//  b: wait(e) [+1]    c: wait(e) [+1]    a: wait(e) [+1]    d: wait(b) [+1]
TEST_P(Events, R82_many_streams_wait_for_one_event_their_own_too_and_chains_are_transitive) {
  Gate gate;
  Marker count;
  weir::Stream a(device()), b(device()), c(device()), d(device());
  gate.hold(a);
  const weir::Event e = a.record();
  for (const weir::Stream* s : {&b, &c, &a}) {
    s->wait(e);
    count_up(*s, count);
  }
  d.wait(b);
  count_up(d, count);
  EXPECT_TRUE(stays(device(), [&] { return count.value() == 0; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return count.value() == 4; }));
}

//  a: [hold ......]   [hold 2 ....]
//  b:   wait(a) [mark]                  waits for what was in a at that moment, and not for what came later
TEST_P(Events, W14_waiting_for_a_stream_covers_its_work_so_far) {
  Gate first, second;
  Marker marker;
  weir::Stream a(device()), b(device());
  first.hold(a);
  EXPECT_TRUE(returns_while_held(first, [&] { b.wait(a); }));
  second.hold(a);
  mark(b, marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  first.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(second.is_open());
}

TEST_P(Events, W14_a_stream_that_waits_for_itself_goes_on) {
  Marker marker;
  weir::Stream s(device());
  mark(s, marker, 1);
  s.wait(s);
  mark(s, marker, 2);
  s.synchronize();
  EXPECT_EQ(marker.value(), 2);
}

//  a: [0]|e   [2]|e   [4]|e ...
//  b:    e[1]|f  e[3]|f ...        one event each, recorded again and again
TEST_P(Events, R72_two_streams_take_turns_by_two_events) {
  Log log(2000);
  weir::Stream a(device()), b(device());
  weir::Event e(device()), f(device());
  std::vector<int> expected;
  for (int i = 0; i < 2000; i += 2) {
    log.note(a, i);
    a.record(e);
    b.wait(e);
    log.note(b, i + 1);
    b.record(f);
    a.wait(f);
    expected.insert(expected.end(), {i, i + 1});
  }
  a.synchronize();
  EXPECT_EQ(log.values(), expected);
}

//  root: [hold ...]|e    s1..s50: wait(e) [+1]|e_i    end: wait(e_1) ... wait(e_50) [compare]
TEST_P(Events, P2_fork_and_join_by_events) {
  Gate gate;
  Marker count, seen;
  weir::Stream root(device()), end(device());
  std::vector<weir::Stream> branches;
  gate.hold(root);
  const weir::Event start = root.record();
  // Held streams of a GPU share its work queues, and hold up others behind them (R182).
  const int count_of_branches = on("cpu") ? 50 : 5;
  for (int i = 0; i < count_of_branches; ++i) {
    const weir::Stream& branch = branches.emplace_back(device());
    branch.wait(start);
    count_up(branch, count);
    end.wait(branch.record());
  }
  weir::host_call(end, [from = count.word(), to = seen.word()] { store_word(to, load_word(from)); });
  EXPECT_TRUE(stays(device(), [&] { return count.value() == 0 && seen.value() == 0; }));
  gate.open();
  end.synchronize();
  EXPECT_EQ(seen.value(), count_of_branches);
}

}  // namespace
}  // namespace weir_test
