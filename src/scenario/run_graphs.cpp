// Graphs of a running scenario: captured, built, and changed.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <utility>

#include <weir/error.hpp>
#include <weir/graph_builder.hpp>
#include <weir/graph_update.hpp>

#include "scenario/run_state.hpp"

namespace weir::scenario {

namespace {

using recorded::Op;

constexpr const char* operation = "weir::run_scenario";
constexpr std::size_t most_bodies = 8;
constexpr std::size_t most_nodes = 1'000'000;  // each takes about 1 KiB

/// Whether a captured command becomes a node.
bool makes_node(const recorded::Command& command) {
  switch (command.op) {
    case Op::launch:
    case Op::external:
    case Op::host_function:
    case Op::copy:
    case Op::fill:
    case Op::alloc:
    case Op::free:
    case Op::launch_graph: return true;
    case Op::record:
    case Op::wait: return command.flag;
    default: return false;
  }
}

/// Of the children of a graph, not of those within them.
BelowChildren below_children(std::span<const NodeInfo> nodes) {
  BelowChildren below;
  std::unordered_map<std::uint32_t, std::uint32_t> child_of;
  for (const NodeInfo& info : nodes) {
    const std::uint32_t own = info.node.index();
    const auto above = info.parent ? child_of.find(info.parent->index()) : child_of.end();
    if (above != child_of.end()) {
      const std::uint32_t child = above->second;
      below[child].push_back(info.node);
      child_of.emplace(own, child);
    } else if (info.kind == NodeKind::graph) {
      child_of.emplace(own, own);
    }
  }
  return below;
}

/// A child is a copy: below its node, the nodes follow each other as they did.
void add_child_nodes(std::span<const Node> below, const std::string& path, const RunGraph& of,
                     std::vector<RunNode>& made) {
  for (const RunNode& node : of.nodes) {
    if (node.node.index() < below.size()) made.push_back({path + "/" + node.path, below[node.node.index()], node.op});
  }
}

const RunNode& node_of(RunGraph& graph, const char* path, SourceLocation where) {
  if (graph.places.empty()) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) graph.places.emplace(graph.nodes[i].path, i);
  }
  if (const auto found = graph.places.find(path); found != graph.places.end()) return graph.nodes[found->second];
  throw Error(Errc::invalid_value, operation, path, "the graph has no such node", where);
}

/// How many nodes a list becomes; `graphs` has those of the graphs so far. Never more than `most` and what a list has.
std::size_t count_nodes(std::span<const recorded::Node> nodes, const std::map<recorded::Name, std::size_t>& graphs,
                        std::size_t most) {
  std::size_t count = nodes.size();
  for (const recorded::Node& node : nodes) {
    for (const std::vector<recorded::Node>& body : node.bodies) count += count_nodes(body, graphs, most);
    if (const auto child = graphs.find(node.target); node.op == Op::graph && child != graphs.end()) {
      count += child->second;
    }
    if (count > most) break;
  }
  return count;
}

}  // namespace

void RunState::check_nodes() const {
  std::map<recorded::Name, std::size_t> graphs;
  std::size_t all = 0, captures = 0, captured = 0;
  for (std::size_t i = 0; i < recording_.size(); ++i) {
    const recorded::Command& command = recording_.command(i);
    std::size_t made = 0;
    if (command.op == Op::build_graph) {
      made = count_nodes(recording_.nodes(command), graphs, most_nodes);
      graphs[command.target] = made;
    } else if (command.op == Op::begin_capture) {
      ++captures;
    } else if (command.op == Op::end_capture) {
      graphs[command.target] = captured;
      captures = captures > 0 ? captures - 1 : 0;
      if (captures == 0) captured = 0;
    } else if (captures > 0 && makes_node(command)) {
      // Of whatever capture: each is taken to have them all.
      const auto child = graphs.find(command.target);
      made = 1 + (command.op == Op::launch_graph && child != graphs.end() ? child->second : 0);
      captured += made;
    }
    all += made;
    if (all > most_nodes) {
      throw Error(Errc::invalid_value, operation, "command " + recording_.id(i),
                  "the graphs of the file would have more than " + std::to_string(most_nodes) + " nodes", where(i));
    }
  }
}

void RunState::note_captured(std::size_t place, SourceLocation where) {
  const recorded::Command& command = recording_.command(place);
  if (!makes_node(command) || command.stream == recorded::none) return;
  try {
    if (is_capturing(stream(command.stream), where)) captured_.push_back({place, where});
  } catch (const Error&) {  // the call itself will say so
  }
}

