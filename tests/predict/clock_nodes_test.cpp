// When the nodes of replays ran on simulated devices: observers are told the model's times, and never the host's.
#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/gate.hpp"

using namespace weir_test;

namespace {

struct Nothing {
  void operator()(std::size_t) const {}
};

weir::Extent named(const char* name) { return {.size = 1, .name = name}; }

double ms_between(std::chrono::steady_clock::time_point begin, std::chrono::steady_clock::time_point end) {
  return std::chrono::duration<double, std::milli>(end - begin).count();
}

/// Nodes of launches, by their names in the graph.
class Nodes final : public weir::Observer {
 public:
  struct Node {
    std::string name;
    weir::StreamId stream;
    weir::Span span;
  };
  struct Launch {
    std::vector<Node> nodes;  ///< as told
    std::optional<weir::Span> span;
  };

  Nodes() { weir::attach(*this, weir::Watch::times | weir::Watch::commands | weir::Watch::graphs); }
  ~Nodes() override { detach(); }
  void detach() {
    if (std::exchange(attached_, false)) weir::detach(*this);
  }

  void graph_made(const weir::GraphInfo& graph) override {
    const std::lock_guard lock(mutex_);
    std::vector<std::string>& names = names_[graph.id];
    names.clear();
    for (const weir::GraphNodeInfo& node : graph.nodes) names.emplace_back(node.name);
  }
  void submitted(const weir::Command& command) override {
    const auto* launch = std::get_if<weir::GraphLaunch>(&command.op);
    if (launch == nullptr) return;
    const std::lock_guard lock(mutex_);
    places_[command.id] = {launches_.size(), launch->id};
    launches_.emplace_back();
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (const auto found = places_.find(id); found != places_.end()) launches_[found->second.first].span = span;
  }
  void ran_node(weir::CommandId id, weir::StreamId stream, std::uint32_t node, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    const auto [place, graph] = places_.at(id);
    EXPECT_FALSE(launches_[place].span) << "nodes are told before their launch";
    launches_[place].nodes.push_back({names_.at(graph).at(node), stream, span});
  }

  /// As if told in this order, once all of them have been told.
  std::vector<Launch> launches(std::size_t count) {
    const auto told = [&] {
      const std::lock_guard lock(mutex_);
      return launches_.size() == count &&
             std::all_of(launches_.begin(), launches_.end(), [](const Launch& one) { return one.span.has_value(); });
    };
    EXPECT_TRUE(eventually(told));
    const std::lock_guard lock(mutex_);
    return launches_;
  }

 private:
  bool attached_ = true;
  std::mutex mutex_;
  std::map<std::uint64_t, std::vector<std::string>> names_;
  std::map<weir::CommandId, std::pair<std::size_t, std::uint64_t>> places_;  ///< of launches: theirs, and the graph
  std::vector<Launch> launches_;
};

/// In milliseconds since the first node began.
struct Times {
  const char* name;
  double begin, end;
};

void expect(const Nodes::Launch& launch, const std::vector<Times>& expected) {
  ASSERT_TRUE(launch.span);
  ASSERT_EQ(launch.nodes.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const Nodes::Node& node = launch.nodes[i];
    SCOPED_TRACE(node.name);
    EXPECT_EQ(node.name, expected[i].name);
    EXPECT_EQ(node.span.source, weir::Span::Source::simulated);
    EXPECT_EQ(node.span.called, launch.span->called);
    EXPECT_NEAR(ms_between(launch.nodes[0].span.begin, node.span.begin), expected[i].begin, 0.05);
    EXPECT_NEAR(ms_between(launch.nodes[0].span.begin, node.span.end), expected[i].end, 0.05);
    EXPECT_GE(node.span.begin, launch.span->begin);
    EXPECT_LE(node.span.end, launch.span->end);
  }
}

}  // namespace

