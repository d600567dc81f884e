// Reasons of timelines made by hand: the host that waited, engines behind other bounds, and what a command did not wait for.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::add_wait;
using trace_test::held_of;
using trace_test::Lane;
using trace_test::Made;
using trace_test::name_device;
using trace_test::only_of;
using trace_test::Tie;
using trace_test::Timeline;
using weir::trace::Held;
using weir::trace::Reason;

using trace_test::ms;
using trace_test::us;

// Copies in and out overlap, had the host not waited for the first one. Between the wait and the second call the device has
// nothing to do for some microseconds.
TEST(TraceReasons, a_host_that_waited_costs_what_it_waited_and_not_the_moment_until_the_next_call) {
  Made made;
  const auto in = made.add(0, Lane::copy_in, 0, 2 * us, 4800 * us);
  const auto out = made.add(1, Lane::copy_out, 4802 * us, 4804 * us, 9600 * us);
  add_wait(made, "s0", in, 1 * us, 4800 * us);
  add_wait(made, "everything", out, 4803 * us, 9600 * us);
  const Held one = only_of(made.timeline, out);
  EXPECT_EQ(one.reason, Reason::host_wait);
  EXPECT_EQ(one.line, 77u);
  EXPECT_EQ(one.by, in);
  EXPECT_EQ(one.saves, 4799 * us);
}

TEST(TraceReasons, a_wait_that_ends_where_the_devices_idle_time_begins_counts) {
  Made made;
  const auto first = made.add(0, Lane::kernel, 0, 0, 5 * ms);
  const auto second = made.add(1, Lane::kernel, 5 * ms + 2 * us, 5 * ms + 3 * us, 6 * ms);
  add_wait(made, "s0", first, 1 * us, 5 * ms);
  const Held one = only_of(made.timeline, second);
  EXPECT_EQ(one.reason, Reason::host_wait);
  EXPECT_EQ(one.saves, 1 * ms) << "the first one still ends when it does, and nothing else is left to do then";
}

TEST(TraceReasons, what_a_host_does_for_long_after_a_wait_is_its_own) {
  for (const std::int64_t work : {3 * us, 30 * us}) {
    Made made;
    const auto first = made.add(0, Lane::kernel, 0, 0, 10 * us);
    const auto second =
        made.add(0, Lane::kernel, 10 * us + work, 11 * us + work, 90 * us, {{first, Tie::stream_order}});
    add_wait(made, "s0", first, 1 * us, 10 * us);
    const Held one = only_of(made.timeline, second);
    EXPECT_EQ(one.reason, work == 3 * us ? Reason::host_wait : Reason::host_late);
    EXPECT_EQ(one.saves, work);
  }
}

TEST(TraceReasons, a_pageable_copy_is_not_late_for_its_own_wait) {
  Made made;
  made.add(1, Lane::kernel, 0, 0, 10 * us);
  const auto copy = made.add(0, Lane::copy_in, 15 * us, 16 * us, 50 * us);
  add_wait(made, "pageable copy", copy, 2 * us, 50 * us);
  EXPECT_EQ(only_of(made.timeline, copy).reason, Reason::host_late);
}

const Held* by_line(const std::vector<Held>& held, std::uint32_t line) {
  const auto found = std::find_if(held.begin(), held.end(), [&](const Held& one) { return one.line == line; });
  return found == held.end() ? nullptr : &*found;
}

TEST(TraceReasons, each_of_several_waits_before_a_call_is_told_with_its_share) {
  Made made(3);
  const auto first = made.add(0, Lane::kernel, 0, 0, 30 * us);
  const auto second = made.add(1, Lane::kernel, 1 * us, 1 * us, 50 * us);
  const auto late = made.add(2, Lane::kernel, 52 * us, 53 * us, 90 * us);
  add_wait(made, "s0", first, 2 * us, 30 * us);
  add_wait(made, "s1", second, 31 * us, 50 * us);
  made.timeline.waits[1].line = 78;
  add_wait(made, "event", late, 54 * us, 90 * us);
  const std::vector<Held> held = held_of(made.timeline, late);
  ASSERT_EQ(held.size(), 2u) << to_text(held, made.timeline);
  ASSERT_NE(by_line(held, 77), nullptr);
  ASSERT_NE(by_line(held, 78), nullptr);
  EXPECT_EQ(by_line(held, 77)->saves, 28 * us);
  EXPECT_EQ(by_line(held, 78)->saves, 19 * us);
  EXPECT_EQ(by_line(held, 78)->by, second);
  for (const Held& one : held) EXPECT_EQ(one.reason, Reason::host_wait);
}

