// Changes to instantiated graphs.
#include <weir/graph_update.hpp>

#include <memory>
#include <string>
#include <utility>

#include "core/checks.hpp"
#include "core/graph/capture.hpp"
#include "core/graph/graph_state.hpp"

namespace weir {

using namespace detail;

namespace detail {

namespace {

/// Puts a changed node into the executable, or the form back as it was.
void apply_change(CoreGraph& graph, std::size_t index, FormNode changed) {
  FormNode& node = graph.form.nodes[index];
  std::swap(node, changed);
  try {
    graph.executable->update(graph.form, index);
  } catch (...) {
    std::swap(node, changed);
    throw;
  }
  if (changed.payload && changed.payload != node.payload) keep_until_launched_work_is_done(graph, *changed.payload);
}

[[noreturn]] void refuse_kind(const FormNode& node, NodeKind wanted, const char* operation, SourceLocation where) {
  throw Error(Errc::invalid_value, operation, "node '" + name_of(node) + "'",
              "it is a node of kind " + std::string(to_text(node.kind)) + ", not " + std::string(to_text(wanted)),
              where);
}

/// Leaves a graph's regions as they are after the change of one node: for observers of launches.
void refresh_uses(CoreGraph& graph) {
  graph.uses.clear();
  for (const FormNode& node : graph.form.nodes) {
    if (node.payload) graph.uses.insert(graph.uses.end(), node.payload->uses().begin(), node.payload->uses().end());
  }
}

}  // namespace

struct GraphEdit::State {
  CoreGraph& graph;
  std::size_t node;
  const char* operation;
  SourceLocation where;
  std::unique_lock<std::mutex> exclusive;
  Capture scratch;
  Recorder* recorder = nullptr;
};

GraphEdit::GraphEdit(const Graph& graph, Node node, NodeKind kind, const char* operation, SourceLocation where) {
  CoreGraph& core = graph_of(graph, operation, where);
  const FormNode& form = node_of(core, node, operation, where);
  const bool same_kind = form.kind == kind || (kind == NodeKind::host_call && form.kind == NodeKind::external);
  if (!same_kind || !form.payload) refuse_kind(form, kind, operation, where);
  state_ = std::unique_ptr<State>(
      new State{core, node.index(), operation, where, std::unique_lock(core.edit_mutex), {}, nullptr});
  if (!core.edit_stream) {
    core.edit_stream =
        std::make_unique<Stream>(Device(core.on), StreamOptions{.blocking = false, .name = "graph update"});
  }
  const std::lock_guard guard(captures_lock());
  state_->scratch.by_hand = true;
  state_->recorder = &open_recorder(state_->scratch, *core.edit_stream);
  state_->scratch.origin = state_->recorder;
}

GraphEdit::~GraphEdit() {
  const std::lock_guard guard(captures_lock());
  close_recorders(state_->scratch, true);
}

StreamRef GraphEdit::stream() const { return *state_->graph.edit_stream; }

Extent GraphEdit::extent() const {
  const auto& launch = std::get<Launch>(state_->graph.form.nodes[state_->node].payload->op());
  return Extent{launch.extent, launch.block, launch.name};
}

const void* GraphEdit::functor(std::string_view type) const {
  const auto& launch = std::get<Launch>(state_->graph.form.nodes[state_->node].payload->op());
  if (launch.kernel->name == type) return launch.closure;
  throw Error(Errc::invalid_value, state_->operation, "node '" + std::string(launch.kernel->name) + "'",
              "its kernel is no " + std::string(type) + " any more: pass the kernel, too", state_->where);
}

void GraphEdit::apply() {
  std::shared_ptr<const Payload> payload;
  {
    const std::lock_guard guard(captures_lock());
    auto& made = state_->scratch.form.nodes;
    if (!made.empty()) payload = std::move(made.back().payload);
  }
  if (!payload) {
    throw Error(Errc::invalid_value, state_->operation,
                "node '" + name_of(state_->graph.form.nodes[state_->node]) + "'",
                "there would be nothing to do: disable() it", state_->where);
  }
  FormNode changed = state_->graph.form.nodes[state_->node];
  changed.payload = std::move(payload);
  if (state_->where) changed.where = state_->where;
  apply_change(state_->graph, state_->node, std::move(changed));
  refresh_uses(state_->graph);
}

}  // namespace detail

void Graph::resize(Node node, const Shape& extent, SourceLocation where) {
  constexpr const char* operation = "weir::Graph::resize";
  CoreGraph& graph = graph_of(*this, operation, where);
  const std::lock_guard guard(graph.edit_mutex);
  const FormNode& form = node_of(graph, node, operation, where);
  if (form.kind != NodeKind::launch) refuse_kind(form, NodeKind::launch, operation, where);
  auto launch = std::get<Launch>(form.payload->op());
  if (launch.kernel->rank == 0) {
    throw Error(Errc::invalid_value, operation, "node '" + name_of(form) + "'", "it is a cooperative launch: update it",
                where);
  }
  const bool any = check_extent(extent, launch.kernel->rank, launch.block, operation, where);
  launch.extent = any ? extent : Shape::of(launch.kernel->rank, std::array<std::size_t, max_rank>{}.data());
  Command command;
  command.where = form.payload->where();
  command.uses = form.payload->uses();
  command.op = launch;
  FormNode changed = form;
  changed.payload = std::make_shared<const Payload>(command);
  apply_change(graph, node.index(), std::move(changed));
}

bool Graph::enabled(Node node, SourceLocation where) const {
  constexpr const char* operation = "weir::Graph::enabled";
  return node_of(graph_of(*this, operation, where), node, operation, where).enabled;
}

void Graph::set_enabled(Node node, bool enabled, SourceLocation where) {
  const char* operation = enabled ? "weir::Graph::enable" : "weir::Graph::disable";
  CoreGraph& graph = graph_of(*this, operation, where);
  const std::lock_guard guard(graph.edit_mutex);
  const FormNode& form = node_of(graph, node, operation, where);
  if (form.kind == NodeKind::graph || form.kind == NodeKind::conditional) {
    throw Error(Errc::not_supported, operation, "node '" + name_of(form) + "'",
                "a node with nodes inside stays enabled: enable and disable those", where);
  }
  FormNode changed = form;
  changed.enabled = enabled;
  apply_change(graph, node.index(), std::move(changed));
}

}  // namespace weir
