// Graphs: captured, built, changed, replayed and dropped, by many threads at once.
#include "soak.hpp"

namespace weir_soak {

namespace {

/// Where another thread synchronised the device meanwhile, there is no graph.
template <class Body>
bool captured(Worker& w, const weir::Stream& s, weir::Graph& graph, const Body& body) {
  try {
    graph = weir::capture(s, body);
    return true;
  } catch (const weir::Error& error) {
    if (error.errc() != weir::Errc::capture_invalidated) throw;
    ++w.soak.voided;
    return false;
  }
}

void capture_and_replay(Worker& w) {
  const weir::Device device = w.device();
  const weir::Stream s(device, {.blocking = false});
  const weir::Stream t(device, {.blocking = false});
  auto x = weir::zeros<int>(s, 1 + w.below(3000));
  auto y = weir::zeros<int>(s, x.size());
  s.synchronize();
  weir::Graph graph;
  const bool made = captured(w, s, graph, [&] {
    weir::launch(s, weir::Extent{.size = x.size(), .name = "first"}, Add{}, weir::inout(x), 1);
    t.wait(s.record());
    weir::launch(t, x.size(), Add{}, weir::inout(y), 2);
    s.wait(t.record());
    weir::copy(s, x, y);
  });
  if (!made) return;
  const int replays = static_cast<int>(w.below(5));
  for (int i = 0; i < replays; ++i) graph.launch(s);
  if (w.one_in(2)) {
    graph.update(graph.find("first"), Add{}, weir::inout(y), 10);
    graph.launch(s);
    graph = {};  // while it is pending
    s.synchronize();
    expect_all(s, y, 2 * replays + 12, "a graph that was changed");
    return;
  }
  expect_all(s, x, 2 * replays, "a captured graph");
}

void build(Worker& w) {
  const weir::Device device = w.device();
  const weir::Stream s(device, {.blocking = false});
  auto x = weir::zeros<int>(s, 1 + w.below(3000));
  auto y = weir::empty<int>(s, x.size());
  s.synchronize();
  weir::GraphBuilder b(device, weir::Dependencies::inferred);
  b.fill(y, 1);
  const auto add = b.launch(x.size(), Add{}, weir::inout(y), 1);
  b.copy(x, y);
  weir::Graph graph = b.build();
  weir::Graph other = b.build();
  const weir::Stream r(device, {.blocking = w.one_in(4)});
  graph.launch(r);
  expect_all(r, x, 2, "a graph that was built");
  graph.update(add, weir::inout(y), 5);
  other.launch(r);
  r.synchronize();
  expect_all(r, x, 2, "another graph of the same builder");
  if (w.one_in(2)) {
    weir::GraphBuilder parent(device);
    parent.graph(graph);
    weir::Graph whole = parent.build();
    whole.launch(r);
  } else {
    graph.launch(r);
  }
  r.synchronize();
  expect_all(r, x, 6, "a graph that was built, and changed");
}

void loop(Worker& w) {
  const weir::Device device = w.device();
  const weir::Stream s(device, {.blocking = false});
  auto x = weir::zeros<int>(s, 100);
  auto left = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  weir::GraphBuilder b(device);
  b.while_(left, [&] {
    b.launch(x.size(), Add{}, weir::inout(x), 1);
    b.launch(1, Add{}, weir::inout(left), -1);
  });
  weir::Graph graph = b.build();
  const int turns = static_cast<int>(w.below(6));
  weir::fill(s, left, turns);
  graph.launch(s);
  if (w.one_in(2)) graph = {};
  s.synchronize();
  expect_all(s, x, turns, "a loop");
}

/// Replays in a stream whose host function is still to run, and may fail.
void guarded(Worker& w) {
  const weir::Device device = w.device();
  const weir::Stream s(device, {.blocking = false});
  auto x = weir::zeros<int>(s, 100);
  s.synchronize();
  weir::GraphBuilder b(device);
  b.launch(x.size(), Add{}, weir::inout(x), 1);
  weir::Graph graph = b.build();
  int calls = 0;
  weir::host_call(s, [&calls] { ++calls; });
  graph.launch(s);
  weir::host_call(s, [&calls] { ++calls; });
  graph.launch(s);
  s.synchronize();
  require(calls == 2, "host functions between replays");
  expect_all(s, x, 2, "replays between host functions");
}

void replay_shared(Worker& w) {
  SharedGraph& shared = *w.soak.graphs[w.device_number()];
  if (w.one_in(8)) {
    const std::lock_guard guard(shared.change);
    shared.graph.update(shared.spare_node, Add{}, weir::inout(shared.spare), static_cast<int>(w.below(5)));
  }
  const weir::Stream s(shared.counts.device(), {.blocking = false});
  for (std::uint64_t i = w.below(4); i > 0; --i) {
    shared.graph.launch(s);
    ++shared.replays;
  }
}

}  // namespace

SharedGraph::SharedGraph(weir::Device device)
    : stream(device, {.blocking = false}), counts(weir::zeros<int>(stream, 256)), spare(weir::zeros<int>(stream, 256)) {
  stream.synchronize();
  weir::GraphBuilder b(device);
  b.launch(counts.size(), Add{}, weir::inout(counts), 1);
  spare_node = b.launch(spare.size(), Add{}, weir::inout(spare), 1);
  graph = b.build();
}

const std::vector<Action>& graph_actions() {
  static const std::vector<Action> all{{"capture_and_replay", &capture_and_replay},
                                       {"build", &build},
                                       {"loop", &loop},
                                       {"guarded", &guarded},
                                       {"replay_shared", &replay_shared}};
  return all;
}

}  // namespace weir_soak
