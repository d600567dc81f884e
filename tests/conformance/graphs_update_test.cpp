// Changes to instantiated graphs: the next replay uses them, pending ones do not.
#include <atomic>
#include <memory>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

struct Minus {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] -= value; }
};

/// Of a view: how many elements, and how far they are from each other.
struct TellView {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> of, weir::View<int> to, int more) const {
    if (i == 0) to[0] = 100 * static_cast<int>(of.stride(0)) + static_cast<int>(of.size(0)) + more;
  }
};

/// What the last launch of a graph was told to use.
class UsesOfLaunches : public weir::Observer {
 public:
  UsesOfLaunches() { weir::attach(*this); }
  ~UsesOfLaunches() override { weir::detach(*this); }
  void submitted(const weir::Command& command) override {
    if (std::holds_alternative<weir::GraphLaunch>(command.op)) last.assign(command.uses.begin(), command.uses.end());
  }

  std::vector<weir::Region> last;
};

class GraphsUpdate : public AnyDevice {
 protected:
  weir::Stream s{device()};
};

TEST_P(GraphsUpdate, ALaunchsArguments) {
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  graph.launch(s);
  graph.update(node, weir::inout(x), 10);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 11));
  graph.update(node, weir::inout(y), 5);  // another array
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 11));
  EXPECT_EQ(y.to_host(), std::vector<int>(16, 5));
}

TEST_P(GraphsUpdate, ArgumentsAgainAndAgainWithOtherPartsOfTheArray) {
  const auto x = weir::zeros<int>(s, 16);
  const auto y = weir::zeros<int>(s, 1);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto node = b.launch(1, TellView{}, weir::in(x), weir::out(y), 0);
  weir::Graph graph = b.build();
  const auto replayed = [&](const auto& part, int more) {
    graph.update(node, weir::in(part), weir::out(y), more);
    graph.launch(s);
    return y.to_host()[0];
  };
  EXPECT_EQ(replayed(x, 1000), 1116);
  EXPECT_EQ(replayed(x, 2000), 2116);
  EXPECT_EQ(replayed(x.slice(0, 8), 1000), 1108);
  EXPECT_EQ(replayed(x.slice(0, 8), 2000), 2108);
  EXPECT_EQ(replayed(x.slice({{0, 16, 2}}), 2000), 2208);
  EXPECT_EQ(replayed(x.slice({{0, 16, 2}}), 3000), 3208);
  EXPECT_EQ(replayed(x, 3000), 3116);
}

TEST_P(GraphsUpdate, ArgumentsOfArraysThatWereFreedAreRefused) {
  auto x = weir::zeros<int>(s, 16);
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  graph.update(node, weir::inout(x), 2);
  graph.update(node, weir::inout(x), 3);
  s.synchronize();
  x.free();
  EXPECT_TRUE(fails_with(Errc::already_freed, [&] { graph.update(node, weir::inout(x), 4); }));
  const auto moved = std::move(x);
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { graph.update(node, weir::inout(x), 4); }));
}

TEST_P(GraphsUpdate, WhatALaunchDoesToTheSameArray) {
  const auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  graph.update(node, weir::inout(x), 2);
  graph.update(node, weir::accumulate(x), 2);
  UsesOfLaunches uses;
  graph.launch(s);
  ASSERT_EQ(uses.last.size(), 1u);
  EXPECT_EQ(uses.last[0].access, weir::Access::accumulate);
}

TEST_P(GraphsUpdate, ArgumentsInsideAHostFunctionAreRefused) {
  const auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  graph.update(node, weir::inout(x), 2);
  std::atomic<bool> refused{false};
  weir::host_call(s,
                  [&] { refused = fails_with(Errc::not_permitted, [&] { graph.update(node, weir::inout(x), 3); }); });
  s.synchronize();
  EXPECT_TRUE(refused);
}

TEST_P(GraphsUpdate, ALaunchOfACapturedGraph) {
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::Graph graph =
      weir::capture(s, [&] { weir::launch(s, weir::Extent{.size = 16, .name = "add"}, Plus{}, weir::inout(x), 1); });
  const weir::Node node = graph.find("add");
  graph.update(node, Plus{}, weir::inout(x), 7);
  graph.launch(s);
  graph.update(node, 8, Minus{}, weir::inout(x), 2);  // extent and kernel, too
  graph.launch(s);
  std::vector<int> expected(16, 7);
  std::fill_n(expected.begin(), 8, 5);
  EXPECT_EQ(x.to_host(), expected);
}

