// What observers are told about graphs.
#include <memory>
#include <new>
#include <string>
#include <variant>
#include <vector>

#include "core/collectives/captured_call.hpp"
#include "core/graphs/graph_state.hpp"
#include "core/observers.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

GraphNodeInfo node_info(const FormNode& node, std::string_view name) {
  GraphNodeInfo info{node.kind, name, node.where};
  info.stream = node.stream;
  info.depends = node.depends;
  info.parent = node.parent;
  info.branch = node.branch;
  info.enabled = node.enabled;
  if (node.payload) info.uses = node.payload->uses();
  if (node.kind == NodeKind::conditional) {
    info.bodies = node.condition.bodies;
    info.repeats = node.condition.kind == Condition::Kind::while_;
    info.selects = node.condition.kind == Condition::Kind::switch_;
  } else if (node.payload) {
    info.op = &node.payload->op();
    const auto* const launch = std::get_if<Launch>(info.op);
    info.collective = launch != nullptr && is_collective(*launch);
    if (const auto called = launch != nullptr ? called_by_launches(*launch) : nullptr) {
      info.communicator = called->id;
      info.communicator_name = called->name;
    }
  }
  return info;
}

}  // namespace

void observe_graph(CoreGraph& graph, SourceLocation where) {
  graph.told.store(observed_graphs(), std::memory_order_release);
  const auto& form = graph.form.nodes;
  std::vector<std::string> names;
  names.reserve(form.size());
  std::vector<GraphNodeInfo> nodes;
  nodes.reserve(form.size());
  for (const FormNode& node : form) {
    names.push_back(name_of(node));
    nodes.push_back(node_info(node, names.back()));
  }
  const GraphInfo info{graph.id, Device(graph.on), where, nodes};
  tell(Watch::graphs, [&](Observer& observer) { observer.graph_made(info); });
}

void observe_change(CoreGraph& graph, std::size_t node) noexcept try {
  if (graph.calling != nullptr) return;  // its parts are graphs, and say so themselves
  {
    const LockGuard guard(graph.uses_mutex);
    graph.uses = nullptr;
  }
  if (!watched(Watch::graphs)) return;
  const FormNode& form = graph.form.nodes[node];
  const std::string name = name_of(form);
  const GraphNodeInfo info = node_info(form, name);
  tell(Watch::graphs,
       [&](Observer& observer) { observer.graph_changed(graph.id, static_cast<std::uint32_t>(node), info); });
} catch (const std::bad_alloc&) {
  // The change is made; there is no memory to say it.
}

std::shared_ptr<const CoreGraph::Uses> uses_of(CoreGraph& graph) {
  {
    const LockGuard guard(graph.uses_mutex);
    if (graph.uses) return graph.uses;
  }
  const LockGuard edits(graph.edit_mutex);
  auto made = std::make_shared<CoreGraph::Uses>();
  for (const FormNode& node : graph.form.nodes) {
    if (!node.payload || !node.enabled) continue;
    const std::vector<Region>& uses = node.payload->uses();
    made->regions.insert(made->regions.end(), uses.begin(), uses.end());
    if (node.kind == NodeKind::record) made->records.push_back(std::get<Record>(node.payload->op()).event);
  }
  const LockGuard guard(graph.uses_mutex);
  graph.uses = made;
  return made;
}

}  // namespace weir::detail