// No one of them is half of the time in which the device had nothing to do.
TEST(TraceReasons, idle_time_in_which_the_host_waited_several_times_is_those_waits) {
  Made made(2, 2);
  made.add(0, Lane::kernel, 0, 0, 10 * us);
  const auto other = made.add(1, Lane::kernel, 1 * us, 1 * us, 100 * us);
  const auto late = made.add(0, Lane::kernel, 100 * us, 101 * us, 120 * us);
  for (const std::int64_t moment : {12, 42, 72}) {
    add_wait(made, "event", other, moment * us, (moment + 25) * us);
    made.timeline.waits.back().line = static_cast<std::uint32_t>(moment);
  }
  const std::vector<Held> held = held_of(made.timeline, late);
  ASSERT_EQ(held.size(), 4u) << to_text(held, made.timeline);
  for (const std::uint32_t line : {12, 42, 72}) {
    ASSERT_NE(by_line(held, line), nullptr) << line;
    EXPECT_EQ(by_line(held, line)->reason, Reason::host_wait);
  }
  const Held* rest = by_line(held, made.timeline.commands[late].line);
  ASSERT_NE(rest, nullptr);
  EXPECT_EQ(rest->reason, Reason::host_late);
  EXPECT_EQ(rest->saves, 15 * us) << "what is left of 90";
}

TEST(TraceReasons, a_pageable_copy_that_was_slow_itself_is_told_beside_what_pinned_memory_reached) {
  for (const bool on_cpu : {false, true}) {
    Made made(1);
    if (on_cpu) name_device(made, "cpu");
    const auto pinned = made.add(0, Lane::copy_in, 0, 0, 10 * us, {}, 1 << 20);
    const auto slow = made.add(0, Lane::copy_in, 1 * us, 10 * us, 90 * us, {{pinned, Tie::stream_order}}, 1 << 21);
    const auto small = made.add(0, Lane::copy_in, 2 * us, 90 * us, 98 * us, {{slow, Tie::stream_order}}, 8);
    const auto out = made.add(0, Lane::copy_out, 3 * us, 98 * us, 198 * us, {{small, Tie::stream_order}}, 1 << 21);
    for (const std::uint32_t one : {slow, small, out}) made.timeline.commands[one].pageable = true;
    std::size_t told = 0;
    for (const Held& one : explain(made.timeline)) {
      if (one.reason != Reason::pageable_copy) continue;
      ++told;
      EXPECT_EQ(one.command, slow) << "nothing is known of copies as small, or of the other way";
      EXPECT_EQ(one.saves, 60 * us);
      EXPECT_EQ(one.line, made.timeline.commands[slow].line);
      EXPECT_NE(one.why.find("slower than copies of pinned memory"), std::string::npos) << one.why;
    }
    EXPECT_EQ(told, on_cpu ? 0u : 1u) << "the CPU copies both alike";
  }
}

// What shared the link with others says little of what pinned memory can do.
TEST(TraceReasons, a_pageable_copy_is_beside_the_best_of_pinned_ones_that_are_no_larger) {
  Made made(1);
  const auto best = made.add(0, Lane::copy_in, 0, 0, 10 * us, {}, 1 << 20);
  const auto shared = made.add(0, Lane::copy_in, 1 * us, 10 * us, 90 * us, {{best, Tie::stream_order}}, 1 << 21);
  const auto slow = made.add(0, Lane::copy_in, 2 * us, 90 * us, 170 * us, {{shared, Tie::stream_order}}, 1 << 21);
  made.timeline.commands[slow].pageable = true;
  std::vector<Held> told = explain(made.timeline);
  std::erase_if(told, [](const Held& one) { return one.reason != Reason::pageable_copy; });
  ASSERT_EQ(told.size(), 1u) << to_text(told, made.timeline);
  EXPECT_EQ(told[0].command, slow);
  EXPECT_EQ(told[0].saves, 60 * us);
}

