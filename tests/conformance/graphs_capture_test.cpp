// Captured graphs: what is recorded, replayed, forked and joined (W4, W20, W21; R110, R139 to R142).
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

struct Add {
  int value;
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += value; }
};
struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, int factor, weir::View<const int> x, weir::View<int> y) const {
    y[i] = factor * x[i];
  }
};

struct Sum {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y) const { y[i] += x[i]; }
};

class GraphsCapture : public AnyDevice {};

TEST_P(GraphsCapture, CapturedWorkRunsAtEachLaunchAndNotBefore) {  // R110
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 1000);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 1000, Add{1}, weir::inout(x)); });
  EXPECT_EQ(x.to_host(), std::vector<int>(1000, 0));
  EXPECT_EQ(graph.size(), 1u);
  graph.launch(s);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(1000, 2));
}

TEST_P(GraphsCapture, AnEmptyCaptureIsAGraph) {  // R140
  weir::Stream s(device());
  weir::Graph graph = weir::capture(s, [] {});
  EXPECT_EQ(graph.size(), 0u);
  graph.launch(s);
  s.synchronize();
}

TEST_P(GraphsCapture, AReplayIsOrderedLikeAKernel) {  // W4, W21
  weir::Stream s(device());
  weir::Stream t(device());
  auto x = weir::zeros<int>(s, 64);
  auto y = weir::zeros<int>(s, 64);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 64, Scale{}, 10, weir::in(x), weir::out(y)); });
  weir::launch(t, 64, Add{3}, weir::inout(x));
  graph.launch(t);
  weir::launch(t, 64, Add{1}, weir::inout(y));
  t.synchronize();
  EXPECT_EQ(y.to_host(), std::vector<int>(64, 31));
  weir::fill(t, x, 7);  // inputs changed between replays are seen
  graph.launch(t);
  t.synchronize();
  EXPECT_EQ(y.to_host(), std::vector<int>(64, 70));
}

TEST_P(GraphsCapture, ALaunchReturnsWhileItsStreamIsHeld) {  // W4
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 1);
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 1, Add{1}, weir::inout(x)); });
  Gate gate;
  gate.hold(s);
  graph.launch(s);
  EXPECT_FALSE(s.done());
  gate.open();
  s.synchronize();
  EXPECT_EQ(x.to_host()[0], 1);
}

TEST_P(GraphsCapture, ForkAndJoinGiveADiamond) {  // R139
  weir::Stream s(device());
  weir::Stream t(device());
  auto x = weir::zeros<int>(s, 8);
  auto y = weir::zeros<int>(s, 8);
  auto z = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::launch(s, weir::Extent{.size = 8, .name = "top"}, Add{1}, weir::inout(x));
    weir::Event forked = s.record();
    t.wait(forked);
    weir::launch(t, weir::Extent{.size = 8, .name = "right"}, Scale{}, 5, weir::in(x), weir::out(y));
    weir::launch(s, weir::Extent{.size = 8, .name = "left"}, Scale{}, 7, weir::in(x), weir::out(z));
    s.wait(t.record());
    weir::launch(s, weir::Extent{.size = 8, .name = "bottom"}, Sum{}, weir::in(z), weir::inout(y));
  });
  EXPECT_EQ(topology(graph), "top; right<top; left<top; bottom<left,right");
  EXPECT_FALSE(weir::is_capturing(t));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(y.to_host(), std::vector<int>(8, 12));
}

TEST_P(GraphsCapture, CanBeLookedAtOnTheWay) {  // R134
  weir::Stream s(device(), {.name = "origin"});
  weir::Stream t(device());
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  EXPECT_FALSE(weir::capture_info(s));
  std::uint64_t first = 0;
  std::vector<weir::Node> ends;
  weir::Graph graph = weir::capture(s, [&] {
    const auto empty = weir::capture_info(s);
    ASSERT_TRUE(empty);
    EXPECT_TRUE(empty->valid);
    EXPECT_TRUE(empty->nodes.empty());
    EXPECT_TRUE(empty->behind.empty());
    first = empty->id;
    weir::launch(s, weir::Extent{.size = 8, .name = "a"}, Add{1}, weir::inout(x));
    t.wait(s);
    weir::launch(s, weir::Extent{.size = 8, .name = "b"}, Add{2}, weir::inout(x));
    const auto of_t = weir::capture_info(t);
    ASSERT_TRUE(of_t);
    EXPECT_EQ(of_t->id, first);
    ASSERT_EQ(of_t->nodes.size(), 2u);
    EXPECT_EQ(of_t->nodes[1].name, "b");
    EXPECT_EQ(of_t->nodes[1].stream_name, "origin");
    EXPECT_EQ(of_t->nodes[1].depends, std::vector<weir::Node>{of_t->nodes[0].node});
    EXPECT_EQ(of_t->behind, std::vector<weir::Node>{of_t->nodes[0].node});
    EXPECT_NE(weir::to_dot(of_t->nodes).find("n0 -> n1"), std::string::npos);
    ends = weir::capture_info(s)->behind;
  });
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(graph.node(ends[0]).name, "b");  // handles stay those of the graph
  weir::capture_begin(s);
  EXPECT_NE(weir::capture_info(s)->id, first);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_FALSE(weir::capture_info(s)->valid);
  EXPECT_THROW(weir::capture_end(s), weir::Error);
}

