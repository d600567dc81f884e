// Graphs built by hand: every kind of node, explicit and inferred dependencies, cycles.
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

struct Times {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y, int factor) const {
    y[i] = factor * x[i];
  }
};

class GraphsBuilder : public AnyDevice {
 protected:
  weir::Stream s{device()};
};

TEST_P(GraphsBuilder, NodesRunInTheOrderOfTheirDependencies) {  // R149
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  auto last = b.launch(named("last"), Times{}, weir::in(x), weir::out(x), 10);
  auto first = b.launch(named("first"), Plus{}, weir::inout(x), 3);
  b.depends(last, first);
  weir::Graph graph = b.build();
  EXPECT_EQ(topology(graph), "last<first; first");
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 30));
}

TEST_P(GraphsBuilder, ANodeDependsOnAsManyAsAVectorHas) {  // R149
  auto x = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto last = b.launch(named("last"), Times{}, weir::in(x), weir::out(x), 10);
  std::vector<weir::Node> before;
  b.depends(last, before);
  before.push_back(b.launch(named("first"), Plus{}, weir::inout(x), 3));
  before.push_back(b.empty());
  b.depends(last, before);
  weir::Graph graph = b.build();
  EXPECT_EQ(graph.nodes()[last.index()].depends, before);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 30));
}

TEST_P(GraphsBuilder, IndependentNodesOverlap) {  // R149
  Meeting meeting(3);
  weir::GraphBuilder b(device());
  const auto join = b.empty();
  for (int i = 0; i < 3; ++i) b.depends(join, meeting.attend(b));
  b.build().launch(s);
  s.synchronize();
  EXPECT_TRUE(meeting.met());
}

TEST_P(GraphsBuilder, ADependentNodeWaitsWhileAnIndependentOneRuns) {  // R149
  Gate gate;
  Marker marker(2);
  weir::Stream t(device());
  weir::Graph held = weir::capture(t, [&] { gate.hold(t); });
  weir::GraphBuilder b(device());
  const auto holding = b.graph(held);
  const auto dependent = b.launch(named("dependent", 1), WriteMark{}, marker.word(0), 1);
  b.launch(named("independent", 1), WriteMark{}, marker.word(1), 1);
  b.depends(dependent, holding);
  weir::Graph graph = b.build();
  graph.launch(s);
  EXPECT_TRUE(eventually([&] { return marker.value(1) == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return marker.value(0) == 0 && !s.done(); }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(0), 1);
}

TEST_P(GraphsBuilder, EveryKindOfNode) {
  auto x = weir::zeros<int>(s, 16);
  auto host = weir::zeros<int>(weir::pinned, 16);
  weir::Event done(device());
  weir::Event before(device());
  weir::TimedEvent timed(device());
  int calls = 0;
  s.synchronize();
  weir::Graph child = weir::capture(s, [&] { weir::launch(s, named("child"), Plus{}, weir::inout(x), 1); });
  weir::GraphBuilder b(device());
  auto [scratch, alloc] = b.allocate<int>(16);
  const auto wait = b.wait(before);
  const auto fill = b.fill(scratch, 5);
  const auto copy = b.copy(x, scratch);
  const auto inner = b.graph(child);
  const auto call = b.host_call([&calls] { ++calls; });
  const auto back = b.copy(host, x);
  const auto free = b.free(scratch);
  const auto record = b.record(done);
  const auto stamp = b.record(timed);
  const auto nothing = b.empty();
  const auto zero = b.launch(named("zero", 0), Plus{}, weir::inout(x), 1);
  const std::vector<weir::Node> order = {alloc, wait, fill,   copy,  inner,   call,
                                         back,  free, record, stamp, nothing, zero};
  for (std::size_t i = 1; i < order.size(); ++i) b.depends(order[i], order[i - 1]);
  weir::Graph graph = b.build();
  std::vector<weir::NodeKind> kinds;
  for (const auto& node : graph.nodes()) {
    if (!node.parent) kinds.push_back(node.kind);
  }
  using K = weir::NodeKind;
  EXPECT_EQ(kinds, (std::vector<K>{K::alloc, K::wait, K::fill, K::copy, K::graph, K::host_call, K::copy, K::free,
                                   K::record, K::record, K::empty, K::empty}));
  for (int round = 1; round <= 3; ++round) {
    weir::fill(s, x, -1);
    graph.launch(s);
    done.synchronize();
    s.synchronize();
    EXPECT_EQ(host[3], 6);
    EXPECT_EQ(calls, round);
    EXPECT_TRUE(timed.done());
  }
}

TEST_P(GraphsBuilder, DependenciesAreInferredOnRequest) {
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  auto z = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device(), weir::Dependencies::inferred);
  b.launch(named("a"), Plus{}, weir::inout(x), 1);
  b.launch(named("b"), Times{}, weir::in(x), weir::out(y), 2);
  b.launch(named("c"), Times{}, weir::in(x), weir::out(z), 3);
  b.launch(named("d"), Times{}, weir::in(y), weir::out(x), 5);  // after c, which reads x
  b.fill(z.slice(0, 4), 7);                                     // after c
  b.launch(named("e"), Plus{}, weir::inout(z), 1);
  weir::Graph graph = b.build();
  EXPECT_EQ(topology(graph), "a; b<a; c<a; d<c,b; fill<c; e<fill");
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host()[0], 10);
  EXPECT_EQ(z.to_host()[0], 8);
  EXPECT_EQ(z.to_host()[9], 4);
}

TEST_P(GraphsBuilder, CyclesAreRefusedWithTheCycle) {
  auto x = weir::zeros<int>(s, 16);
  weir::GraphBuilder b(device());
  auto a = b.launch(named("alpha"), Plus{}, weir::inout(x), 1);
  auto c = b.launch(named("beta"), Plus{}, weir::inout(x), 1);
  auto d = b.launch(named("gamma"), Plus{}, weir::inout(x), 1);
  b.depends(c, a);
  b.depends(d, c);
  EXPECT_TRUE(fails_with(
      Errc::graph_cycle, [&] { b.depends(a, d); },
      {"weir::GraphBuilder::depends", "alpha", "node 0 'alpha' -> node 1 'beta' -> node 2 'gamma' -> node 0 'alpha'"}));
  EXPECT_TRUE(fails_with(Errc::graph_cycle, [&] { b.depends(a, a); }, {"alpha"}));
  EXPECT_EQ(topology(b.build()), "alpha; beta<alpha; gamma<beta");  // nothing changed
}

TEST_P(GraphsBuilder, NodesOfOtherBuildersAreRefused) {
  weir::GraphBuilder b(device());
  weir::GraphBuilder other(device());
  const auto mine = b.empty();
  const auto theirs = other.empty();
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { b.depends(mine, theirs); }));
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { b.depends(mine, weir::Node()); }));
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { b.build().disable(theirs); }));
}

TEST_P(GraphsBuilder, BuildingTakesPartInNothing) {
  weir::GraphBuilder b(device());
  auto x = weir::zeros<int>(s, 16);
  b.launch(named("a"), Plus{}, weir::inout(x), 1);
  device().synchronize();  // allowed while a graph is being built
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 0));
}

ON_EVERY_DEVICE(GraphsBuilder);

}  // namespace