TEST(TraceReasons, a_pageable_copy_that_held_the_host_is_told_where_no_copy_of_pinned_memory_was_recorded) {
  for (const bool on_cpu : {false, true}) {
    Made made(1);
    if (on_cpu) name_device(made, "cpu");
    const auto staged = made.add(0, Lane::copy_in, 0, 0, 10 * us, {}, 1 << 15);
    const auto copy = made.add(0, Lane::copy_in, 11 * us, 12 * us, 90 * us, {}, 1 << 21);
    for (const std::uint32_t one : {staged, copy}) made.timeline.commands[one].pageable = true;
    add_wait(made, "pageable copy", copy, 11 * us, 90 * us);
    made.timeline.waits.back().line = made.timeline.commands[copy].line;
    std::vector<Held> told = explain(made.timeline);
    std::erase_if(told, [](const Held& one) { return one.reason != Reason::pageable_copy; });
    ASSERT_EQ(told.size(), on_cpu ? 0u : 1u) << to_text(told, made.timeline) << "the first one held nobody";
    if (on_cpu) continue;
    EXPECT_EQ(told[0].command, copy);
    EXPECT_EQ(told[0].by, copy);
    EXPECT_EQ(told[0].line, made.timeline.commands[copy].line);
    EXPECT_EQ(told[0].saves, 78 * us);
    EXPECT_NE(told[0].why.find("no copy of pinned memory on the same way was recorded"), std::string::npos);
  }
}

TEST(TraceReasons, a_pageable_copy_that_was_slow_and_held_the_host_counts_once) {
  for (const bool compared : {false, true}) {
    Made made;
    if (compared) made.add(1, Lane::copy_in, 0, 0, 10 * us, {}, 1 << 20);
    for (int i = 0; i < 3; ++i) {
      const std::int64_t begin = (1 + 2 * i) * ms;
      const auto copy = made.add(0, Lane::copy_in, begin, begin, begin + ms, {}, 1 << 20);
      made.timeline.commands[copy].pageable = true;
      made.timeline.commands[copy].line = 77;
      add_wait(made, "pageable copy", copy, begin, begin + ms);
      made.add(1, Lane::kernel, begin + ms, begin + ms, begin + 2 * ms);
    }
    std::vector<Held> told = explain(made.timeline);
    std::erase_if(told, [](const Held& one) { return one.reason != Reason::pageable_copy; });
    ASSERT_EQ(told.size(), 1u) << to_text(told, made.timeline);
    EXPECT_EQ(told[0].line, 77u);
    EXPECT_EQ(told[0].count, 3u) << compared;
  }
}

TEST(TraceReasons, sentences_have_the_beginnings_of_long_names) {
  Made made;
  made.add(0, Lane::copy_in, 0, 0, 10 * us);
  const auto held = made.add(1, Lane::copy_in, 0, 10 * us, 20 * us);
  for (const std::size_t end : {77u, 76u}) {  // behind a character, and inside one
    std::string name = end == 77 ? "kernel<" : "kernels<";
    for (int i = 0; i < 50; ++i) name += "\xc3\xa4\xc3\xb6\xc3\xbc";
    made.timeline.commands[held].name = made.text(name);
    EXPECT_EQ(only_of(made.timeline, held).why,
              name.substr(0, end) + "... (s1) was ready, but c0 (s0) kept its copy engine busy");
  }
}

