// Numbers and reasons of timelines: of some whose answer is known, and of many against a plain reference.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::Lane;
using trace_test::Made;
using trace_test::Tie;
using trace_test::Timeline;
using weir::trace::Held;
using weir::trace::Reason;
using weir::trace::Summary;

using trace_test::us;

TEST(TraceNumbers, of_two_streams_that_overlap_by_half) {
  Made made;
  const auto in0 = made.add(0, Lane::copy_in, 0, 10 * us, 20 * us, {}, 1000);
  const auto kernel0 = made.add(0, Lane::kernel, 1 * us, 20 * us, 40 * us, {{in0, Tie::stream_order}});
  const auto in1 = made.add(1, Lane::copy_in, 2 * us, 30 * us, 50 * us, {}, 4000);
  const auto kernel1 = made.add(1, Lane::kernel, 3 * us, 60 * us, 70 * us, {{in1, Tie::stream_order}});
  static_cast<void>(kernel0);
  const Summary summary = summarize(made.timeline);
  EXPECT_EQ(summary.ran, 4u);
  EXPECT_EQ(summary.makespan, 70 * us);
  ASSERT_EQ(summary.engines.size(), 2u);
  EXPECT_EQ(summary.engines[0].lane, Lane::kernel);
  EXPECT_EQ(summary.engines[0].busy, 30 * us);
  EXPECT_EQ(summary.engines[1].busy, 30 * us);
  EXPECT_EQ(summary.engines[1].bytes, 5000u);
  EXPECT_DOUBLE_EQ(summary.engines[1].bytes_per_second, 5000e9 / (30 * us));
  EXPECT_DOUBLE_EQ(summary.engines[1].best_bytes_per_second, 4000e9 / (20 * us));
  ASSERT_EQ(summary.overlaps.size(), 1u);
  EXPECT_EQ(summary.overlaps[0].ns, 10 * us);
  EXPECT_EQ(summary.concurrency, (std::vector<std::int64_t>{20 * us, 40 * us, 10 * us}));
  EXPECT_EQ(summary.critical_path, (std::vector<std::uint32_t>{in1, kernel1}));
  EXPECT_EQ(summary.critical, 30 * us);
  EXPECT_DOUBLE_EQ(summary.submission, 1 * us);
}

TEST(TraceNumbers, of_calls_are_the_median_of_what_is_between_two_of_one_thread) {
  Made made;
  for (const std::int64_t call : {0, 1, 3, 10}) made.add(0, Lane::kernel, call * us, 20 * us, 30 * us);
  made.add(1, Lane::kernel, 500 * us, 600 * us, 700 * us);
  made.timeline.commands.back().thread = 2;
  EXPECT_DOUBLE_EQ(summarize(made.timeline).submission, 2 * us);
}

TEST(TraceNumbers, of_nothing_are_nothing) {
  const Summary summary = weir::trace::summarize({});
  EXPECT_EQ(summary.makespan, 0);
  EXPECT_TRUE(summary.critical_path.empty());
  EXPECT_TRUE(weir::trace::explain({}).empty());
  EXPECT_NE(to_text(summary, {}).find("makespan"), std::string::npos);
}

/// By looking at every nanosecond.
struct Plain {
  explicit Plain(const Timeline& timeline) {
    std::int64_t first = -1, last = 0;
    for (const auto& c : timeline.commands) {
      if (!works(c)) continue;
      first = first < 0 ? std::min(c.call, c.begin) : std::min({first, c.call, c.begin});
      last = std::max(last, c.end);
    }
    for (std::int64_t now = first; first >= 0 && now < last; ++now) {
      std::map<std::pair<std::uint32_t, Lane>, bool> on;
      std::size_t running = 0;
      for (const auto& c : timeline.commands) {
        if (!works(c) || now < c.begin || now >= c.end) continue;
        on[{timeline.streams[c.stream].device, c.lane}] = true;
        ++running;
      }
      if (concurrency.size() <= running) concurrency.resize(running + 1);
      ++concurrency[running];
      for (auto a = on.begin(); a != on.end(); ++a) {
        ++busy[a->first];
        for (auto b = std::next(a); b != on.end(); ++b) ++both[{a->first, b->first}];
      }
    }
    makespan = first < 0 ? 0 : last - first;
  }
  static bool works(const weir::trace::Command& c) {
    return c.state == weir::trace::State::ran && c.lane != Lane::order && c.lane != Lane::memory;
  }

