// What observers are told about graphs: nodes when they are made, changes, and launches by their ids.
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// Keeps graphs as they are told.
class GraphRecorder : public weir::Observer {
 public:
  struct Node {
    weir::NodeKind kind;
    std::string name;
    std::uint32_t line;
    weir::StreamId stream;
    std::size_t op;
    std::vector<weir::Region> uses;
    std::vector<std::uint32_t> depends;
    std::int32_t parent;
    std::uint32_t branch, bodies;
    bool repeats, selects, enabled;
  };
  explicit GraphRecorder(weir::Watch watch = weir::Watch::everything) { weir::attach(*this, watch); }
  ~GraphRecorder() override { weir::detach(*this); }

  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex);
    if (const auto* launch = std::get_if<weir::GraphLaunch>(&c.op)) {
      launches.push_back(launch->id);
      uses.assign(c.uses.begin(), c.uses.end());
    }
    memory += std::holds_alternative<weir::Alloc>(c.op) || std::holds_alternative<weir::Free>(c.op);
    if (const auto* wait = std::get_if<weir::Wait>(&c.op)) waits.push_back(wait->record);
  }
  void capture_began(std::uint64_t graph, weir::StreamId, weir::SourceLocation) override { began.push_back(graph); }
  void capture_ended(std::uint64_t graph, bool kept, weir::SourceLocation) override { ended[graph] = kept; }
  void graph_made(const weir::GraphInfo& info) override {
    std::vector<Node>& nodes = graphs[info.id];
    nodes.clear();
    for (const weir::GraphNodeInfo& node : info.nodes) nodes.push_back(copy(node));
    ++made;
  }
  void graph_changed(std::uint64_t graph, std::uint32_t node, const weir::GraphNodeInfo& info) override {
    graphs[graph].at(node) = copy(info);
    ++changed;
  }
  void graph_gone(std::uint64_t graph) override { graphs.erase(graph); }

  static Node copy(const weir::GraphNodeInfo& node) {
    return {node.kind,
            std::string(node.name),
            node.where.line(),
            node.stream,
            node.op != nullptr ? node.op->index() : std::variant_npos,
            {node.uses.begin(), node.uses.end()},
            {node.depends.begin(), node.depends.end()},
            node.parent,
            node.branch,
            node.bodies,
            node.repeats,
            node.selects,
            node.enabled};
  }

  std::mutex mutex;
  std::map<std::uint64_t, std::vector<Node>> graphs;
  std::vector<std::uint64_t> launches, began, waits;
  std::vector<weir::Region> uses;
  std::map<std::uint64_t, bool> ended;
  int made = 0, changed = 0, memory = 0;
};

class ObservedGraphs : public AnyDevice {};
ON_EVERY_DEVICE(ObservedGraphs);

//  s: [fill x] ---> [plus z]     t: ---> [copy y <- x]
TEST_P(ObservedGraphs, a_captured_graph_tells_its_nodes_and_nothing_of_it_runs_before_its_launch) {
  weir::Stream s(device()), t(device());
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  auto z = weir::zeros<int>(s, 16);
  s.synchronize();
  GraphRecorder recorder;
  std::uint32_t line = 0;
  weir::Graph graph = weir::capture(s, [&] {
    weir::fill(s, x, 1);
    t.wait(s);
    line = __LINE__ + 1;
    weir::launch(s, named("plus"), Plus{}, weir::inout(z), 2);
    weir::copy(t, y, x);
    s.wait(t);
  });
  ASSERT_EQ(recorder.began.size(), 1u);
  const std::uint64_t id = recorder.began[0];
  EXPECT_TRUE(recorder.ended.at(id));
  EXPECT_TRUE(recorder.launches.empty());
  ASSERT_EQ(recorder.graphs.count(id), 1u);
  const std::vector<GraphRecorder::Node> nodes = recorder.graphs[id];
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].kind, weir::NodeKind::fill);
  EXPECT_EQ(nodes[1].kind, weir::NodeKind::launch);
  EXPECT_EQ(nodes[1].name, "plus");
  EXPECT_EQ(nodes[1].line, line);
  EXPECT_EQ(nodes[1].stream, s.id());
  EXPECT_EQ(nodes[2].stream, t.id());
  EXPECT_EQ(nodes[1].depends, std::vector<std::uint32_t>{0});
  EXPECT_EQ(nodes[2].depends, std::vector<std::uint32_t>{0});
  ASSERT_EQ(nodes[1].uses.size(), 1u);
  EXPECT_EQ(nodes[1].uses[0].buffer, z.storage()->buffer);
  EXPECT_EQ(nodes[1].uses[0].access, weir::Access::read_write);
  EXPECT_EQ(nodes[2].uses.size(), 2u);
  graph.launch(s);
  graph.launch(t);
  EXPECT_EQ(recorder.launches, (std::vector<std::uint64_t>{id, id}));
  EXPECT_EQ(recorder.uses.size(), 4u);
  EXPECT_EQ(recorder.made, 1);
  s.synchronize();
  t.synchronize();
  graph = {};
  EXPECT_TRUE(recorder.graphs.empty());
}