TEST_P(GraphsCapture, WaitingForAStreamForksAndJoins) {
  weir::Stream s(device());
  weir::Stream t(device());
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    weir::launch(t, weir::Extent{.size = 8, .name = "a"}, Add{1}, weir::inout(x));
    s.wait(t);
    weir::launch(s, weir::Extent{.size = 8, .name = "b"}, Add{2}, weir::inout(x));
  });
  EXPECT_EQ(topology(graph), "a; b<a");
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 3));
}

TEST_P(GraphsCapture, BranchesOverlap) {  // R139
  weir::Stream s(device());
  weir::Stream t(device());
  Meeting meeting(2);
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    meeting.attend(s);
    meeting.attend(t);
    s.wait(t);
  });
  for (int i = 0; i < 3; ++i) {
    meeting.reset();
    graph.launch(s);
    s.synchronize();
    EXPECT_TRUE(meeting.met());
  }
}

TEST_P(GraphsCapture, ReplaysOfOneGraphNeverOverlap) {
  weir::Stream s(device());
  weir::Stream t(device());
  Gate gate;
  std::atomic<int> inside{0};
  std::atomic<int> runs{0};
  std::atomic<bool> overlapped{false};
  weir::Graph graph = weir::capture(s, [&] {
    weir::host_call(s, [&] {
      if (inside.fetch_add(1) != 0) overlapped = true;
    });
    gate.hold(s);
    weir::host_call(s, [&] {
      inside.fetch_sub(1);
      ++runs;
    });
  });
  graph.launch(s);
  graph.launch(t);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return gate.begun() == 1 && !t.done(); }));
  gate.open();
  t.synchronize();
  s.synchronize();
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(overlapped);
}

TEST_P(GraphsCapture, ReplaysOfDifferentGraphsMayOverlap) {
  weir::Stream s(device());
  weir::Stream t(device());
  Meeting meeting(2);
  weir::Graph a = weir::capture(s, [&] { meeting.attend(s); });
  weir::Graph b = weir::capture(t, [&] { meeting.attend(t); });
  a.launch(s);
  b.launch(t);
  s.synchronize();
  t.synchronize();
  EXPECT_TRUE(meeting.met());
}

TEST_P(GraphsCapture, AHostFunctionIsCalledOnceInEachReplay) {  // R136
  weir::Stream s(device());
  int calls = 0;
  weir::Graph graph = weir::capture(s, [&] { weir::host_call(s, [&calls] { ++calls; }); });
  EXPECT_EQ(calls, 0);
  for (int i = 0; i < 3; ++i) graph.launch(s);
  s.synchronize();
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(graph.nodes().at(0).kind, weir::NodeKind::host_call);
}

TEST_P(GraphsCapture, ArgumentsAreCapturedByValue) {  // R141
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4);
  auto y = weir::full<int>(s, 4, 1);
  s.synchronize();
  int factor = 3;
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 4, Scale{}, factor, weir::in(y), weir::out(x)); });
  factor = 99;
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 3));
}

TEST_P(GraphsCapture, PinnedMemoryIsReadAtReplay) {  // R129
  weir::Stream s(device());
  auto host = weir::full<int>(weir::pinned, 16, 1);
  auto back = weir::full<int>(weir::pinned, 16, 0);
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::copy(s, x, host);
    weir::launch(s, 16, Add{1}, weir::inout(x));
    weir::copy(s, back, x);
  });
  for (int round = 0; round < 3; ++round) {
    host[0] = round * 10;
    graph.launch(s);
    s.synchronize();
    EXPECT_EQ(back[0], round * 10 + 1);
  }
}

