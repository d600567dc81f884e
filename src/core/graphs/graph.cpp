// Graphs: made, launched, read.
#include <weir/graph.hpp>

#include <algorithm>
#include <memory>

#include "core/checks.hpp"
#include "core/collectives/captured_call.hpp"
#include "core/collectives/launch_gate.hpp"
#include "core/graphs/calling_graph.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/graph_state.hpp"
#include "core/memory/users.hpp"
#include "core/observers.hpp"
#include "thread_safety.hpp"

namespace weir {

using namespace detail;

namespace detail {

CoreGraph& graph_of(const Graph& graph, const char* operation, SourceLocation where) {
  enter(operation, where);
  if (graph.state() != nullptr) return static_cast<CoreGraph&>(*graph.state());
  throw Error(Errc::invalid_handle, operation, "graph", "it was moved from or never made", where);
}

FormNode& node_of(CoreGraph& graph, Node node, const char* operation, SourceLocation where) {
  if (node.graph() == graph.family && node.index() < graph.form.nodes.size()) return graph.form.nodes[node.index()];
  throw Error(Errc::invalid_handle, operation, "node",
              node.graph() == 0 ? "it is no node" : "it is a node of another graph", where);
}

Graph instantiate(GraphForm&& form, std::uint64_t id, DeviceState& device, void* driver_graph, const char*,
                  SourceLocation where, std::uint64_t family) {
  auto graph = std::make_unique<CoreGraph>();
  graph->id = id;
  graph->family = family != 0 ? family : id;
  graph->backend = device.backend;
  graph->device = device.index;
  graph->on = &device;
  graph->form = std::move(form);
  graph->note_communicators();
  if (CallingGraph::is_needed(graph->form)) {
    graph->calling = new CallingGraph(graph->form, device, driver_graph, where);
    graph->executable = graph->calling;
    return Graph(graph.release());
  }
  graph->executable = device.backend->instantiate(device.index, graph->form, driver_graph, where);
  if (watched(Watch::graphs)) {
    const LockGuard guard(graph->edit_mutex);
    observe_graph(*graph, where);
  }
  return Graph(graph.release());
}

void keep_until_launched_work_is_done(const CoreGraph& graph, const Payload& payload) {
  // Threads may launch while another one changes the graph.
  const LockGuard guard(graph.launched_mutex);
  for (Storage* storage : payload.arrays()) {
    for (const QueuePlace& place : graph.launched_on) note_queue(*storage, place.queue, place.owner, place.device);
  }
}

std::string name_of(const FormNode& node) {
  if (node.payload && !node.payload->name().empty()) return node.payload->name();
  if (node.kind == NodeKind::conditional) {
    switch (node.condition.kind) {
      case Condition::Kind::if_: return "if";
      case Condition::Kind::if_else: return "if/else";
      case Condition::Kind::switch_: return "switch";
      case Condition::Kind::while_: return "while";
    }
  }
  return std::string(to_text(node.kind));
}

}  // namespace detail

namespace detail {

std::string detail_of(const FormNode& node) {
  if (!node.payload) return {};
  const auto bytes = [](std::size_t count) { return std::to_string(count) + " bytes"; };
  const Op& op = node.payload->op();
  if (const auto* launch = std::get_if<Launch>(&op)) {
    if (launch->threads == 0) return describe(launch->extent);
    const Shape& threads = launch->thread_shape;
    return describe(launch->extent) + " x " + (threads.rank() == 1 ? std::to_string(threads[0]) : describe(threads));
  }
  if (const auto* copy = std::get_if<Copy>(&op)) {
    return bytes(copy->to_layout.shape.count() * copy->to_layout.element_bytes);
  }
  if (const auto* fill = std::get_if<Fill>(&op)) return describe(fill->layout.shape);
  if (const auto* alloc = std::get_if<Alloc>(&op)) return bytes(alloc->bytes);
  if (const auto* free = std::get_if<Free>(&op)) return bytes(free->bytes);
  return {};
}

}  // namespace detail

std::string_view to_text(NodeKind kind) {
  switch (kind) {
    case NodeKind::launch: return "launch";
    case NodeKind::copy: return "copy";
    case NodeKind::fill: return "fill";
    case NodeKind::alloc: return "alloc";
    case NodeKind::free: return "free";
    case NodeKind::record: return "record";
    case NodeKind::wait: return "wait";
    case NodeKind::host_call: return "host_call";
    case NodeKind::external: return "external";
    case NodeKind::graph: return "graph";
    case NodeKind::conditional: return "conditional";
    case NodeKind::empty: return "empty";
  }
  return "node";
}

Graph& Graph::operator=(Graph&& other) noexcept {
  Graph old(std::move(*this));
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}

Graph::~Graph() {
  if (state_ == nullptr || forked()) return;
  const std::unique_ptr<CoreGraph> graph(static_cast<CoreGraph*>(state_));
  try {
    for (const FormNode& node : graph->form.nodes) {
      if (node.payload) keep_until_launched_work_is_done(*graph, *node.payload);
    }
  } catch (...) {
    // Without memory for the bookkeeping the arrays are given back once the replays are over.
    for (const QueuePlace& place : graph->launched_on) place.queue->drain();
  }
  graph->executable->close();
  if (graph->calling != nullptr || !watched(Watch::graphs)) return;
  tell(Watch::graphs, [&](Observer& observer) { observer.graph_gone(graph->id); });
}

namespace {
/// A launch that somebody is told of.
std::shared_ptr<const CoreGraph::Uses> observe_launch(CoreGraph& graph) {
  if (watched(Watch::graphs) && graph.told.load(std::memory_order_acquire) != observed_graphs()) {
    const LockGuard guard(graph.edit_mutex);
    observe_graph(graph, {});
  }
  auto uses = uses_of(graph);
  for (EventState* event : uses->records) event->records.fetch_add(1, std::memory_order_relaxed);
  return uses;
}

void launch_in(CoreGraph& graph, StreamRef stream, StreamState& state, SourceLocation where) {
  constexpr const char* operation = "weir::Graph::launch";
  if (stream.id() != graph.last_stream.load(std::memory_order_relaxed)) graph.note_launch(state, stream.id());
  Command command;
  command.where = where;
  std::shared_ptr<const CoreGraph::Uses> uses;
  const bool recorded = state.recorder.load(std::memory_order_relaxed) != nullptr;
  if (!recorded && (watched(commands_watched | Watch::graphs) || asked())) {
    uses = observe_launch(graph);
    command.uses = uses->regions;
  }
  command.op = GraphLaunch{&graph, graph.id};
  submit(stream, command, operation);
}

/// A call of all ranks of its communicators, unless it becomes a node.
[[gnu::noinline]] void launch_collectives(CoreGraph& graph, StreamRef stream, StreamState& state,
                                          SourceLocation where) {
  std::vector<std::shared_ptr<CommunicatorState>> communicators;
  {
    const LockGuard guard(graph.launched_mutex);
    communicators = graph.communicators;
  }
  if (state.recorder.load(std::memory_order_relaxed) != nullptr) {
    std::erase_if(communicators, [](const auto& one) { return one->gated; });
  }
  LaunchAmongCalls among(communicators, stream, where);
  launch_in(graph, stream, state, where);
  among.launched();
}

/// Calls of ranks of several processes, and what is between them; as a node it is refused.
[[gnu::noinline]] void launch_with_calls(CoreGraph& graph, StreamRef stream, StreamState& state, SourceLocation where) {
  if (state.recorder.load(std::memory_order_acquire) != nullptr) return launch_in(graph, stream, state, where);
  graph.note_launch(state, stream.id());
  graph.calling->launch(stream, where);
}
}  // namespace

void Graph::launch(StreamRef stream, SourceLocation where) const {
  constexpr const char* operation = "weir::Graph::launch";
  CoreGraph& graph = graph_of(*this, operation, where);
  StreamState& state = state_of(stream, operation, where);
  if (state.device->backend != graph.backend) {
    throw Error(Errc::wrong_device, operation, describe(state), "the graph is of device " + graph.on->name, where);
  }
  if (graph.calling != nullptr) [[unlikely]]
    return launch_with_calls(graph, stream, state, where);
  if (graph.has_collectives.load(std::memory_order_acquire)) return launch_collectives(graph, stream, state, where);
  launch_in(graph, stream, state, where);
}

void Graph::launch(SourceLocation where) const {
  const CoreGraph& graph = graph_of(*this, "weir::Graph::launch", where);
  launch(get_stream(Device(graph.on), where), where);
}

void detail::CoreGraph::note_communicators() {
  auto all = communicators_of(form);
  const LockGuard guard(launched_mutex);
  communicators = std::move(all);
  has_collectives.store(!communicators.empty(), std::memory_order_release);
}

void detail::CoreGraph::note_launch(StreamState& stream, StreamId id) {
  const LockGuard guard(launched_mutex);
  const auto same = [&](const QueuePlace& one) { return one.queue == stream.real; };
  const auto found = std::find_if(launched_on.begin(), launched_on.end(), same);
  if (found == launched_on.end()) {
    launched_on.push_back(place_of(stream.real, id, stream.device));
  } else {
    found->owner = id;  // what the queue's stream of before replayed is over
  }
  last_stream.store(id, std::memory_order_relaxed);
}

Graph Graph::clone(SourceLocation where) const {
  constexpr const char* operation = "weir::Graph::clone";
  CoreGraph& graph = graph_of(*this, operation, where);
  const std::uint64_t id = next_graph_id();  // before the graph's own lock, which comes behind that of captures
  GraphForm form;
  void* driver_graph = nullptr;
  {
    const LockGuard guard(graph.edit_mutex);
    form = graph.form;
    driver_graph = graph.executable->driver_copy(where);
  }
  return instantiate(std::move(form), id, *graph.on, driver_graph, operation, where, graph.family);
}

Device Graph::device(SourceLocation where) const { return Device(graph_of(*this, "weir::Graph::device", where).on); }
std::size_t Graph::size(SourceLocation where) const {
  return graph_of(*this, "weir::Graph::size", where).form.nodes.size();
}
std::size_t Graph::node_count(SourceLocation where) const {
  return graph_of(*this, "weir::Graph::node_count", where).form.nodes.size();
}
bool Graph::empty(SourceLocation where) const {
  return graph_of(*this, "weir::Graph::empty", where).form.nodes.empty();
}

NodeInfo Graph::node(Node node, SourceLocation where) const {
  constexpr const char* operation = "weir::Graph::node";
  CoreGraph& graph = graph_of(*this, operation, where);
  return info_of(node_of(graph, node, operation, where), graph.family, node.index());
}

NodeInfo detail::info_of(const FormNode& form, std::uint64_t graph, std::size_t index) {
  NodeInfo info;
  info.node = Node(graph, index);
  info.kind = form.kind;
  info.name = name_of(form);
  info.detail = detail_of(form);
  info.where = form.where;
  info.stream = form.stream;
  info.stream_name = form.stream_name;
  info.priority = form.priority;
  for (const std::uint32_t before : form.depends) info.depends.emplace_back(graph, before);
  if (form.parent >= 0) info.parent = Node(graph, static_cast<std::size_t>(form.parent));
  info.branch = form.branch;
  info.enabled = form.enabled;
  return info;
}

std::vector<NodeInfo> Graph::nodes(SourceLocation where) const {
  const CoreGraph& graph = graph_of(*this, "weir::Graph::nodes", where);
  std::vector<NodeInfo> all;
  for (std::size_t i = 0; i < graph.form.nodes.size(); ++i) all.push_back(node(Node(graph.family, i), where));
  return all;
}

Node Graph::find(std::string_view name, SourceLocation where) const {
  const CoreGraph& graph = graph_of(*this, "weir::Graph::find", where);
  for (std::size_t i = 0; i < graph.form.nodes.size(); ++i) {
    if (name_of(graph.form.nodes[i]) == name) return Node(graph.family, i);
  }
  throw Error(Errc::invalid_value, "weir::Graph::find", "'" + std::string(name) + "'", "no node has this name", where);
}

}  // namespace weir