TEST(TraceReasons, kernels_run_beside_each_other_and_copies_of_one_engine_do_not) {
  for (const Lane lane : {Lane::kernel, Lane::copy_in}) {
    Made made(3);
    const auto awaited = made.add(0, lane, 0, 0, 20 * ms);
    const auto second = made.add(1, lane, 20 * ms + 2 * us, 20 * ms + 4 * us, 40 * ms);
    add_wait(made, "s0", awaited, 1 * us, 20 * ms);
    const Held one = only_of(made.timeline, second);
    const bool is_kernel = lane == Lane::kernel;
    EXPECT_EQ(one.reason, Reason::host_wait);
    EXPECT_EQ(one.saves, is_kernel ? 20 * ms - 1 * us : 2 * us);
  }
}

TEST(TraceReasons, copies_of_both_ways_that_never_run_at_once_share_an_engine) {
  for (const bool at_once : {false, true}) {
    Made made(4);
    const auto in = made.add(0, Lane::copy_in, 0, 0, 50 * us);
    const auto out = made.add(1, Lane::copy_out, 1 * us, 50 * us, 90 * us);
    made.add(2, Lane::copy_in, 100 * us, 100 * us, 120 * us);
    made.add(3, Lane::copy_out, (at_once ? 110 : 130) * us, (at_once ? 110 : 130) * us, 140 * us);
    const std::vector<Held> held = held_of(made.timeline, out);
    ASSERT_EQ(held.size(), at_once ? 0u : 1u) << to_text(held, made.timeline);
    if (at_once) continue;
    EXPECT_EQ(held[0].reason, Reason::engine_busy);
    EXPECT_EQ(held[0].by, in);
    EXPECT_EQ(held[0].saves, 49 * us);
    EXPECT_NE(held[0].why.find("kept its copy engine busy"), std::string::npos) << held[0].why;
  }
}

TEST(TraceReasons, a_wait_before_the_engine_was_free_is_not_what_held) {
  Made made(3);
  const auto awaited = made.add(2, Lane::kernel, 0, 0, 300 * us);
  const auto busy = made.add(0, Lane::copy_in, 1 * us, 1 * us, 900 * us);
  const auto held = made.add(1, Lane::copy_in, 302 * us, 900 * us, 950 * us);
  add_wait(made, "s2", awaited, 2 * us, 300 * us);
  const Held one = only_of(made.timeline, held);
  EXPECT_EQ(one.reason, Reason::engine_busy);
  EXPECT_EQ(one.by, busy);
  EXPECT_EQ(one.saves, 598 * us);
}

TEST(TraceReasons, a_command_behind_an_event_or_its_stream_may_find_its_engine_busy_too) {
  for (const Tie tie : {Tie::event, Tie::stream_order}) {
    Made made(3);
    const auto busy = made.add(0, Lane::copy_in, 0, 0, 5 * ms);
    const auto kernel = made.add(2, Lane::kernel, 1 * us, 1 * us, 101 * us);
    const auto copy = made.add(tie == Tie::event ? 1 : 2, Lane::copy_in, 2 * us, 5 * ms, 10 * ms, {{kernel, tie}});
    const std::vector<Held> held = held_of(made.timeline, copy);
    ASSERT_EQ(held.size(), 2u) << to_text(held, made.timeline);
    EXPECT_EQ(held[0].reason, Reason::engine_busy);
    EXPECT_EQ(held[0].by, busy);
    EXPECT_EQ(held[0].saves, 5 * ms - 101 * us);
    EXPECT_EQ(held[1].reason, tie == Tie::event ? Reason::event : Reason::stream_order);
    EXPECT_EQ(held[1].saves, 99 * us);
  }
}

TEST(TraceReasons, an_engine_that_was_idle_at_first_held_only_while_it_was_busy) {
  Made made;
  made.add(0, Lane::copy_in, 0, 100 * ms, 100 * ms + 10 * us);
  const auto held = made.add(1, Lane::copy_in, 1 * ms, 100 * ms + 10 * us, 100 * ms + 20 * us);
  const Held one = only_of(made.timeline, held);
  EXPECT_EQ(one.reason, Reason::engine_busy);
  EXPECT_EQ(one.saves, 10 * us);
}