TEST_P(GraphsCapture, PageableMemoryIsReadAtReplay) {  // R128
  weir::Stream s(device());
  std::vector<int> host(16, 1);
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::copy(s, x, host); });
  host[3] = 5;
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host()[3], 5);
}

TEST_P(GraphsCapture, ArraysLiveAsLongAsTheGraph) {
  weir::Stream s(device());
  auto result = weir::zeros<int>(s, 100);
  weir::Graph graph;
  {
    auto x = weir::full<int>(s, 100, 21);
    s.synchronize();
    graph = weir::capture(s, [&] { weir::launch(s, 100, Scale{}, 2, weir::in(x), weir::out(result)); });
  }
  {
    auto other = weir::full<int>(s, 100, -1);  // would get the memory
    s.synchronize();
  }
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(result.to_host(), std::vector<int>(100, 42));
}

TEST_P(GraphsCapture, DestroyingAGraphLosesNoPendingReplay) {
  weir::Stream s(device());
  auto result = weir::zeros<int>(s, 100);
  s.synchronize();
  Gate gate;
  gate.hold(s);
  {
    auto x = weir::full<int>(s, 100, 21);
    weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 100, Scale{}, 2, weir::in(x), weir::out(result)); });
    graph.launch(s);
  }
  gate.open();
  s.synchronize();
  EXPECT_EQ(result.to_host(), std::vector<int>(100, 42));
}

TEST_P(GraphsCapture, AGraphInsideACaptureBecomesAChild) {  // R142
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::Graph child = weir::capture(s, [&] {
    weir::launch(s, weir::Extent{.size = 8, .name = "one"}, Add{1}, weir::inout(x));
    weir::launch(s, weir::Extent{.size = 8, .name = "two"}, Add{1}, weir::inout(x));
  });
  weir::Graph parent = weir::capture(s, [&] {
    weir::launch(s, weir::Extent{.size = 8, .name = "before"}, Scale{}, 10, weir::in(x), weir::out(x));
    child.launch(s);
    child.launch(s);
    weir::launch(s, weir::Extent{.size = 8, .name = "after"}, Scale{}, 10, weir::in(x), weir::out(x));
  });
  EXPECT_EQ(topology(parent), "before; graph<before {one; two<one}; graph<graph {one; two<one}; after<graph");
  parent.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 40));
}

TEST_P(GraphsCapture, WorkOnOtherStreamsRunsMeanwhile) {  // R123
  weir::Stream s(device());
  weir::Stream t(device());
  auto x = weir::zeros<int>(t, 8);
  t.synchronize();
  weir::ScopedCapture capture(s);
  weir::launch(t, 8, Add{1}, weir::inout(x));
  weir::Graph graph = capture.finish();
  EXPECT_EQ(graph.size(), 0u);
  t.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 1));
}

TEST_P(GraphsCapture, ACaptureOfADeviceIsOneOfItsCurrentStream) {  // W21
  auto x = weir::zeros<int>(device(), 8);
  device().synchronize();
  weir::Graph graph = weir::capture(device(), [&] { weir::launch(8, Add{1}, weir::inout(x)); });
  graph.launch();
  weir::synchronize_stream(weir::get_stream(device()));
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 1));
}

TEST_P(GraphsCapture, NodesTellWhereTheyComeFrom) {
  weir::Stream s(device(), {.priority = -1, .name = "upload"});
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 8, Add{1}, weir::inout(x)); });
  const int line = __LINE__ - 1;
  const weir::NodeInfo node = graph.nodes().at(0);
  EXPECT_EQ(static_cast<int>(node.where.line()), line);
  EXPECT_EQ(node.stream_name, "upload");
  EXPECT_EQ(node.stream, s.id());
  EXPECT_EQ(node.priority, s.priority());
  EXPECT_NE(node.name.find("Add"), std::string::npos);
}

TEST_P(GraphsCapture, AFailureInsideSkipsTheRestAndIsReported) {
  weir::Stream s(device());
  int ran = 0;
  bool broken = true;
  weir::Graph graph = weir::capture(s, [&] {
    weir::host_call(s, [&broken] {
      if (broken) throw std::runtime_error("no luck");
    });
    weir::host_call(s, [&ran] { ++ran; });
  });
  graph.launch(s);
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }, {"no luck"}));
  EXPECT_EQ(ran, 0);
  broken = false;
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(ran, 1);
}