  using LaneOfDevice = std::pair<std::uint32_t, Lane>;
  std::int64_t makespan = 0;
  std::map<LaneOfDevice, std::int64_t> busy;
  std::map<std::pair<LaneOfDevice, LaneOfDevice>, std::int64_t> both;
  std::vector<std::int64_t> concurrency;
};

/// The ends of the work that a command had to wait for, as far as it had ended by then: through what takes no time.
std::set<std::int64_t> ends_before(const Timeline& timeline, std::uint32_t place) {
  std::set<std::int64_t> ends;
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> left = {place};
  while (!left.empty()) {
    const auto& at = timeline.commands[left.back()];
    left.pop_back();
    for (const auto& on : timeline.dependencies_of(at)) {
      if (!seen.insert(on.command).second) continue;
      const auto& before = timeline.commands[on.command];
      if (!Plain::works(before)) {
        left.push_back(on.command);
      } else if (before.end <= timeline.commands[place].begin) {
        ends.insert(before.end);
      }
    }
  }
  return ends;
}

/// Of all times in which nothing ran.
std::int64_t sum_of_gaps(const std::string& json) {
  const auto number_behind = [&](const std::string& member, std::size_t& at) {
    at = json.find(member, at) + member.size();
    return std::stoll(json.substr(at));
  };
  std::int64_t sum = 0;
  const std::string begin = "{\"begin_ns\": ";
  for (std::size_t at = json.find(begin); at != json.npos; at = json.find(begin, at)) {
    sum -= number_behind(begin, at);
    sum += number_behind("\"end_ns\": ", at);
  }
  return sum;
}

TEST(TraceNumbers, of_1000_timelines_are_those_of_a_plain_reference) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Timeline timeline = trace_test::by_chance(seed);
    const Summary summary = summarize(timeline);
    Plain plain(timeline);
    ASSERT_EQ(summary.makespan, plain.makespan) << seed;
    std::vector<std::int64_t> concurrency = summary.concurrency;
    while (!concurrency.empty() && concurrency.back() == 0) concurrency.pop_back();
    ASSERT_EQ(concurrency, plain.concurrency) << seed;
    ASSERT_EQ(sum_of_gaps(to_json(summary, timeline)), summary.idle) << seed;
    for (const auto& engine : summary.engines) {
      const auto key = std::pair(engine.device, engine.lane);
      ASSERT_EQ(engine.busy, plain.busy[key]) << seed;
    }
    for (const auto& one : summary.overlaps) {
      ASSERT_EQ(one.ns, (plain.both[{{one.device, one.first}, {one.device, one.second}}])) << seed;
    }
    // The path ends with what ended last, and each of it is behind the one before.
    std::int64_t sum = 0, last = 0;
    for (const auto& c : timeline.commands) last = std::max(last, Plain::works(c) ? c.end : 0);
    for (std::size_t i = 0; i < summary.critical_path.size(); ++i) {
      const auto& c = timeline.commands[summary.critical_path[i]];
      sum += c.end - c.begin;
      if (i > 0) {
        ASSERT_LE(timeline.commands[summary.critical_path[i - 1]].end, c.begin) << seed;
      }
      const std::set<std::int64_t> ends = ends_before(timeline, summary.critical_path[i]);
      ASSERT_EQ(ends.empty(), i == 0) << seed;
      if (i > 0) {
        ASSERT_EQ(timeline.commands[summary.critical_path[i - 1]].end, *ends.rbegin()) << seed;
      }
    }
    ASSERT_EQ(sum, summary.critical) << seed;
    if (!summary.critical_path.empty()) {
      ASSERT_EQ(timeline.commands[summary.critical_path.back()].end, last) << seed;
    }
    for (const Held& held : explain(timeline)) ASSERT_LE(held.saves, summary.makespan) << seed;
  }
}

Held only(const Timeline& timeline) {
  const std::vector<Held> held = explain(timeline);
  EXPECT_EQ(held.size(), 1u) << to_text(held, timeline);
  return held.empty() ? Held() : held.front();
}