TEST(TraceReasons, short_pauses_between_others_commands_are_no_idle_time_of_an_engine) {
  Made made(4);
  made.add(0, Lane::copy_in, 0, 0, 10 * us);
  made.add(1, Lane::copy_in, 0, 10 * us + 500, 20 * us);
  made.add(2, Lane::copy_in, 0, 20 * us + 500, 30 * us);
  const auto held = made.add(3, Lane::copy_in, 0, 30 * us + 500, 40 * us);
  const Held one = only_of(made.timeline, held);
  EXPECT_EQ(one.reason, Reason::engine_busy);
  EXPECT_EQ(one.saves, 29 * us) << "without the pauses";
}

// On the CPU a worker takes tens of microseconds to go on with another command, and all kinds of work share the workers.
TEST(TraceReasons, a_full_cpu_is_told_though_its_workers_take_a_while) {
  const auto held_on = [](const std::string& device, Lane lane, std::int64_t begin) {
    Made made;
    name_device(made, device);
    made.add(0, lane, 0, 0, 3 * ms);
    const auto held = made.add(1, Lane::kernel, 1 * us, begin, begin + 1 * ms);
    return held_of(made.timeline, held);
  };
  const std::int64_t later = 3 * ms + 40 * us;
  for (const Lane lane : {Lane::kernel, Lane::fill}) {
    const std::vector<Held> held = held_on("cpu:0", lane, later);
    ASSERT_EQ(held.size(), 1u);
    EXPECT_EQ(held[0].reason, Reason::engine_busy);
    EXPECT_EQ(held[0].saves, 3 * ms - 1 * us);
    EXPECT_NE(held[0].why.find("kept the device full"), std::string::npos) << held[0].why;
  }
  EXPECT_EQ(held_on("rank1 cpu:0", Lane::kernel, later).size(), 1u) << "of a merged timeline";
  const std::vector<Held> elsewhere = held_on("sim:0", Lane::kernel, later);
  ASSERT_EQ(elsewhere.size(), 1u);
  EXPECT_EQ(elsewhere[0].reason, Reason::slow_start) << "another device goes on at once";
  const std::vector<Held> idle = held_on("cpu:0", Lane::kernel, 4 * ms);
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].reason, Reason::slow_start) << "it was idle for long before";
}

TEST(TraceReasons, a_worker_that_is_slow_to_begin_was_not_held_by_what_ended_meanwhile) {
  Made made;
  name_device(made, "cpu:0");
  made.add(0, Lane::kernel, 0, 0, 12 * us);
  const auto late = made.add(1, Lane::kernel, 10 * us, 60 * us, 70 * us);
  for (const Held& one : held_of(made.timeline, late)) EXPECT_NE(one.reason, Reason::engine_busy);
}

// The stream goes on before memory that another stream used ends.
TEST(TraceReasons, what_ended_after_a_command_began_did_not_hold_it) {
  Made made;
  const auto before = made.add(0, Lane::kernel, 0, 0, 20 * us);
  const auto user = made.add(1, Lane::kernel, 1 * us, 1 * us, 60 * ms);
  const auto free =
      made.add(0, Lane::memory, 2 * us, 60 * ms, 60 * ms, {{before, Tie::stream_order}, {user, Tie::memory}});
  const auto next = made.add(0, Lane::copy_in, 3 * us, 20 * us, 40 * ms, {{free, Tie::stream_order}});
  const Held one = only_of(made.timeline, next);
  EXPECT_EQ(one.reason, Reason::stream_order);
  EXPECT_EQ(one.by, before);
  EXPECT_EQ(one.saves, 17 * us);
}

