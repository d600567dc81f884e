// The engine's graphs as they are handed over: lists of nodes become one, each behind what it comes after.
#include <utility>

#include "check/state.hpp"

namespace weir::check {

void Engine::add_nodes(std::vector<GraphNode>& nodes, std::span<const recorded::Node> list, std::uint32_t parent,
                       std::uint32_t body, const std::string& prefix,
                       const std::function<const char*(recorded::Name)>& text, std::uint32_t graph) {
  std::vector<std::uint32_t> places;
  for (const recorded::Node& one : list) {
    GraphNode node;
    node.op = one.op;
    node.parent = parent;
    node.body = body;
    node.target = one.target;
    for (const std::uint32_t before : one.after) node.after.push_back(places[before]);
    node.uses = uses_of(one.op, one.uses);
    const bool condition = one.op == Op::if_ || one.op == Op::switch_ || one.op == Op::while_;
    if (condition && !node.uses.empty()) node.uses[0].access = recorded::Access::in;
    node.path = prefix + text(one.name);
    node.name = text(one.label == none ? one.name : one.label);
    node.file = one.file == none ? nullptr : text(one.file);
    node.line = one.line;
    node.collective = one.collective;
    node.communicator = one.communicator;
    if (one.communicator_name != none) node.communicator_name = text(one.communicator_name);
    node.stream = one.stream;
    node.captured = one.stream != none;
    node.graph = graph;
    node.origin = node.path;
    const auto place = static_cast<std::uint32_t>(nodes.size());
    places.push_back(place);
    const std::string path = node.path;
    note_in_graphs(node);
    nodes.push_back(std::move(node));
    for (std::uint32_t i = 0; i < one.bodies.size(); ++i) {
      add_nodes(nodes, one.bodies[i], place, i, path + "[" + std::to_string(i) + "]/", text, graph);
    }
    if (one.op == Op::graph) {
      if (const auto child = graphs_.find(one.target); child != graphs_.end())
        copy_into(nodes, *child->second->version);
    }
  }
}

void Engine::build(const Call&, std::uint32_t graph, std::span<const recorded::Node> list,
                   const std::function<const char*(recorded::Name)>& text) {
  std::vector<GraphNode> nodes;
  add_nodes(nodes, list, none, 0, "", text, graph);
  auto made = std::make_unique<Graph>();
  made->id = graph;
  made->version = std::make_shared<GraphVersion>(std::move(nodes));
  graphs_[graph] = std::move(made);
}

}  // namespace weir::check