TEST(TraceNumbers, tell_the_longest_idle_times_and_what_is_on_the_critical_path) {
  Made made;
  const auto first = made.add(0, Lane::kernel, 0, 5 * us, 10 * us);
  const auto second = made.add(0, Lane::copy_out, 1 * us, 40 * us, 45 * us, {{first, Tie::stream_order}});
  made.add(1, Lane::kernel, 2 * us, 44 * us, 46 * us);
  const auto last = made.add(0, Lane::kernel, 3 * us, 50 * us, 90 * us, {{second, Tie::stream_order}});
  made.timeline.commands[last].name = made.timeline.commands[first].name;
  made.timeline.commands[last].line = made.timeline.commands[first].line;
  made.timeline.clock = "made";
  const weir::trace::Summary summary = summarize(made.timeline);
  EXPECT_EQ(summary.idle, 39 * us);
  const std::string text = to_text(summary, made.timeline);
  const std::string path =
      "on the critical path              ran     commands\n"
      "                                 45 us            2  c0, made.cpp:1\n"
      "                                  5 us            1  c1, made.cpp:2\n";
  EXPECT_NE(text.find(path), std::string::npos) << text;
  const std::string gaps =
      "longest idle                       for           at  until\n"
      "                                 30 us        10 us  c1 (s0), made.cpp:2\n"
      "                                  5 us         0 ns  c0 (s0), made.cpp:1\n"
      "                                  4 us        46 us  c0 (s0), made.cpp:1\n";
  EXPECT_NE(text.find(gaps), std::string::npos) << text;
  EXPECT_NE(text.find("Times: made.\n"), std::string::npos) << text;
  EXPECT_NE(to_json(summary, made.timeline)
                .find(R"("idle_gaps": [{"begin_ns": 10000, "end_ns": 40000, "before": {"command": 1,)"),
            std::string::npos)
      << to_json(summary, made.timeline);
}

TEST(TraceReasons, an_event_is_told_with_the_line_of_its_record) {
  Made made;
  const auto kernel = made.add(0, Lane::kernel, 0, 0, 50 * us);
  const auto record = made.add(0, Lane::order, 1 * us, 50 * us, 50 * us, {{kernel, Tie::stream_order}});
  const auto wait = made.add(1, Lane::order, 2 * us, 50 * us, 50 * us, {{record, Tie::event}});
  const auto held = made.add(1, Lane::kernel, 3 * us, 51 * us, 60 * us, {{wait, Tie::stream_order}});
  const Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::event);
  EXPECT_EQ(one.command, held);
  EXPECT_EQ(one.by, kernel);
  EXPECT_EQ(one.line, record + 1);
  EXPECT_EQ(one.saves, 47 * us);
  EXPECT_NE(one.why.find("made.cpp:2"), std::string::npos) << one.why;
}

TEST(TraceReasons, a_default_streams_barrier_is_told_with_what_caused_it) {
  Made made;
  made.timeline.streams[0].legacy = true;
  const auto legacy = made.add(0, Lane::kernel, 0, 0, 30 * us);
  made.add(1, Lane::kernel, 10 * us, 30 * us, 40 * us, {{legacy, Tie::default_stream}});
  const Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::default_stream);
  EXPECT_EQ(one.line, legacy + 1);
  EXPECT_EQ(one.saves, 20 * us);
}

TEST(TraceReasons, a_copy_behind_a_kernel_in_one_stream_could_overlap) {
  Made made;
  const auto kernel = made.add(0, Lane::kernel, 0, 0, 30 * us);
  const auto copy = made.add(0, Lane::copy_in, 0, 30 * us, 40 * us, {{kernel, Tie::stream_order}});
  const Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::stream_order);
  EXPECT_EQ(one.command, copy);
  EXPECT_EQ(one.saves, 10 * us) << "no more than the copy takes";
}

TEST(TraceReasons, kernels_of_one_stream_are_no_finding) {
  Made made;
  const auto first = made.add(0, Lane::kernel, 0, 0, 30 * us);
  made.add(0, Lane::kernel, 0, 30 * us, 40 * us, {{first, Tie::stream_order}});
  EXPECT_TRUE(explain(made.timeline).empty());
}

TEST(TraceReasons, commands_that_one_line_holds_at_once_lose_that_time_once) {
  Made made(4);
  const auto busy = made.add(0, Lane::kernel, 0, 0, 30 * us);
  const auto record = made.add(0, Lane::order, 1 * us, 30 * us, 30 * us, {{busy, Tie::stream_order}});
  for (std::uint32_t stream = 1; stream <= 3; ++stream) {
    made.add(stream, Lane::kernel, 10 * us, 30 * us, 40 * us, {{record, Tie::event}});
  }
  const Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::event);
  EXPECT_EQ(one.count, 3u);
  EXPECT_EQ(one.saves, 20 * us);
}

