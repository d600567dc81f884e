// Graphs of a running program as commands of a recording.
#include "recording/recorder_graphs.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <variant>

#include <weir/graph_node.hpp>

namespace weir::recorded {

namespace {

/// One telling of a graph becomes lists of nodes: one for each parent and branch.
class Builder {
 public:
  /// Graphs within it are called after it and the place of their node: names are short, however deep they are.
  Builder(Sink& sink, Names& names, const GraphInfo& graph, std::string name, std::uint32_t device,
          const Graphs::FillIn& fill_in, std::vector<Name>& paths)
      : sink_(sink),
        names_(names),
        graph_(graph),
        name_(std::move(name)),
        device_(device),
        fill_in_(fill_in),
        paths_(paths) {}

  void build() { build(name_, -1, ""); }

 private:
  void build(const std::string& name, std::int32_t parent, const std::string& path) {
    const std::vector<Node> nodes = list(parent, 0, path);
    Command made;
    made.op = Op::build_graph;
    made.target_kind = Target::graph;
    made.target = names_.text(name);
    made.stream = device_;
    if (graph_.where.line() != 0) {
      made.file = names_.file(graph_.where.file_name());
      made.line = graph_.where.line();
    }
    sink_.add(made, {.nodes = nodes});
  }

  /// The nodes of a parent's branch, each behind those that it depends on.
  std::vector<std::uint32_t> in_order(std::int32_t parent, std::uint32_t branch) const {
    std::vector<std::uint32_t> order;
    std::vector<bool> done(graph_.nodes.size(), false);
    const std::function<void(std::uint32_t)> visit = [&](std::uint32_t place) {
      if (done[place]) return;
      done[place] = true;
      for (const std::uint32_t before : graph_.nodes[place].depends) visit(before);
      order.push_back(place);
    };
    for (std::uint32_t i = 0; i < graph_.nodes.size(); ++i) {
      if (graph_.nodes[i].parent == parent && graph_.nodes[i].branch == branch) visit(i);
    }
    return order;
  }

  std::vector<Node> list(std::int32_t parent, std::uint32_t branch, const std::string& path) {
    const std::vector<std::uint32_t> order = in_order(parent, branch);
    std::vector<Node> nodes;
    for (const std::uint32_t place : order) {
      const GraphNodeInfo& info = graph_.nodes[place];
      const std::string own = "n" + std::to_string(place);
      paths_[place] = names_.text(path + own);
      Node node;
      fill_in_(info, node, device_);
      node.name = names_.text(own);
      for (const std::uint32_t before : info.depends) {
        node.after.push_back(static_cast<std::uint32_t>(std::find(order.begin(), order.end(), before) - order.begin()));
      }
      if (info.kind == NodeKind::graph) {
        const std::string child = name_ + "." + own;
        build(child, static_cast<std::int32_t>(place), path + own + "/");
        node.op = Op::graph;
        node.target_kind = Target::graph;
        node.target = names_.text(child);
      } else if (info.kind == NodeKind::conditional) {
        node.op = info.repeats ? Op::while_ : info.selects ? Op::switch_ : Op::if_;
        for (std::uint32_t body = 0; body < info.bodies; ++body) {
          node.bodies.push_back(
              list(static_cast<std::int32_t>(place), body, path + own + "[" + std::to_string(body) + "]/"));
        }
      }
      nodes.push_back(std::move(node));
    }
    return nodes;
  }

  Sink& sink_;
  Names& names_;
  const GraphInfo& graph_;
  std::string name_;
  std::uint32_t device_;
  const Graphs::FillIn& fill_in_;
  std::vector<Name>& paths_;
};

/// What it allocates and frees; what others free lives on without it.
std::vector<Graphs::Memory> own_memory(const GraphInfo& graph) {
  std::unordered_set<BufferId> freed;
  for (const GraphNodeInfo& node : graph.nodes) {
    const auto* const free = node.op != nullptr ? std::get_if<weir::Free>(node.op) : nullptr;
    if (free != nullptr) freed.insert(free->buffer);
  }
  std::vector<Graphs::Memory> own;
  for (const GraphNodeInfo& node : graph.nodes) {
    const auto* const alloc = node.op != nullptr ? std::get_if<weir::Alloc>(node.op) : nullptr;
    if (alloc != nullptr && freed.count(alloc->buffer) != 0) own.push_back({alloc->buffer, alloc->data});
  }
  return own;
}

bool has_functions(const GraphInfo& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const GraphNodeInfo& node) {
    return node.op != nullptr && std::holds_alternative<HostCall>(*node.op);
  });
}

}  // namespace

Name Graphs::name(std::uint64_t graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? none : found->second.name;
}

std::uint32_t Graphs::device(std::uint64_t graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() ? 0 : found->second.device;
}

std::shared_ptr<const std::vector<Name>> Graphs::paths_to_functions(std::uint64_t graph) const {
  const auto found = graphs_.find(graph);
  return found == graphs_.end() || !found->second.functions ? nullptr : found->second.paths;
}

void Graphs::build(Sink& sink, Names& names, const GraphInfo& graph, std::uint32_t device, const FillIn& fill_in) {
  const std::string name = "g" + std::to_string(graph.id);
  Built built{names.text(name),
              device,
              std::make_shared<std::vector<Name>>(graph.nodes.size(), none),
              has_functions(graph),
              std::vector<bool>(graph.nodes.size(), true),
              own_memory(graph)};
  Builder(sink, names, graph, name, device, fill_in, *built.paths).build();
  const Built& kept = graphs_.insert_or_assign(graph.id, std::move(built)).first->second;
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (!graph.nodes[i].enabled && (*kept.paths)[i] != none) change(sink, graph.id, i, false, {});
  }
}

void Graphs::change(Sink& sink, std::uint64_t graph, std::uint32_t node, bool enabled, const Node& now) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end() || node >= found->second.paths->size()) return;
  Built& built = found->second;
  Command made;
  made.target_kind = Target::graph;
  made.target = built.name;
  made.name = (*built.paths)[node];
  if (built.enabled[node] != enabled) {
    built.enabled[node] = enabled;
    made.op = Op::enable_node;
    made.flag = enabled;
    sink.add(made);
    return;
  }
  made.op = Op::update_node;
  made.file = now.file;
  made.line = now.line;
  made.ends = now.op == Op::copy || now.op == Op::fill;
  sink.add(made, {.uses = now.uses});
}

Graphs::Gone Graphs::forget(std::uint64_t graph) {
  const auto found = graphs_.find(graph);
  Gone gone{found->second.name, std::move(found->second.memory)};
  graphs_.erase(found);
  return gone;
}

}  // namespace weir::recorded
