// What one graph's change leaves alone: the other graphs of its builder, its children and parents, files, pending replays.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

class GraphsSharing : public AnyDevice {
 protected:
  weir::Stream s{device()};
  weir::Array<int> x = weir::zeros<int>(s, 16);
  weir::Array<int> z = weir::zeros<int>(s, 16);
  weir::Array<std::int32_t> yes = weir::full(s, 1, std::int32_t{1});
  void SetUp() override {
    AnyDevice::SetUp();
    s.synchronize();
  }
  int sum_of_replay(const weir::Graph& graph) {
    weir::fill(s, x, 0);
    graph.launch(s);
    return x.to_host()[15];
  }
  /// What its replays give, and those of a graph that is made of it now: the device's nodes may know what the graph itself has lost.
  int sum_of(const weir::Graph& graph) {
    const int sum = sum_of_replay(graph);
    EXPECT_EQ(sum_of_replay(parent_of(graph)), sum) << "as a child";
    return sum;
  }
  /// Changes the launch "add" of a graph, twice: what belongs to nobody else after the first time may be changed in place. All
  /// changes are of one line, as one in place is.
  void add_instead(weir::Graph& graph, int by, const char* name = "add") {
    const weir::Node node = graph.find(name);
    for (const int value : {1000, by}) graph.update(node, Plus{}, weir::inout(x), value);
  }
  weir::Graph adding(int by, const char* name = "add") {
    return weir::capture(s, [&] { weir::launch(s, named(name), Plus{}, weir::inout(x), by); });
  }
  weir::Graph parent_of(const weir::Graph& child) {
    return weir::capture(s, [&] { child.launch(s); });
  }
};

TEST_P(GraphsSharing, graphs_of_one_builder) {
  std::optional<weir::GraphBuilder> b(device());
  auto node = b->launch(named("add"), Plus{}, weir::inout(x), 1);
  weir::Graph first = b->build();
  weir::Graph second = b->build();
  first.update(node, weir::inout(x), 2);
  EXPECT_EQ(sum_of(first), 2);
  EXPECT_EQ(sum_of(second), 1);
  first.update(node, weir::inout(x), 3);
  EXPECT_EQ(sum_of(first), 3);
  EXPECT_EQ(sum_of(second), 1);
  EXPECT_EQ(sum_of(parent_of(second)), 1);
  second.update(node, weir::inout(x), 4);
  EXPECT_EQ(sum_of(first), 3);
  EXPECT_EQ(sum_of(second), 4);
  const weir::Graph third = b->build();
  EXPECT_EQ(sum_of(third), 1);
  b.reset();
  first.update(node, weir::inout(x), 5);
  EXPECT_EQ(sum_of(first), 5);
  EXPECT_EQ(sum_of(second), 4);
  EXPECT_EQ(sum_of(third), 1);
}