TEST(TraceReasons, a_host_that_waited_or_copied_or_was_late) {
  for (const auto& [what, reason] :
       {std::pair("s0", Reason::host_wait), std::pair("pageable copy", Reason::pageable_copy),
        std::pair("allocation", Reason::allocation), std::pair("", Reason::host_late)}) {
    Made made;
    const auto first = made.add(0, Lane::kernel, 0, 0, 10 * us);
    made.add(1, Lane::kernel, 90 * us, 91 * us, 99 * us);
    if (*what != '\0') {
      weir::trace::HostWait wait;
      wait.what = made.text(what);
      wait.command = first;
      wait.file = made.timeline.commands[0].file;
      wait.line = 77;
      wait.thread = 1;
      wait.begin = 5 * us;
      wait.end = 80 * us;
      made.timeline.waits.push_back(wait);
    }
    const Held one = only(made.timeline);
    EXPECT_EQ(one.reason, reason);
    EXPECT_EQ(one.saves, 80 * us);
    EXPECT_EQ(one.line, *what == '\0' ? 2u : 77u);
  }
}

TEST(TraceReasons, a_pageable_copy_keeps_other_engines_idle_though_the_device_is_not) {
  Made made;
  made.add(0, Lane::kernel, 0, 0, 5 * us);
  const auto copy = made.add(0, Lane::copy_in, 5 * us, 5 * us, 50 * us);
  made.add(1, Lane::kernel, 50 * us, 50 * us, 60 * us);
  weir::trace::HostWait wait;
  wait.what = made.text("pageable copy");
  wait.command = copy;
  wait.line = 77;
  wait.thread = 1;
  wait.begin = 5 * us;
  wait.end = 50 * us;
  made.timeline.waits.push_back(wait);
  const Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::pageable_copy);
  EXPECT_EQ(one.by, copy);
  EXPECT_EQ(one.saves, 10 * us) << "no more than the kernel takes";
}

TEST(TraceReasons, an_engine_that_was_busy_and_memory_of_another_stream) {
  Made made;
  const auto first = made.add(0, Lane::copy_in, 0, 0, 10 * us);
  made.add(1, Lane::copy_in, 0, 10 * us, 20 * us);
  Held one = only(made.timeline);
  EXPECT_EQ(one.reason, Reason::engine_busy);
  EXPECT_EQ(one.by, first);
  EXPECT_EQ(one.saves, 10 * us);

  Made other;
  const auto user = other.add(0, Lane::kernel, 0, 0, 10 * us);
  const auto free = other.add(0, Lane::memory, 1, 10 * us, 10 * us, {{user, Tie::stream_order}});
  const auto alloc = other.add(1, Lane::memory, 2, 10 * us, 10 * us, {{free, Tie::memory}});
  other.add(1, Lane::kernel, 3, 10 * us, 20 * us, {{alloc, Tie::stream_order}});
  one = only(other.timeline);
  EXPECT_EQ(one.reason, Reason::memory);
  EXPECT_EQ(one.line, free + 1);
}

TEST(TraceReasons, what_came_later_and_went_first_had_a_higher_priority) {
  Made made(3);
  made.timeline.streams[0].priority = -1;
  made.add(2, Lane::kernel, 0, 0, 10 * us);
  const auto held = made.add(1, Lane::kernel, 1 * us, 30 * us, 40 * us);
  const auto urgent = made.add(0, Lane::kernel, 2 * us, 10 * us, 30 * us);
  const std::vector<Held> all = explain(made.timeline);
  const auto one = std::find_if(all.begin(), all.end(), [&](const Held& it) { return it.command == held; });
  ASSERT_NE(one, all.end());
  EXPECT_EQ(one->reason, Reason::priority);
  EXPECT_EQ(one->by, urgent);
  made.timeline.streams[0].priority = 0;
  const std::vector<Held> same = explain(made.timeline);
  EXPECT_TRUE(std::none_of(same.begin(), same.end(), [](const Held& it) { return it.reason == Reason::priority; }));
}

TEST(TraceReasons, ready_work_of_an_idle_engine_that_begins_with_another_streams_stood_in_its_queue) {
  const auto held_at = [](std::int64_t begin) {
    Made made(3);
    const auto copy = made.add(0, Lane::copy_in, 0, 0, 50 * us);
    made.add(0, Lane::kernel, 1 * us, 50 * us, 60 * us, {{copy, Tie::stream_order}});
    const auto held = made.add(1, Lane::kernel, 2 * us, begin, begin + 10 * us);
    const std::vector<Held> all = explain(made.timeline);
    const auto one = std::find_if(all.begin(), all.end(), [&](const Held& it) { return it.command == held; });
    return one == all.end() ? Held() : *one;
  };
  const Held one = held_at(50 * us + 100);
  EXPECT_EQ(one.reason, Reason::work_queue);
  EXPECT_EQ(one.by, 1u);
  EXPECT_EQ(one.saves, 48 * us + 100);
  EXPECT_NE(held_at(40 * us).reason, Reason::work_queue) << "it began before that";
  EXPECT_NE(held_at(55 * us).reason, Reason::work_queue) << "the engine was busy by then";
}