void RunState::end_capture(const recorded::Command& command, SourceLocation where) {
  const std::size_t begun = captures_;
  captures_ = captures_ > 0 ? captures_ - 1 : 0;
  graphs_.erase(command.target);
  std::vector<Captured> captured = captured_;
  if (begun <= 1) captured_.clear();
  RunGraph made;
  made.graph = capture_end(stream(command.stream), where);
  // Its nodes are in the order of the calls, though other captures' may lie between them.
  auto next = captured.begin();
  const std::vector<NodeInfo> all = made.graph.nodes(where);
  BelowChildren below = below_children(all);
  for (const NodeInfo& info : all) {
    if (info.parent || info.kind == NodeKind::empty) continue;
    const auto found = std::find_if(next, captured.end(), [&](const Captured& one) {
      return one.where.line() == info.where.line() && std::strcmp(one.where.file_name(), info.where.file_name()) == 0;
    });
    if (found == captured.end()) continue;
    const recorded::Command& by = recording_.command(found->command);
    const std::string path = recording_.id(found->command);
    made.nodes.push_back({path, info.node, by.op});
    if (by.op == Op::launch_graph) {
      if (const auto child = graphs_.find(by.target); child != graphs_.end()) {
        add_child_nodes(below[info.node.index()], path, child->second, made.nodes);
      }
    }
    next = found + 1;
  }
  graphs_[command.target] = std::move(made);
}

void RunState::build(const recorded::Command& command, SourceLocation where) {
  graphs_.erase(command.target);
  GraphBuilder builder(device(command.stream == recorded::none ? 0 : command.stream), Dependencies::explicit_only,
                       where);
  RunGraph made;
  build_nodes(builder, recording_.nodes(command), "", where, made.nodes);
  made.graph = builder.build(where);
  // Children are looked at now: their nodes have places in the whole graph only.
  const BelowChildren below = below_children(made.graph.nodes(where));
  std::unordered_map<std::string, Node> own;
  for (const RunNode& node : made.nodes) {
    if (node.op == Op::graph) own.emplace(node.path, node.node);
  }
  const std::function<void(std::span<const recorded::Node>, const std::string&)> children =
      [&](std::span<const recorded::Node> nodes, const std::string& path) {
        for (const recorded::Node& node : nodes) {
          const std::string here = path + recording_.text(node.name);
          for (std::size_t i = 0; i < node.bodies.size(); ++i) {
            children(node.bodies[i], here + "[" + std::to_string(i) + "]/");
          }
          if (node.op != Op::graph) continue;
          const auto at = own.find(here);
          const auto child = graphs_.find(node.target);
          if (at == own.end() || child == graphs_.end()) continue;
          if (const auto found = below.find(at->second.index()); found != below.end()) {
            add_child_nodes(found->second, here, child->second, made.nodes);
          }
        }
      };
  children(recording_.nodes(command), "");
  graphs_[command.target] = std::move(made);
}

void RunState::build_nodes(GraphBuilder& builder, std::span<const recorded::Node> nodes, const std::string& path,
                           SourceLocation command, std::vector<RunNode>& made) {
  std::vector<Node> built;
  for (const recorded::Node& node : nodes) {
    const SourceLocation at = where(node, command);
    const std::string here = path + recording_.text(node.name);
    const Node one = build_node(builder, node, here, at, made);
    for (const std::uint32_t before : node.after) builder.depends(one, built[before], at);
    built.push_back(one);
    made.push_back({here, one, node.op});
  }
}