TEST_P(ObservedGraphs, memory_made_in_a_capture_is_nodes_and_no_plain_allocation) {
  weir::Stream s(device());
  GraphRecorder recorder;
  const weir::Graph graph = weir::capture(s, [&] {
    const auto x = weir::zeros<int>(s, 16);
    void* raw = weir::default_pool(device()).allocate(s, 100);
    weir::default_pool(device()).free(s, raw);
  });
  EXPECT_EQ(recorder.memory, 0);
  std::vector<weir::NodeKind> kinds;
  for (const auto& node : recorder.graphs.begin()->second) kinds.push_back(node.kind);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), weir::NodeKind::alloc), 2);
  EXPECT_EQ(std::count(kinds.begin(), kinds.end(), weir::NodeKind::free), 2);
}

TEST_P(ObservedGraphs, a_capture_that_is_discarded_becomes_no_graph) {
  weir::Stream s(device());
  GraphRecorder recorder;
  { const weir::ScopedCapture capture(s); }
  ASSERT_EQ(recorder.began.size(), 1u);
  EXPECT_FALSE(recorder.ended.at(recorder.began[0]));
  EXPECT_TRUE(recorder.graphs.empty());
}

TEST_P(ObservedGraphs, R157_updates_and_enabling_are_told_and_count_from_the_next_launch_on) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  GraphRecorder recorder;
  weir::GraphBuilder builder(device());
  const auto node = builder.launch(named("plus"), Plus{}, weir::inout(x), 1);
  const auto other = builder.fill(y, 1);
  builder.depends(other, node);
  weir::Graph graph = builder.build();
  ASSERT_EQ(recorder.graphs.size(), 1u);
  auto& nodes = recorder.graphs.begin()->second;
  EXPECT_EQ(nodes[1].depends, std::vector<std::uint32_t>{0});
  EXPECT_EQ(nodes[0].stream, 0u);
  graph.launch(s);
  EXPECT_EQ(recorder.uses[0].buffer, x.storage()->buffer);
  EXPECT_EQ(recorder.uses.size(), 2u);
  graph.update(node, weir::inout(y), 1);
  EXPECT_EQ(recorder.changed, 1);
  EXPECT_EQ(nodes[0].uses[0].buffer, y.storage()->buffer);
  graph.disable(other);
  EXPECT_EQ(recorder.changed, 2);
  EXPECT_FALSE(nodes[1].enabled);
  graph.launch(s);
  ASSERT_EQ(recorder.uses.size(), 1u);
  EXPECT_EQ(recorder.uses[0].buffer, y.storage()->buffer);
  graph.enable(other);
  EXPECT_TRUE(nodes[1].enabled);
  s.synchronize();
}