TEST(TraceReasons, without_a_line_say_what_holds_what) {
  Made made(3);
  const auto busy = made.add(0, Lane::kernel, 0, 0, 30 * us);
  const auto record = made.add(0, Lane::order, 1 * us, 30 * us, 30 * us, {{busy, Tie::stream_order}});
  for (std::uint32_t stream = 1; stream <= 2; ++stream) {
    made.add(stream, Lane::kernel, 10 * us, 30 * us, 40 * us, {{record, Tie::event}});
  }
  for (weir::trace::Command& one : made.timeline.commands) one.file = weir::trace::none;
  const std::vector<Held> held = explain(made.timeline);
  ASSERT_EQ(held.size(), 2u) << "one for each kernel, not one for all that have no line";
  EXPECT_EQ(held[0].why, "c2 (s1) waited for an event, recorded behind c0 (s0)");
}

TEST(TraceReasons, of_one_line_are_one_and_the_dearest_come_first) {
  Made made(3);
  for (int i = 0; i < 3; ++i) {
    const std::int64_t at = 100 * us * i;
    const auto kernel = made.add(0, Lane::kernel, at, at, at + 10 * us);
    made.add(0, Lane::copy_in, at, at + 10 * us, at + 20 * us, {{kernel, Tie::stream_order}});
    made.timeline.commands.back().line = 5;
  }
  const std::vector<Held> held = explain(made.timeline);
  ASSERT_GE(held.size(), 2u);
  EXPECT_TRUE(std::is_sorted(held.begin(), held.end(), [](auto& a, auto& b) { return a.saves > b.saves; }));
  const auto copies = std::find_if(held.begin(), held.end(), [](auto& a) { return a.reason == Reason::stream_order; });
  ASSERT_NE(copies, held.end());
  EXPECT_EQ(copies->count, 3u);
  EXPECT_EQ(copies->saves, 30 * us);
  EXPECT_NE(to_text(held, made.timeline).find("3 times"), std::string::npos);
}

TEST(TraceNumbers, a_critical_path_goes_only_through_what_had_ended) {
  Made made;
  const auto before = made.add(0, Lane::kernel, 0, 0, 20 * us);
  const auto other = made.add(1, Lane::kernel, 0, 0, 50 * us);
  const auto order =
      made.add(0, Lane::order, 1 * us, 50 * us, 50 * us, {{before, Tie::stream_order}, {other, Tie::default_stream}});
  const auto last = made.add(0, Lane::kernel, 2 * us, 21 * us, 60 * us, {{order, Tie::stream_order}});
  const weir::trace::Summary summary = summarize(made.timeline);
  EXPECT_EQ(summary.critical_path, (std::vector<std::uint32_t>{before, last}));
  EXPECT_EQ(summary.critical, 59 * us);
}

TEST(TraceNumbers, say_the_best_copy_only_where_one_counted_and_none_was_beside_it) {
  const auto text_of = [](std::int64_t length, bool at_once) {
    Made made;
    made.add(0, Lane::copy_in, 0, 10 * us, 10 * us + length, {}, 4000);
    if (at_once) made.add(1, Lane::copy_in, 0, 10 * us, 10 * us + length, {}, 4000);
    return to_text(summarize(made.timeline), made.timeline);
  };
  EXPECT_NE(text_of(2 * us, false).find("2.00 (2.00)    not known\n"), std::string::npos) << text_of(2 * us, false);
  EXPECT_NE(text_of(500, false).find("8.00           not known\n"), std::string::npos) << text_of(500, false);
  EXPECT_NE(text_of(2 * us, true).find("4.00           not known\n"), std::string::npos) << text_of(2 * us, true);
}

TEST(TraceNumbers, say_that_the_best_rate_is_that_of_this_timeline) {
  Made made;
  made.add(0, Lane::copy_in, 0, 10 * us, 12 * us, {}, 4000);
  const std::string text = to_text(summarize(made.timeline), made.timeline);
  EXPECT_NE(text.find(" GB/s (best here)  the device's best\n"), std::string::npos) << text;
}

}  // namespace
