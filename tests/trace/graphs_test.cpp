// What a timeline tells of graphs: the order of their nodes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

namespace {

using weir::trace::NodeRun;
using weir::trace::Session;
using weir::trace::Timeline;

// Long enough to take time by any clock.
struct Left {
  void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};
struct Right {
  void operator()(std::size_t i, weir::View<int> x) const { x[i] += 2; }
};
struct Join {
  void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y) const { y[i] += x[i]; }
};

/// "Join <- Left <- Right": a line for each node of the first replay.
std::vector<std::string> edges_of(const Timeline& timeline) {
  const auto name = [&](const NodeRun& node) {
    const std::string whole(timeline.name_of(node));
    return whole.substr(whole.rfind(':') + 1);
  };
  std::map<std::uint32_t, std::string> names;
  for (const NodeRun& node : timeline.nodes) names.emplace(node.node, name(node));
  std::vector<std::string> made;
  for (const NodeRun& node : timeline.nodes) {
    if (node.command != timeline.nodes.front().command) break;
    made.push_back(name(node));
    for (const std::uint32_t on : timeline.dependencies_of(node)) made.back() += " <- " + names[on];
  }
  std::sort(made.begin(), made.end());
  return made;
}

TEST(TraceGraphs, have_what_each_node_comes_behind) {
  constexpr std::size_t n = 200'000;
  const weir::Stream s(weir::device("cpu")), side(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, n), y = weir::zeros<int>(s, n);
  s.synchronize();
  const weir::Graph graph = capture(s, [&] {
    side.wait(s.record());
    launch(s, n, Left{}, inout(x));
    launch(side, n, Right{}, inout(y));
    s.wait(side.record());
    launch(s, n, Join{}, in(x), inout(y));
  });
  Session session;
  graph.launch(s);
  graph.launch(s);
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.nodes.size(), 6u);
  const std::vector<std::string> expected = {"Join <- Left <- Right", "Left", "Right"};
  EXPECT_EQ(edges_of(timeline), expected);
  std::ostringstream json;
  write_json(timeline, json);
  const Timeline read = weir::trace::parse_json(json.str());
  EXPECT_EQ(edges_of(read), expected);
  EXPECT_EQ(read.node_dependencies.size(), 4u) << "of two replays";
}

TEST(TraceGraphs, have_what_nodes_come_behind_that_stand_behind_nodes_which_take_no_time) {
  constexpr std::size_t n = 200'000;
  const weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, n), y = weir::zeros<int>(s, n);
  s.synchronize();
  weir::Event event;
  weir::GraphBuilder builder(weir::device("cpu"));
  const weir::Node left = builder.launch(n, Left{}, inout(x)), right = builder.launch(n, Right{}, inout(y));
  const weir::Node recorded = builder.record(event), both = builder.empty();
  const weir::Node join = builder.launch(n, Join{}, in(x), inout(y));
  builder.depends(recorded, left);
  builder.depends(both, {recorded, right});
  builder.depends(join, both);
  const weir::Graph graph = builder.build();
  Session session;
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(edges_of(session.stop()), (std::vector<std::string>{"Join <- Left <- Right", "Left", "Right"}));
}

}  // namespace