// Copies stand between events there, and kernels read the time themselves.
TEST(TraceReasons, what_seems_to_end_just_after_the_next_began_held_it_on_a_gpu_alone) {
  for (const bool is_gpu : {true, false}) {
    Made made;
    name_device(made, is_gpu ? "rank1 cuda:0" : "sim:0");
    const auto copy = made.add(0, Lane::copy_in, 0, 0, 20 * us);
    const auto kernel = made.add(0, Lane::kernel, 1 * us, 17 * us, 40 * us, {{copy, Tie::stream_order}});
    const std::vector<Held> held = held_of(made.timeline, kernel);
    ASSERT_EQ(held.size(), is_gpu ? 1u : 0u);
    EXPECT_EQ(summarize(made.timeline).critical_path.size(), is_gpu ? 2u : 1u);
    EXPECT_EQ(summarize(made.timeline).critical, (is_gpu ? 40 : 23) * us);
    if (!is_gpu) continue;
    EXPECT_EQ(held[0].reason, Reason::stream_order);
    EXPECT_EQ(held[0].saves, 16 * us);
  }
}

TEST(TraceReasons, replays_of_one_graph_wait_for_each_other) {
  Made made;
  const auto first = made.add(0, Lane::graph, 0, 0, 20 * ms);
  const auto second = made.add(1, Lane::graph, 1 * us, 20 * ms, 40 * ms, {{first, Tie::replay}});
  const Held one = only_of(made.timeline, second);
  EXPECT_EQ(one.reason, Reason::replay);
  EXPECT_EQ(one.by, first);
  EXPECT_EQ(one.line, second + 1);
  EXPECT_EQ(one.saves, 20 * ms - 1 * us);
  EXPECT_NE(one.change.find("clone"), std::string::npos);
  EXPECT_EQ(summarize(made.timeline).critical_path, (std::vector<std::uint32_t>{first, second}));
}

// The CPU reads the clock when it is through with a replay, and the next one may have begun by then.
TEST(TraceReasons, a_replay_whose_end_was_read_late_is_waited_for_all_the_same) {
  Made made;
  const auto first = made.add(0, Lane::graph, 0, 0, 24 * ms);
  const auto second = made.add(1, Lane::graph, 1 * us, 20 * ms, 40 * ms, {{first, Tie::replay}});
  const Held one = only_of(made.timeline, second);
  EXPECT_EQ(one.reason, Reason::replay);
  EXPECT_EQ(one.saves, 20 * ms - 1 * us);
  const weir::trace::Summary summary = summarize(made.timeline);
  EXPECT_EQ(summary.critical_path, (std::vector<std::uint32_t>{first, second}));
  EXPECT_EQ(summary.critical, 40 * ms);
}

TEST(TraceReasons, an_event_of_work_from_before_the_recording_is_told_by_its_record) {
  Made made;
  const auto record = made.add(0, Lane::order, 0, 35 * ms, 35 * ms);
  made.timeline.commands[record].name = made.text("record");
  made.timeline.commands[record].event = 1;
  const auto wait = made.add(1, Lane::order, 1 * us, 35 * ms, 35 * ms, {{record, Tie::event}});
  const auto held = made.add(1, Lane::kernel, 2 * us, 35 * ms + 5 * us, 40 * ms, {{wait, Tie::stream_order}});
  Held one = only_of(made.timeline, held);
  EXPECT_EQ(one.reason, Reason::event);
  EXPECT_EQ(one.by, record);
  EXPECT_EQ(one.line, record + 1);
  EXPECT_EQ(one.saves, 35 * ms - 2 * us);
  EXPECT_EQ(one.why, "c2 (s1) waited at made.cpp:1 for an event of work that was enqueued before the recording began");

  Made other;  // where the record, too, came before
  const auto alone = other.add(1, Lane::order, 1 * us, 35 * ms, 35 * ms);
  other.timeline.commands[alone].name = other.text("wait");
  other.timeline.commands[alone].event = 1;
  const auto kernel = other.add(1, Lane::kernel, 2 * us, 35 * ms + 5 * us, 40 * ms, {{alone, Tie::stream_order}});
  one = only_of(other.timeline, kernel);
  EXPECT_EQ(one.reason, Reason::event);
  EXPECT_EQ(one.line, alone + 1);
}