TEST_P(GraphsUpdate, AnExtent) {
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  graph.resize(node, 4);
  graph.launch(s);
  graph.resize(node, 0);
  graph.launch(s);
  std::vector<int> expected(16, 0);
  std::fill_n(expected.begin(), 4, 1);
  EXPECT_EQ(x.to_host(), expected);
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { graph.resize(node, {4, 4}); }));
}

TEST_P(GraphsUpdate, ACopysEndsAFillsValueAHostFunction) {
  auto x = weir::full<int>(s, 16, 1);
  auto y = weir::full<int>(s, 16, 2);
  auto z = weir::zeros<int>(s, 16);
  int first = 0;
  int second = 0;
  s.synchronize();
  weir::GraphBuilder b(device());
  auto copy = b.copy(z, x);
  auto fill = b.fill(x, 9);
  auto call = b.host_call([&first] { ++first; });
  b.depends(fill, copy);
  weir::Graph graph = b.build();
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(z.to_host()[0], 1);
  EXPECT_EQ(x.to_host()[0], 9);
  graph.update_copy(copy, z, y);
  graph.update_fill(fill, y, 11);
  graph.update_host_call(call, [&second] { ++second; });
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(z.to_host()[0], 2);
  EXPECT_EQ(y.to_host()[0], 11);
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST_P(GraphsUpdate, NodesAreDisabledAndEnabled) {
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  EXPECT_TRUE(graph.enabled(node));
  graph.disable(node);
  EXPECT_FALSE(graph.enabled(node));
  graph.launch(s);
  graph.enable(node);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 1));
}

TEST_P(GraphsUpdate, PendingReplaysKeepWhatTheyHad) {
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  Gate gate;
  gate.hold(s);
  graph.launch(s);
  graph.update(node, weir::inout(x), 100);
  graph.launch(s);
  graph.disable(node);
  graph.launch(s);
  gate.open();
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 101));
}

TEST_P(GraphsUpdate, ReplacedArraysLiveUntilTheirReplaysAreDone) {
  auto result = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  weir::Node copy;
  {
    auto x = weir::full<int>(s, 16, 3);
    s.synchronize();
    copy = b.copy(result, x);
  }
  weir::Graph graph = b.build();
  { weir::GraphBuilder gone(std::move(b)); }
  Gate gate;
  gate.hold(s);
  graph.launch(s);
  auto other = weir::full<int>(weir::pinned, 16, 4);
  graph.update_copy(copy, result, other);
  weir::Stream t(device());
  auto grabbed = weir::full<int>(t, 16, -1);
  t.synchronize();
  gate.open();
  EXPECT_EQ(result.to_host(), std::vector<int>(16, 3));
}

TEST_P(GraphsUpdate, ReplacedHostFunctionsGo) {
  const auto calls = std::make_shared<std::atomic<int>>(0);
  weir::GraphBuilder b(device());
  const weir::Node call = b.host_call([calls] { ++*calls; });
  weir::Graph graph = b.build();
  { weir::GraphBuilder gone(std::move(b)); }
  for (int i = 0; i < 20; ++i) {
    graph.update_host_call(call, [calls] { ++*calls; });
    graph.launch(s);
    s.synchronize();
  }
  EXPECT_EQ(calls->load(), 20);
  // The present function, and at most one whose replays were not known to be over when it was replaced.
  EXPECT_TRUE(eventually([&] { return calls.use_count() <= 3; })) << calls.use_count();
}

TEST_P(GraphsUpdate, WhatDoesNotFitIsRefusedAndChangesNothing) {
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto node = b.launch(16, Plus{}, weir::inout(x), 1);
  auto fill = b.fill(y, 1);
  weir::Graph graph = b.build();
  EXPECT_TRUE(
      fails_with(Errc::invalid_value, [&] { graph.update_fill(node, x, 1); }, {"weir::Graph::update_fill", "launch"}));
  EXPECT_TRUE(
      fails_with(Errc::invalid_value, [&] { graph.update(fill, Plus{}, weir::inout(x), 1); }, {"weir::Graph::update"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { graph.update_copy(fill, x, y); }) ||
              fails_with(Errc::invalid_value, [&] { graph.update_copy(fill, x, y); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { graph.update(node, 0, Plus{}, weir::inout(x), 1); }, {"disable"}));
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { graph.enable(weir::Node(12345, 0)); }));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 1));
}

ON_EVERY_DEVICE(GraphsUpdate);

}  // namespace
