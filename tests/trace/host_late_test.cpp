// Reasons of timelines made by hand: what the host did while a device had nothing to do.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::add_wait;
using trace_test::held_of;
using trace_test::Lane;
using trace_test::Made;
using trace_test::only_of;
using trace_test::Tie;
using weir::trace::Held;
using weir::trace::Reason;

using trace_test::ms;
using trace_test::us;

// What the host did instead of the call that the device waited for.
TEST(TraceReasons, a_host_that_was_late_is_told_with_what_it_did_instead) {
  const auto why_of = [](Made& made) {
    made.add(0, Lane::kernel, 90 * us, 91 * us, 99 * us);
    return only_of(made.timeline, static_cast<std::uint32_t>(made.timeline.commands.size() - 1)).why;
  };
  const auto begun = [](int devices = 1) {
    Made made(2, devices);
    made.add(0, Lane::kernel, 0, 0, 10 * us);
    return made;
  };
  const std::string late = "the device had nothing to do before the call at made.cpp:2";
  Made idle = begun();
  EXPECT_EQ(why_of(idle), "c1 (s0) was submitted late: " + late + "; its thread had called nothing since made.cpp:1");
  Made waits = begun();
  add_wait(waits, "s0", 0, 1 * us, 12 * us);
  EXPECT_NE(why_of(waits).find("; its thread had called nothing since the wait at made.cpp:77"), std::string::npos);
  Made others = begun();
  add_wait(others, "s0", 0, 1 * us, 12 * us);
  others.timeline.waits.back().thread = 2;
  EXPECT_NE(why_of(others).find("; its thread had called nothing since made.cpp:1"), std::string::npos)
      << "the wait is another thread's";
  Made named = begun();
  for (const auto& [name, thread, begin, end] : {std::tuple("epoch", 1u, 0, 200), std::tuple("load", 1u, 11, 88),
                                                 std::tuple("short", 1u, 20, 30), std::tuple("other", 2u, 9, 95)}) {
    named.timeline.ranges.push_back({named.text(name), thread, begin * us, end * us});
  }
  EXPECT_NE(why_of(named).find(R"(; its thread was in "load", and had called nothing since made.cpp:1)"),
            std::string::npos);
  Made calls = begun(2);
  calls.add(1, Lane::kernel, 20 * us, 20 * us, 30 * us);
  calls.add(1, Lane::kernel, 40 * us, 40 * us, 50 * us);
  calls.timeline.commands.back().thread = 2;
  EXPECT_NE(why_of(calls).find("; its thread made 1 other call meanwhile"), std::string::npos);
}

TEST(TraceReasons, what_a_host_does_after_a_longer_wait_is_told_beside_it) {
  Made made;
  const auto first = made.add(0, Lane::kernel, 0, 0, 5 * ms);
  const auto late = made.add(1, Lane::kernel, 6 * ms, 6 * ms, 9 * ms);
  add_wait(made, "s0", first, 1 * us, 5 * ms);
  const std::vector<Held> held = held_of(made.timeline, late);
  ASSERT_EQ(held.size(), 2u) << to_text(held, made.timeline);
  EXPECT_EQ(held[0].reason, Reason::host_wait);
  EXPECT_EQ(held[0].saves, 4 * ms);
  EXPECT_EQ(held[1].reason, Reason::host_late);
  EXPECT_EQ(held[1].saves, 1 * ms);
  EXPECT_EQ(held[1].line, made.timeline.commands[late].line);
  EXPECT_NE(held[1].why.find("since the wait at made.cpp:77"), std::string::npos) << held[1].why;
}

TEST(TraceReasons, a_device_that_was_idle_before_what_was_ready_began_slowly) {
  Made made(3);
  const auto first = made.add(0, Lane::kernel, 10 * us, 16 * us, 20 * us);
  const auto second = made.add(0, Lane::kernel, 17 * us, 23 * us, 30 * us, {{first, Tie::stream_order}});
  const auto beside = made.add(1, Lane::kernel, 18 * us, 26 * us, 40 * us);
  made.add(1, Lane::kernel, 19 * us, 40 * us + 900, 50 * us, {{beside, Tie::stream_order}});
  const std::vector<Held> told = explain(made.timeline);
  ASSERT_EQ(told.size(), 2u) << to_text(told, made.timeline);
  EXPECT_EQ(told[0].command, first) << "what the device took is since the call";
  EXPECT_EQ(told[0].saves, 6 * us);
  EXPECT_EQ(told[1].command, second);
  EXPECT_EQ(told[1].begin, 20 * us) << "or since it was idle";
  EXPECT_EQ(told[1].saves, 3 * us);
  for (const Held& one : told) EXPECT_EQ(one.reason, Reason::slow_start);
  EXPECT_EQ(told[1].why,
            "c1 (s0) was ready and the device idle, and nothing held it: the device took 3 us to begin it");
  EXPECT_TRUE(held_of(made.timeline, beside).empty()) << "the device was at work";
}

}  // namespace