// A graph of the builder that comes later has what the builder was told, and the present one goes on as it was.
TEST_P(GraphsSharing, a_builder_and_its_graph) {
  weir::GraphBuilder b(device());
  auto node = b.launch(named("add"), Plus{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  for (int by = 2; by < 6; ++by) {
    graph.update(node, weir::inout(x), by);
    EXPECT_EQ(sum_of(b.build()), 1);
    EXPECT_EQ(sum_of(graph), by);
  }
}

TEST_P(GraphsSharing, a_captured_graph_and_its_parents) {
  weir::Graph child = adding(1);
  weir::Graph parent = parent_of(child);
  add_instead(child, 2);
  EXPECT_EQ(sum_of(child), 2);
  EXPECT_EQ(sum_of(parent), 1);
  weir::Graph later = parent_of(child);
  add_instead(parent, 3);
  EXPECT_EQ(sum_of(child), 2);
  EXPECT_EQ(sum_of(parent), 3);
  EXPECT_EQ(sum_of(later), 2);
  add_instead(child, 4);
  EXPECT_EQ(sum_of(child), 4);
  EXPECT_EQ(sum_of(parent), 3);
  EXPECT_EQ(sum_of(later), 2);
}

TEST_P(GraphsSharing, a_child_twice_in_one_parent) {
  weir::Graph child = adding(1);
  weir::Graph parent = weir::capture(s, [&] {
    child.launch(s);
    child.launch(s);
  });
  add_instead(parent, 10);  // the first of them
  EXPECT_EQ(sum_of(parent), 11);
  EXPECT_EQ(sum_of(child), 1);
  add_instead(child, 5);
  EXPECT_EQ(sum_of(parent), 11);
}

TEST_P(GraphsSharing, children_of_children) {
  weir::Graph child = adding(1);
  weir::Graph parent = parent_of(child);
  weir::Graph grandparent = parent_of(parent);
  add_instead(grandparent, 3);
  EXPECT_EQ(sum_of(child), 1);
  EXPECT_EQ(sum_of(parent), 1);
  EXPECT_EQ(sum_of(grandparent), 3);
  add_instead(child, 5);
  EXPECT_EQ(sum_of(child), 5);
  EXPECT_EQ(sum_of(parent), 1);
  EXPECT_EQ(sum_of(grandparent), 3);
  add_instead(parent, 7);
  EXPECT_EQ(sum_of(child), 5);
  EXPECT_EQ(sum_of(parent), 7);
  EXPECT_EQ(sum_of(grandparent), 3);
}

TEST_P(GraphsSharing, children_of_builders) {
  weir::Graph child = adding(1);
  weir::GraphBuilder b(device());
  b.graph(child);
  weir::Graph first = b.build();
  weir::Graph second = b.build();
  add_instead(child, 2);
  EXPECT_EQ(sum_of(first), 1);
  EXPECT_EQ(sum_of(second), 1);
  add_instead(first, 3);
  EXPECT_EQ(sum_of(child), 2);
  EXPECT_EQ(sum_of(second), 1);
}

TEST_P(GraphsSharing, bodies_of_conditional_nodes) {
  weir::GraphBuilder b(device());
  b.if_(yes, [&](weir::GraphBuilder& body) { body.launch(named("add"), Plus{}, weir::inout(x), 1); });
  weir::Graph first = b.build();
  weir::Graph second = b.build();
  weir::Graph parent = parent_of(first);
  add_instead(first, 2);
  EXPECT_EQ(sum_of(first), 2);
  EXPECT_EQ(sum_of(second), 1);
  EXPECT_EQ(sum_of(parent), 1);
  add_instead(parent, 3);
  EXPECT_EQ(sum_of(first), 2);
  EXPECT_EQ(sum_of(second), 1);
  EXPECT_EQ(sum_of(parent), 3);
}

TEST_P(GraphsSharing, a_child_in_the_body_of_a_conditional_node) {
  weir::Graph child = adding(1);
  weir::Graph parent = weir::capture(s, [&] { weir::capture_if(s, yes, [&] { child.launch(s); }); });
  add_instead(child, 2);
  EXPECT_EQ(sum_of(child), 2);
  EXPECT_EQ(sum_of(parent), 1);
  add_instead(parent, 3);
  EXPECT_EQ(sum_of(child), 2);
  EXPECT_EQ(sum_of(parent), 3);
}

TEST_P(GraphsSharing, saved_and_loaded_graphs) {
  weir::register_kernel<Plus>("test.sharing.plus");
  const auto path = std::filesystem::temp_directory_path() / (std::to_string(getpid()) + ".sharing");
  weir::Graph graph = adding(1);
  weir::save(graph, path, {{"x", x}});
  weir::LoadedGraph first = weir::load_graph(path, device());
  weir::LoadedGraph second = weir::load_graph(path, device());
  std::filesystem::remove(path);
  const auto sum = [&](weir::LoadedGraph& loaded) {
    auto array = loaded.array<int>("x");
    weir::fill(s, array, 0);
    loaded.graph.launch(s);
    return array.to_host()[15];
  };
  add_instead(graph, 2);
  EXPECT_EQ(sum_of(graph), 2);
  EXPECT_EQ(sum(first), 1);
  auto array = first.array<int>("x");
  for (const int by : {30, 3}) first.graph.update(first.graph.find("add"), Plus{}, weir::inout(array), by);
  EXPECT_EQ(sum(first), 3);
  EXPECT_EQ(sum(second), 1);
  EXPECT_EQ(sum_of(graph), 2);
  const weir::Graph parent = parent_of(first.graph);
  for (const int by : {40, 4}) first.graph.update(first.graph.find("add"), Plus{}, weir::inout(array), by);
  const weir::Graph grandparent = parent_of(parent);
  for (const weir::Graph* earlier : {&parent, &grandparent}) {
    weir::fill(s, array, 0);
    earlier->launch(s);
    EXPECT_EQ(array.to_host()[15], 3);
  }
  EXPECT_EQ(sum(first), 4);
}

//  s: [hold ......][first][second][parent]   and changes of all of them meanwhile
TEST_P(GraphsSharing, pending_replays_of_each) {
  weir::GraphBuilder b(device());
  auto node = b.launch(named("add"), Plus{}, weir::inout(x), 1);
  weir::Graph first = b.build();
  weir::Graph second = b.build();
  weir::Graph parent = parent_of(first);
  weir::fill(s, x, 0);
  s.synchronize();
  Gate gate;
  gate.hold(s);
  const auto launch_all = [&] {
    first.launch(s);
    second.launch(s);
    parent.launch(s);
  };
  launch_all();
  first.update(node, weir::inout(x), 10);
  launch_all();
  first.update(node, weir::inout(x), 100);
  second.update(node, weir::inout(x), 20);
  launch_all();
  first.update(node, weir::inout(x), 0);
  second.update(node, weir::inout(x), 0);
  gate.open();
  EXPECT_EQ(x.to_host()[15], (1 + 1 + 1) + (10 + 1 + 1) + (100 + 20 + 1));
}

TEST_P(GraphsSharing, other_changes) {
  auto y = weir::full<int>(s, 16, 5);
  int calls = 0;
  int others = 0;
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto add = b.launch(named("add"), Plus{}, weir::inout(x), 1);
  const auto copy = b.copy(z, y);
  const auto fill = b.fill(y, 6);
  const auto call = b.host_call([&calls] { ++calls; });
  b.depends(fill, copy);
  weir::Graph changed = b.build();
  weir::Graph other = b.build();
  weir::Graph parent = parent_of(changed);
  changed.resize(add, 4);
  changed.update_copy(copy, y, z);
  changed.update_fill(fill, z, 7);
  changed.update_host_call(call, [&others] { ++others; });
  changed.disable(call);
  for (const weir::Graph* graph : {&other, &parent}) {
    weir::fill(s, y, 5);
    weir::fill(s, z, 0);
    EXPECT_EQ(sum_of_replay(*graph), 1);
    EXPECT_EQ(z.to_host()[0], 5);
    EXPECT_EQ(y.to_host()[0], 6);
  }
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(others, 0);
  weir::fill(s, y, 5);
  weir::fill(s, z, 8);
  EXPECT_EQ(sum_of_replay(changed), 0);
  EXPECT_EQ(y.to_host()[0], 8);
  EXPECT_EQ(z.to_host()[0], 7);
  changed.enable(call);
  changed.launch(s);
  s.synchronize();
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(others, 1);
}

// What a graph's arrays are kept alive by is not another graph's change.
TEST_P(GraphsSharing, arrays_of_the_other_graph_stay) {
  weir::GraphBuilder b(device());
  std::optional<weir::Array<int>> from(weir::full<int>(s, 16, 3));
  s.synchronize();
  const auto copy = b.copy(z, *from);
  weir::Graph changed = b.build();
  weir::Graph other = b.build();
  { weir::GraphBuilder gone(std::move(b)); }
  from.reset();
  changed.update_copy(copy, z, x);
  weir::Stream t(device());
  auto grabbed = weir::full<int>(t, 16, -1);
  t.synchronize();
  other.launch(s);
  EXPECT_EQ(z.to_host(), std::vector<int>(16, 3));
}

ON_EVERY_DEVICE(GraphsSharing);

}  // namespace