//  s:  [hold ......][throws][graph: x += 1, or a host function and then x += 1]
TEST_P(GraphsCapture, AReplayBehindAFailureIsSkipped) {
  for (const bool with_call : {false, true}) {
    weir::Stream s(device());
    auto x = weir::zeros<int>(s, 8);
    std::atomic<int> calls{0};
    s.synchronize();
    weir::Graph graph = weir::capture(s, [&] {
      weir::launch(s, 8, Add{1}, weir::inout(x));
      if (with_call) weir::host_call(s, [&calls] { ++calls; });
      weir::launch(s, 8, Add{1}, weir::inout(x));
    });
    Gate gate;
    gate.hold_by_host_call(s);
    weir::host_call(s, [] { throw std::runtime_error("no luck"); });
    EXPECT_TRUE(returns_while_held(gate, [&] { graph.launch(s); }));
    gate.open();
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }, {"no luck"}));
    EXPECT_EQ(calls.load(), 0);
    EXPECT_EQ(x.to_host(), std::vector<int>(8, 0)) << with_call;
    graph.launch(s);
    s.synchronize();
    EXPECT_EQ(calls.load(), with_call ? 1 : 0);
    EXPECT_EQ(x.to_host(), std::vector<int>(8, 2)) << with_call;
  }
}

ON_EVERY_DEVICE(GraphsCapture);

class GraphsOfTwoDevices : public TwoDevices {};

TEST_P(GraphsOfTwoDevices, ACaptureForksToAnotherDevice) {  // R201, W20
  weir::Stream s(first());
  weir::Stream t(second());
  auto x = weir::zeros<int>(s, 8);
  auto y = weir::zeros<int>(t, 8);
  s.synchronize();
  t.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::launch(s, weir::Extent{.size = 8, .name = "a"}, Add{1}, weir::inout(x));
    t.wait(s);
    weir::launch(t, weir::Extent{.size = 8, .name = "b"}, Add{2}, weir::inout(y));
    s.wait(t);
  });
  EXPECT_EQ(topology(graph), "a; b<a");
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 1));
  EXPECT_EQ(y.to_host(), std::vector<int>(8, 2));
}

//  s:  x += 1, copy x to y of the other device, copy every second of y back
TEST_P(GraphsOfTwoDevices, CopiesBetweenDevicesAreNodes) {  // W8
  weir::Stream s(first());
  auto x = weir::zeros<int>(s, 8);
  auto y = weir::zeros<int>(second(), 8);
  auto z = weir::zeros<int>(s, 4);
  weir::synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::launch(s, 8, Add{1}, weir::inout(x));
    weir::copy(s, y, x);
    weir::copy(s, z, y.slice({{0, 8, 2}}));
  });
  graph.launch(s);
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(y.to_host(), std::vector<int>(8, 2));
  EXPECT_EQ(z.to_host(), std::vector<int>(4, 2));
}

TEST_P(GraphsOfTwoDevices, AReplayOnTheOtherDeviceOutlivesTheGraph) {
  Gate gate;
  weir::Stream s(first());
  weir::Stream t(second());
  auto calls = std::make_shared<std::atomic<int>>(0);
  weir::Graph graph = weir::capture(s, [&] { weir::host_call(s, [calls] { ++*calls; }); });
  gate.hold(t);
  graph.launch(t);
  graph = weir::Graph();
  EXPECT_EQ(calls->load(), 0);
  gate.open();
  t.synchronize();
  EXPECT_EQ(calls->load(), 1);
  EXPECT_TRUE(eventually([&] { return calls.use_count() == 1; }));
}

//  t:  [hold ......][throws or not][graph of the first device: x += 1]
TEST_P(GraphsOfTwoDevices, AReplayBehindAHostFunctionOfTheOtherDevice) {
  weir::Stream s(first());
  weir::Stream t(second());
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 8, Add{1}, weir::inout(x)); });
  for (const bool fails : {true, false}) {
    Gate gate;
    gate.hold_by_host_call(t);
    weir::host_call(t, [fails] {
      if (fails) throw std::runtime_error("no luck");
    });
    EXPECT_TRUE(returns_while_held(gate, [&] { graph.launch(t); }));
    gate.open();
    if (fails) {
      EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { t.synchronize(); }, {"no luck"}));
    } else {
      t.synchronize();
    }
    EXPECT_EQ(x.to_host(), std::vector<int>(8, fails ? 0 : 1));
  }
}

ON_EVERY_BACKEND(GraphsOfTwoDevices);

}  // namespace