Node RunState::build_node(GraphBuilder& builder, const recorded::Node& node, const std::string& path,
                          SourceLocation where, std::vector<RunNode>& made) {
  switch (node.op) {
    case Op::launch: {
      const char* const name = recording_.text(node.name);
      return launch(builder, name, computing(name, node.cost, node.uses), arguments(node.uses, where), where);
    }
    case Op::external:  // builders have none: a host function in its place
    case Op::host_function: {
      Node made_node;
      const double ns = computing(where, node.cost, node.uses);
      const auto uses = arguments(node.uses, where);
      with_count(
          uses.size(), [&]<std::size_t... I>(std::index_sequence<I...>) {
            const auto work = [ns] { spin(ns); };
            if constexpr (sizeof...(I) == 0) {
              made_node = builder.host_call(work, where);
            } else {
              made_node = builder.host_call(work, uses[I]...);
            }
          });
      return made_node;
    }
    case Op::copy: {
      CopyEnd to = copy_end(node.uses[0], node.uses[1], where), from = copy_end(node.uses[1], node.uses[0], where);
      return std::visit([&](auto& t, auto& f) { return builder.copy(t, f, where); }, to, from);
    }
    case Op::fill: {
      CopyEnd to = copy_end(node.uses[0], node.uses[0], where);
      return std::visit([&](auto& t) { return builder.fill(t, Byte{0}, where); }, to);
    }
    case Op::alloc: {
      auto [array, made_node] = builder.allocate<Byte>(Shape(declared(node.target).bytes), where);
      buffers_[node.target].array = std::move(array);
      if (declared(node.target).bytes > 0) {
        buffers_[node.target].array.set_name(recording_.text(declared(node.target).name), where);
      }
      buffers_[node.target].data = buffers_[node.target].array.data();
      make_zeros(node.target);
      return made_node;
    }
    case Op::free: return builder.free(buffers_[node.target].array, where);
    case Op::record: return builder.record(events_[node.target].ref, where);
    case Op::wait: return builder.wait(events_[node.target].ref, where);
    case Op::graph: {
      const auto child = graphs_.find(node.target);
      return child == graphs_.end() ? builder.graph(Graph(), where) : builder.graph(child->second.graph, where);
    }
    case Op::empty: return builder.empty(where);
    default: return build_control(builder, node, path, where, made);
  }
}

Node RunState::build_control(GraphBuilder& builder, const recorded::Node& node, const std::string& path,
                             SourceLocation where, std::vector<RunNode>& made) {
  const recorded::Use& use = node.uses[0];
  const Argument<Byte> found = argument(use, where);
  if (found.storage == nullptr || use.bytes < sizeof(std::int32_t) || use.offset % alignof(std::int32_t) != 0) {
    throw Error(Errc::not_supported, operation, recording_.text(node.name),
                "a condition is 4 aligned bytes of an array, and not through a raw view", where);
  }
  const Slice<std::int32_t> condition(
      found.storage, AnyView<std::int32_t>(reinterpret_cast<std::int32_t*>(found.view.data()), Shape(1)));
  const ConditionArg on(condition, where);
  const auto body = [&](std::size_t number) {
    return [&, number] {
      build_nodes(builder, node.bodies[number], path + "[" + std::to_string(number) + "]/", where, made);
    };
  };
  if (node.op == Op::while_) return builder.while_(on, body(0), where);
  if (node.op == Op::if_) {
    return node.bodies.size() == 1 ? builder.if_(on, body(0), where) : builder.if_(on, body(0), body(1), where);
  }
  if (node.bodies.size() > most_bodies) {
    throw Error(Errc::not_supported, operation, recording_.text(node.name), "a switch has at most 8 bodies here",
                where);
  }
  Node switched;
  with_count(
      node.bodies.size(), [&]<std::size_t... I>(std::index_sequence<I...>) {
        if constexpr (sizeof...(I) > 0 && sizeof...(I) <= most_bodies) switched = builder.switch_(on, body(I)...);
      });
  return switched;
}

void RunState::update(const recorded::Command& command, SourceLocation where) {
  const auto found = graphs_.find(command.target);
  if (found == graphs_.end()) {
    throw Error(Errc::invalid_handle, operation, recording_.text(command.target), "there is no such graph", where);
  }
  Graph& graph = found->second.graph;
  const RunNode& changed = node_of(found->second, recording_.text(command.name), where);
  if (command.op == Op::enable_node) {
    return command.flag ? graph.enable(changed.node, where) : graph.disable(changed.node, where);
  }
  if (command.ends && command.use_count == 2) {
    const recorded::Use to = recording_.use(command, 0), from = recording_.use(command, 1);
    CopyEnd target = copy_end(to, from, where), source = copy_end(from, to, where);
    return std::visit([&](auto& t, auto& f) { graph.update_copy(changed.node, t, f, where); }, target, source);
  }
  if (command.ends) {
    const recorded::Use to = recording_.use(command, 0);
    CopyEnd target = copy_end(to, to, where);
    return std::visit([&](auto& t) { graph.update_fill(changed.node, t, Byte{0}, where); }, target);
  }
  if (changed.op != Op::launch) {
    throw Error(Errc::not_supported, operation, changed.path, "only launches and copies can be given other arguments",
                where);
  }
  scenario::update(graph, changed.node, duration(recording_.cost(command)), arguments(command, where), where);
}

}  // namespace weir::scenario