//  a -> b -> (c -> d) -> e      c and d: a child graph
//    -> f -> off ------->
TEST(SimulatedNodes, of_replays_have_their_times_by_the_device) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  const std::map<const char*, int> costs{{"a", 1}, {"b", 2}, {"c", 1}, {"d", 3}, {"e", 1}, {"f", 4}, {"off", 9}};
  for (const auto& [name, ms] : costs) weir::sim::set_cost(name, {.ns = ms * 1e6});
  const weir::Graph child = weir::capture(s, [&] {
    weir::launch(s, named("c"), Nothing{});
    weir::launch(s, named("d"), Nothing{});
  });
  weir::GraphBuilder builder(device);
  weir::Event event(device);
  const weir::Node end = builder.launch(named("e"), Nothing{});
  const weir::Node a = builder.launch(named("a"), Nothing{}), b = builder.launch(named("b"), Nothing{});
  const weir::Node inner = builder.graph(child), f = builder.launch(named("f"), Nothing{});
  const weir::Node off = builder.launch(named("off"), Nothing{}), record = builder.record(event);
  const weir::Node nothing = builder.empty(), wait = builder.wait(event);
  builder.depends(b, a);
  builder.depends(f, a);
  builder.depends(inner, b);
  builder.depends(off, f);
  builder.depends(record, off);
  builder.depends(nothing, record);
  builder.depends(wait, nothing);
  builder.depends(end, {inner, wait});
  std::optional<weir::Graph> graph(builder.build());
  graph->disable(off);
  s.synchronize();
  Nodes nodes;
  graph->launch(s);
  graph->disable(f);
  graph->enable(off);
  graph->launch(s);
  graph.reset();
  s.synchronize();
  const std::vector<Nodes::Launch> launches = nodes.launches(2);
  expect(launches[0], {{"a", 0, 1}, {"b", 1, 3}, {"c", 3, 4}, {"f", 1, 5}, {"d", 4, 7}, {"e", 7, 8}});
  expect(launches[1], {{"a", 0, 1}, {"b", 1, 3}, {"c", 3, 4}, {"d", 4, 7}, {"off", 1, 10}, {"e", 10, 11}});
  EXPECT_GE(launches[1].span->begin, launches[0].span->end);
}

TEST(SimulatedNodes, that_values_decide_about_are_told_as_the_model_has_them) {
  const weir::Device device = weir::device("sim:cc30");
  const weir::Stream s(device);
  const auto no = weir::zeros<std::int32_t>(s, 1);
  weir::sim::set_cost("turn", {.ns = 2e6});
  weir::sim::set_cost("then", {.ns = 1e6});
  weir::sim::set_cost("else", {.ns = 5e6});
  weir::GraphBuilder builder(device);
  const weir::Node loop = builder.while_(no, [&] { builder.launch(named("turn"), Nothing{}); });
  const weir::Node branch = builder.if_(
      no, [&] { builder.launch(named("then"), Nothing{}); }, [&] { builder.launch(named("else"), Nothing{}); });
  builder.depends(branch, loop);
  const weir::Graph graph = builder.build();
  s.synchronize();
  Nodes nodes;
  graph.launch(s);
  s.synchronize();
  expect(nodes.launches(1)[0], {{"turn", 0, 2}, {"then", 2, 3}});
}

TEST(SimulatedNodes, of_one_profile_in_a_stream_of_another_have_the_times_of_their_own) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device), t(weir::device("sim:cc30"));
  weir::sim::set_cost("guest", {.ns = 2e6});
  const weir::Graph graph = weir::capture(s, [&] {
    weir::launch(s, named("guest"), Nothing{});
    weir::launch(s, named("guest"), Nothing{});
  });
  weir::synchronize();
  Nodes nodes;
  graph.launch(t);
  t.synchronize();
  const Nodes::Launch launch = nodes.launches(1)[0];
  expect(launch, {{"guest", 0, 2}, {"guest", 2, 4}});
  for (const Nodes::Node& node : launch.nodes) EXPECT_EQ(node.stream, weir::StreamRef(t).id());
}

// The work goes on when its stream is dropped: for real, at times that are none of the device's.
TEST(SimulatedNodes, of_streams_that_are_dropped_are_told_by_no_other_clock) {
  const weir::Device device = weir::device("sim:h200");
  std::optional<weir::Stream> s(std::in_place, device);
  weir::sim::set_cost("late", {.ns = 3e6});
  Gate gate;
  const weir::Graph graph = weir::capture(*s, [&] {
    gate.hold_by_host_call(*s);
    weir::launch(*s, named("late"), Nothing{});
  });
  s->synchronize();
  Nodes nodes;
  graph.launch(*s);
  EXPECT_TRUE(eventually([&] { return gate.begun() > 0; }));
  s.reset();
  gate.open();
  device.synchronize();
  const Nodes::Launch launch = nodes.launches(1)[0];
  ASSERT_EQ(launch.nodes.size(), 2u);
  EXPECT_EQ(launch.nodes[1].name, "late");
  for (const Nodes::Node& node : launch.nodes) EXPECT_EQ(node.span.source, weir::Span::Source::simulated);
  EXPECT_NEAR(ms_between(launch.nodes[1].span.begin, launch.nodes[1].span.end), 3, 0.05);
}