TEST_P(ObservedGraphs, a_graph_that_is_older_than_its_observer_is_told_before_its_launch) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  weir::GraphBuilder builder(device());
  builder.launch(named("plus"), Plus{}, weir::inout(x), 1);
  const weir::Graph graph = builder.build();
  GraphRecorder recorder;
  EXPECT_TRUE(recorder.graphs.empty());
  graph.launch(s);
  ASSERT_EQ(recorder.graphs.size(), 1u);
  EXPECT_EQ(recorder.graphs.begin()->first, recorder.launches.at(0));
  EXPECT_EQ(recorder.graphs.begin()->second.at(0).name, "plus");
  graph.launch(s);
  EXPECT_EQ(recorder.made, 1);
  GraphRecorder late;
  graph.launch(s);
  EXPECT_EQ(late.made, 1);
  s.synchronize();
}

//  child: [plus]     if: body {[plus]}
TEST_P(ObservedGraphs, child_graphs_and_bodies_are_told_with_their_parents) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  const auto yes = weir::ones<std::int32_t>(s, 1);
  s.synchronize();
  weir::GraphBuilder inner(device());
  inner.launch(named("inner"), Plus{}, weir::inout(x), 1);
  const weir::Graph child = inner.build();
  GraphRecorder recorder;
  weir::GraphBuilder builder(device());
  const weir::Node first = builder.graph(child);
  const weir::Node second = builder.while_(yes, [&] { builder.launch(named("body"), Plus{}, weir::inout(x), 1); });
  builder.depends(second, first);
  const weir::Graph graph = builder.build();
  const auto& nodes = recorder.graphs.begin()->second;
  const auto find = [&](const std::string& name) {
    return *std::find_if(nodes.begin(), nodes.end(), [&](const auto& node) { return node.name == name; });
  };
  EXPECT_EQ(nodes[0].kind, weir::NodeKind::graph);
  EXPECT_EQ(find("inner").parent, 0);
  const auto control = std::find_if(nodes.begin(), nodes.end(),
                                    [](const auto& node) { return node.kind == weir::NodeKind::conditional; });
  ASSERT_NE(control, nodes.end());
  EXPECT_TRUE(control->repeats);
  EXPECT_EQ(control->bodies, 1u);
  ASSERT_EQ(control->uses.size(), 1u);
  EXPECT_EQ(control->uses[0].buffer, yes.storage()->buffer);
  EXPECT_EQ(find("body").parent, control - nodes.begin());
}

TEST_P(ObservedGraphs, bodies_of_a_switch_are_told_by_their_numbers) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  const auto which = weir::ones<std::int32_t>(s, 1);
  s.synchronize();
  GraphRecorder recorder;
  weir::GraphBuilder builder(device());
  builder.switch_(
      which, [&] { builder.launch(named("zero"), Plus{}, weir::inout(x), 1); },
      [&] { builder.launch(named("one"), Plus{}, weir::inout(x), 2); });
  const weir::Graph graph = builder.build();
  const auto& nodes = recorder.graphs.begin()->second;
  ASSERT_EQ(nodes.size(), 3u);
  for (const auto& node : nodes) {
    EXPECT_EQ(node.selects, node.kind == weir::NodeKind::conditional);
    EXPECT_FALSE(node.repeats);
    if (node.kind == weir::NodeKind::conditional) {
      EXPECT_EQ(node.bodies, 2u);
    } else {
      EXPECT_EQ(node.branch, node.name == "one" ? 1u : 0u) << node.name;
    }
  }
}

//  a graph that records e; s.wait(e) takes that record
TEST_P(ObservedGraphs, R143_a_record_in_a_graph_counts_when_it_is_launched) {
  weir::Stream s(device()), t(device());
  const weir::Event e(device());
  GraphRecorder recorder;
  weir::GraphBuilder builder(device());
  builder.record(e);
  const weir::Graph graph = builder.build();
  t.wait(e);
  s.record(e);
  graph.launch(s);
  t.wait(e);
  EXPECT_EQ(recorder.waits, (std::vector<std::uint64_t>{0, 2}));
  s.synchronize();
  t.synchronize();
}

}  // namespace
}  // namespace weir_test
