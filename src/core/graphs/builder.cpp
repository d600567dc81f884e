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
#include "thread_safety.hpp"

namespace weir {

using namespace detail;

struct GraphBuilder::State {
  State(Device device, Dependencies wanted)
      : stream(device, StreamOptions{.blocking = false, .name = "graph builder"}),
        inferred(wanted == Dependencies::inferred) {
    capture.by_hand = true;
    capture.id = next_graph_id();
    const LockGuard guard(captures_lock());
    recorder = &open_recorder(capture, stream);
    capture.origin = recorder;
  }
  ~State() {
    const LockGuard guard(captures_lock());
    close_recorders(capture, true);
  }
  GraphForm& form() { return capture.form; }
  void take_last_node_back() noexcept;
  void depend(std::uint32_t to, std::uint32_t from, SourceLocation where);

  Stream stream;
  Capture capture;
  Recorder* recorder = nullptr;
  bool inferred;
  Ancestors ancestors;    ///< with inferred dependencies
  bool ascending = true;  ///< every node depends on nodes before it only: no cycle is possible
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
  state_ = new State(device, dependencies);
}
GraphBuilder::GraphBuilder(Dependencies dependencies, SourceLocation where)
    : GraphBuilder((enter("weir::GraphBuilder", where), default_device(where)), dependencies, where) {}
GraphBuilder::GraphBuilder(GraphBuilder&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
GraphBuilder& GraphBuilder::operator=(GraphBuilder&& other) noexcept {
  if (this != &other) delete std::exchange(state_, std::exchange(other.state_, nullptr));
  return *this;
}
GraphBuilder::~GraphBuilder() { delete state_; }

StreamRef GraphBuilder::stream() const { return state_->stream; }

GraphBuilder::State& GraphBuilder::begin(const char* operation, SourceLocation where) {
  enter(operation, where);
  if (!state_) throw Error(Errc::invalid_handle, operation, "builder", "it was moved from", where);
  state_->recorder->tails.clear();
  return *state_;
}

Stream GraphBuilder::stream_of_capture(const char* operation, SourceLocation where) {
  begin(operation, where);
  return Stream(stream().device(where), StreamOptions{.blocking = false, .name = "graph builder"}, where);
}

GraphBuilder::Call::Call(GraphBuilder& builder, const char* operation, SourceLocation where)
    : state_(builder.begin(operation, where)), before_(state_.form().nodes.size()), where_(where) {}

Node GraphBuilder::Call::node() {
  const LockGuard guard(captures_lock());
  // An extent of 0 launches nothing, and an empty copy copies nothing: a node all the same, for others to depend on.
  if (state_.form().nodes.size() == before_) {
    state_.capture.add(*state_.recorder, NodeKind::empty, nullptr, where_);
  }
  state_.recorder->tails.clear();
  const auto node = static_cast<std::uint32_t>(before_);
  // What a conditional node conflicts with is known only now that its bodies are.
  if (state_.inferred) infer_dependencies(state_.form(), state_.ancestors, node);
  whole_ = true;
  return Node(state_.capture.id, node);
}

GraphBuilder::Call::~Call() {
  if (whole_) return;
  while (state_.form().nodes.size() > before_) state_.take_last_node_back();
  state_.ancestors.forget();
}

/// Nothing depends on it yet.
void GraphBuilder::State::take_last_node_back() noexcept {
  UniqueLock guard(captures_lock());
  const auto index = static_cast<std::uint32_t>(form().nodes.size() - 1);
  const FormNode gone = std::move(form().nodes.back());
  form().nodes.pop_back();
  many.erase(index);
  capture.take_back(gone);
  guard.unlock();  // the node's arrays may be others' memory: their code runs without the lock
}

Node GraphBuilder::graph(const Graph& child, SourceLocation where) {
  return make("weir::GraphBuilder::graph", where, [&] { child.launch(stream(), where); });
}

Node GraphBuilder::empty(SourceLocation where) { return Call(*this, "weir::GraphBuilder::empty", where).node(); }

Node GraphBuilder::record(EventRef event, SourceLocation where) {
  return make("weir::GraphBuilder::record", where, [&] { record_external(stream(), event, where); });
}

Node GraphBuilder::wait(EventRef event, SourceLocation where) {
  return make("weir::GraphBuilder::wait", where, [&] { wait_external(stream(), event, where); });
}

ControlScope GraphBuilder::control(const ArrayBase<std::int32_t>& condition, ControlKind kind, std::size_t bodies,
                                   SourceLocation where) {
  const char* operation = kind == ControlKind::while_    ? "weir::GraphBuilder::while_"
                          : kind == ControlKind::switch_ ? "weir::GraphBuilder::switch_"
                                                         : "weir::GraphBuilder::if_";
  return ControlScope(stream(), condition, kind, bodies, operation, where);
}

void GraphBuilder::depends(Node node, Node before, SourceLocation where) {
  depends(node, std::span<const Node>(&before, 1), where);
}

void GraphBuilder::depends(Node node, std::initializer_list<Node> before, SourceLocation where) {
  depends(node, std::span<const Node>(before.begin(), before.size()), where);
}

void GraphBuilder::depends(Node node, std::span<const Node> before, SourceLocation where) {
  State& state = begin("weir::GraphBuilder::depends", where);
  const auto& nodes = state.form().nodes;
  const auto check = [&](Node one) {
    if (one.graph() == state.capture.id && one.index() < nodes.size()) return;
    throw Error(Errc::invalid_handle, "weir::GraphBuilder::depends", "node",
                one.graph() == 0 ? "it is no node" : "it is of another builder", where);
  };
  check(node);
  for (const Node one : before) check(one);
  const auto to = static_cast<std::uint32_t>(node.index());
  auto& depends = state.form().nodes[to].depends;
  const std::size_t had = depends.size();
  const bool ascending = state.ascending;
  try {
    for (const Node one : before) state.depend(to, static_cast<std::uint32_t>(one.index()), where);
  } catch (...) {
    depends.resize(had);
    state.ascending = ascending;
    state.many.erase(to);
    state.ancestors.forget();
    throw;
  }
}

void GraphBuilder::State::depend(std::uint32_t to, std::uint32_t from, SourceLocation where) {
  constexpr const char* operation = "weir::GraphBuilder::depends";
  auto& nodes = form().nodes;
  if (nodes[to].parent != nodes[from].parent || nodes[to].branch != nodes[from].branch) {
    throw Error(Errc::invalid_value, operation, describe_node(form(), to) + " and " + describe_node(form(), from),
                "they are not in the same body: let the conditional or child node depend instead", where);
  }
  const bool still_ascending = ascending && from < to;
  if (!still_ascending) {
    const std::vector<std::uint32_t> cycle = path_between(form(), to, from);
    if (!cycle.empty())
      throw Error(Errc::graph_cycle, operation, describe_node(form(), to), cycle_text(form(), cycle), where);
  }
  if (inferred) ancestors.remember(form());
  add_dependency(nodes[to].depends, from, many, to);
  ascending = still_ascending;
  if (inferred) ancestors.add(to, from);
}

Graph GraphBuilder::build(SourceLocation where) const {
  enter("weir::GraphBuilder::build", where);
  if (!state_) throw Error(Errc::invalid_handle, "weir::GraphBuilder::build", "builder", "it was moved from", where);
  GraphForm copy = state_->capture.form;
  return instantiate(std::move(copy), state_->capture.id, *state_->stream.state()->device, nullptr,
                     "weir::GraphBuilder::build", where);
}

}  // namespace weir
