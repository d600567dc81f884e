// Sessions of simulated devices: their work has virtual moments, and what the host did beside it is put there.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <weir/sim.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

namespace {

using weir::trace::Lane;
using weir::trace::Session;
using weir::trace::Timeline;

struct Short {
  void operator()(std::size_t) const {}
};

// A kernel of 1 ms, 10 ms of the host's, and another kernel, which the host waits for: all of it takes next to no real time.
TEST(TraceSession, of_simulated_devices_has_calls_and_waits_by_their_virtual_clock) {
  using weir::trace::Reason;
  constexpr std::int64_t ms = 1'000'000;
  const weir::Device device = weir::device("sim:h200");
  weir::Stream s(device);
  weir::sim::set_cost("Short", {.ns = 1e6});
  s.synchronize();
  Session session;
  launch(s, 1, Short{});
  weir::sim::host_work(std::chrono::milliseconds(10));
  launch(s, 1, Short{});
  const unsigned line = __LINE__ - 1;
  {
    weir::trace::Range waits("waits");
    s.synchronize();
  }
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), 2u);
  const weir::trace::Command &first = timeline.commands[0], &second = timeline.commands[1];
  EXPECT_GE(first.call, 0);
  EXPECT_GE(first.begin, first.call);
  EXPECT_LT(first.end, first.call + 2 * ms);
  EXPECT_GE(second.call, first.call + 10 * ms);
  EXPECT_LT(second.call, first.call + 11 * ms);
  EXPECT_GE(second.end, second.begin + ms);
  ASSERT_EQ(timeline.waits.size(), 1u);
  EXPECT_GE(timeline.waits[0].begin, second.call);
  EXPECT_EQ(timeline.waits[0].end, second.end);
  ASSERT_EQ(timeline.ranges.size(), 1u);
  EXPECT_GE(timeline.ranges[0].begin, second.call);
  EXPECT_EQ(timeline.ranges[0].end, second.end);
  EXPECT_GE(timeline.duration, second.end);
  EXPECT_NE(timeline.clock.find("virtual clock"), std::string::npos);
  const std::vector<weir::trace::Held> held = explain(timeline);
  ASSERT_EQ(held.size(), 2u);
  EXPECT_EQ(held[0].reason, Reason::host_late);
  EXPECT_EQ(held[0].line, line);
  EXPECT_GT(held[0].saves, 8 * ms);
  EXPECT_LT(held[0].saves, 10 * ms);
  EXPECT_EQ(held[1].reason, Reason::slow_start) << "of the first one, from its call";
}

// The device may start between the two, which takes a hundred times as long as what runs.
TEST(TraceSession, of_simulated_devices_begins_with_the_first_call_that_has_a_virtual_moment) {
  const weir::Device device = weir::device("sim:h200");
  weir::Stream s(device);
  weir::Stream other(device);
  Session session;
  const auto x = weir::empty<int>(other, 16);
  launch(s, 1, Short{});
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), 2u);
  EXPECT_EQ(timeline.commands[0].lane, Lane::memory);
  EXPECT_EQ(timeline.commands[0].call, timeline.commands[1].call);
}

// Two kernels of a graph, by the clock of their launch.
TEST(TraceSession, of_simulated_devices_has_the_nodes_of_each_replay) {
  constexpr std::int64_t ms = 1'000'000;
  weir::Stream s(weir::device("sim:h200"));
  weir::sim::set_cost("Short", {.ns = 1e6});
  const weir::Graph graph = capture(s, [&] {
    launch(s, 1, Short{});
    launch(s, 1, Short{});
  });
  s.synchronize();
  weir::sim::host_work(std::chrono::hours(1));  // the two clocks are apart
  Session session;
  graph.launch(s);
  graph.launch(s);
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), 2u);
  ASSERT_EQ(timeline.nodes.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const weir::trace::NodeRun& node = timeline.nodes[i];
    const weir::trace::Command& launch = timeline.commands[i / 2];
    EXPECT_EQ(node.command, i / 2);
    EXPECT_NE(timeline.name_of(node).find("Short"), std::string_view::npos);
    EXPECT_EQ(node.lane, Lane::kernel);
    EXPECT_GE(node.begin, launch.begin + i % 2 * ms);
    EXPECT_LE(node.end, launch.end);
    EXPECT_NEAR(static_cast<double>(node.end - node.begin), 1e6, 1e4);
  }
}

}  // namespace