/// By chance, with moments that are long enough for reasons, waits of the host, and dependencies that cannot have held.
Timeline with_waits(unsigned seed) {
  Timeline timeline = trace_test::by_chance(seed);
  timeline.nodes.clear();
  timeline.dependencies.clear();
  std::mt19937 random(seed + 1);
  const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
  if (below(2) == 0) {
    timeline.devices.front() = static_cast<weir::trace::Text>(timeline.texts.size());
    timeline.texts.emplace_back("cpu:0");
  }
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    weir::trace::Command& one = timeline.commands[i];
    for (std::int64_t* moment : {&one.call, &one.begin, &one.end}) *moment *= 1 * us;
    one.first_dependency = static_cast<std::uint32_t>(timeline.dependencies.size());
    one.dependency_count = i == 0 ? 0 : below(3);
    for (std::uint32_t d = 0; d < one.dependency_count; ++d) {
      timeline.dependencies.push_back({below(i), static_cast<Tie>(below(4))});
    }
    if (below(3) > 0) continue;
    weir::trace::HostWait wait;
    wait.what = one.name;
    wait.command = i;
    wait.thread = 1;
    wait.begin = one.call + below(10) * us;
    wait.end = std::max(wait.begin, one.end);
    timeline.waits.push_back(wait);
  }
  std::stable_sort(timeline.waits.begin(), timeline.waits.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  return timeline;
}

TEST(TraceReasons, of_1000_timelines_save_no_more_than_commands_were_held_and_nothing_held_that_ended_later) {
  std::size_t told = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Timeline timeline = with_waits(seed);
    for (const Held& one : explain(timeline)) {
      ++told;
      const weir::trace::Command& held = timeline.commands[one.command];
      ASSERT_EQ(one.end, held.begin) << seed;
      ASSERT_GE(one.saves, 1 * us) << seed;
      if (one.count == 1) {
        ASSERT_LE(one.saves, one.end - one.begin) << seed << ": " << one.why;
      }
      const bool by_work =
          one.by != weir::trace::none && one.reason != Reason::host_wait && one.reason != Reason::work_queue;
      if (by_work) {
        ASSERT_LE(timeline.commands[one.by].end, held.begin) << seed << ": " << one.why;
      }
    }
    const std::vector<std::uint32_t> path = summarize(timeline).critical_path;
    for (std::size_t i = 1; i < path.size(); ++i) {
      ASSERT_LE(timeline.commands[path[i - 1]].end, timeline.commands[path[i]].begin) << seed;
    }
  }
  EXPECT_GT(told, 1000u);
}

// Rank 0 is ready at 10 us, rank 1 at 40.
TEST(TraceCollectives, have_a_critical_path_that_goes_on_with_the_last_rank) {
  Made made;
  std::uint32_t kernels[2], parts[2];
  for (std::uint32_t rank : {0u, 1u}) {
    const std::int64_t ready = rank == 0 ? 10 * us : 40 * us;
    kernels[rank] = made.add(rank, Lane::kernel, 0, 0, ready);
    parts[rank] = made.add(rank, Lane::external, 1 * us, ready, rank == 0 ? 61 * us : 60 * us,
                           {{kernels[rank], Tie::stream_order}});
    made.timeline.collectives.push_back({parts[rank], 1, 1, static_cast<std::int32_t>(rank), 2});
  }
  const weir::trace::Summary summary = summarize(made.timeline);
  EXPECT_EQ(summary.critical_path, (std::vector<std::uint32_t>{kernels[1], parts[0]}));
  EXPECT_EQ(summary.critical, 61 * us) << "the time in which rank 0 waited is rank 1's";
  const std::vector<Held> held = explain(made.timeline);
  const auto order = std::find_if(held.begin(), held.end(), [&](const Held& one) {
    return one.command == parts[0] && one.reason == Reason::stream_order;
  });
  ASSERT_NE(order, held.end());
  EXPECT_EQ(order->saves, 9 * us);
  name_device(made, "cpu:0");
  for (const Held& one : explain(made.timeline)) {
    EXPECT_NE(one.reason, Reason::stream_order) << "the workers do collectives, too";
  }
}

}  // namespace
