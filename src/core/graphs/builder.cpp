// Graphs built by hand: a capture that forbids nothing, on a stream that nobody else knows.
#include <weir/graph_builder.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/dependencies.hpp"
#include "core/graphs/graph_state.hpp"

namespace weir {

using namespace detail;

struct GraphBuilder::State {
  State(Device device, Dependencies wanted)
      : stream(device, StreamOptions{.blocking = false, .name = "graph builder"}),
        inferred(wanted == Dependencies::inferred) {
    capture.by_hand = true;
    capture.id = next_graph_id();
    const std::lock_guard guard(captures_lock());
    recorder = &open_recorder(capture, stream);
    capture.origin = recorder;
  }
  ~State() {
    const std::lock_guard guard(captures_lock());
    close_recorders(capture, true);
  }
  GraphForm& form() { return capture.form; }

  Stream stream;
  Capture capture;
  Recorder* recorder = nullptr;
  bool inferred;
  std::size_t before = 0;  ///< nodes when the present call began
  Ancestors ancestors;     ///< with inferred dependencies
  bool ascending = true;   ///< every node depends on nodes before it only: no cycle is possible
  /// The dependencies of nodes that have too many to be looked through each time.
  std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>> many;
};

namespace {

/// Once, however often it is said.
void add_dependency(std::vector<std::uint32_t>& depends, std::uint32_t from,
                    std::unordered_map<std::uint32_t, std::unordered_set<std::uint32_t>>& many, std::uint32_t node) {
  constexpr std::size_t few = 64;
  if (depends.size() < few) {
    if (std::find(depends.begin(), depends.end(), from) != depends.end()) return;
  } else {
    auto& known = many[node];
    if (known.size() != depends.size()) known.insert(depends.begin(), depends.end());
    if (!known.insert(from).second) return;
  }
  depends.push_back(from);
}

}  // namespace

GraphBuilder::GraphBuilder(Device device, Dependencies dependencies, SourceLocation where) {
  enter("weir::GraphBuilder", where);
  state_ = std::make_unique<State>(device, dependencies);
}
GraphBuilder::GraphBuilder(Dependencies dependencies, SourceLocation where)
    : GraphBuilder((enter("weir::GraphBuilder", where), default_device(where)), dependencies, where) {}
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;
GraphBuilder::~GraphBuilder() = default;

StreamRef GraphBuilder::stream() const { return state_->stream; }

void GraphBuilder::begin(SourceLocation where) {
  enter("weir::GraphBuilder", where);
  if (!state_) throw Error(Errc::invalid_handle, "weir::GraphBuilder", "builder", "it was moved from", where);
  state_->recorder->tails.clear();
  state_->before = state_->form().nodes.size();
}

Node GraphBuilder::last(const char*, SourceLocation where) {
  State& state = *state_;
  const std::lock_guard guard(captures_lock());
  // An extent of 0 launches nothing, and an empty copy copies nothing: a node all the same, for others to depend on.
  if (state.form().nodes.size() == state.before) state.capture.add(*state.recorder, NodeKind::empty, nullptr, where);
  state.recorder->tails.clear();
  const auto node = static_cast<std::uint32_t>(state.before);
  if (state.inferred) infer_dependencies(state.form(), state.ancestors, node);
  return Node(state.capture.id, node);
}

Node GraphBuilder::graph(const Graph& child, SourceLocation where) {
  begin(where);
  child.launch(stream(), where);
  return last("weir::GraphBuilder::graph", where);
}

Node GraphBuilder::empty(SourceLocation where) {
  begin(where);
  return last("weir::GraphBuilder::empty", where);
}

Node GraphBuilder::record(EventRef event, SourceLocation where) {
  begin(where);
  record_external(stream(), event, where);
  return last("weir::GraphBuilder::record", where);
}

Node GraphBuilder::wait(EventRef event, SourceLocation where) {
  begin(where);
  wait_external(stream(), event, where);
  return last("weir::GraphBuilder::wait", where);
}

ControlScope GraphBuilder::control(const ArrayBase<std::int32_t>& condition, ControlKind kind, std::size_t bodies,
                                   SourceLocation where) {
  begin(where);
  return ControlScope(stream(), condition, kind, bodies, "weir::GraphBuilder: a conditional node", where);
}

Node GraphBuilder::end(ControlScope& scope, SourceLocation where) {
  begin(where);
  state_->before = scope.node();  // what it conflicts with is known only now that its bodies are
  return last("weir::GraphBuilder: a conditional node", where);
}

void GraphBuilder::depends(Node node, Node before, SourceLocation where) {
  constexpr const char* operation = "weir::GraphBuilder::depends";
  begin(where);
  State& state = *state_;
  auto& nodes = state.form().nodes;
  for (const Node one : {node, before}) {
    if (one.graph() == state.capture.id && one.index() < nodes.size()) continue;
    throw Error(Errc::invalid_handle, operation, "node",
                one.graph() == 0 ? "it is no node" : "it is of another builder", where);
  }
  const auto to = static_cast<std::uint32_t>(node.index());
  const auto from = static_cast<std::uint32_t>(before.index());
  if (nodes[to].parent != nodes[from].parent || nodes[to].branch != nodes[from].branch) {
    throw Error(Errc::invalid_value, operation,
                describe_node(state.form(), to) + " and " + describe_node(state.form(), from),
                "they are not in the same body: let the conditional or child node depend instead", where);
  }
  const bool ascending = state.ascending && from < to;
  if (!ascending) {
    const std::vector<std::uint32_t> cycle = path_between(state.form(), to, from);
    if (!cycle.empty())
      throw Error(Errc::graph_cycle, operation, describe_node(state.form(), to), cycle_text(state.form(), cycle),
                  where);
  }
  add_dependency(nodes[to].depends, from, state.many, to);
  state.ascending = ascending;
  if (state.inferred) state.ancestors.add(to, from);
}

Graph GraphBuilder::build(SourceLocation where) const {
  enter("weir::GraphBuilder::build", where);
  if (!state_) throw Error(Errc::invalid_handle, "weir::GraphBuilder::build", "builder", "it was moved from", where);
  GraphForm copy = state_->capture.form;
  return instantiate(std::move(copy), state_->capture.id, *state_->stream.state()->device, nullptr,
                     "weir::GraphBuilder::build", where);
}

}  // namespace weir
