// Nodes of graphs that are built, and the paths by which commands name nodes.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "scenario/decoder.hpp"

namespace weir::scenario {

namespace {

std::optional<Op> node_op_named(const std::string& text) {
  static constexpr Op ops[] = {Op::launch, Op::external, Op::host_function, Op::copy,  Op::fill,
                               Op::alloc,  Op::free,     Op::record,        Op::wait,  Op::graph,
                               Op::empty,  Op::if_,      Op::switch_,       Op::while_};
  for (const Op op : ops) {
    if (to_text(op) == text) return op;
  }
  return std::nullopt;
}

bool is_conditional(Op op) { return op == Op::if_ || op == Op::switch_ || op == Op::while_; }

}  // namespace

std::vector<Node> Decoder::nodes(const At& at, Draft& draft) {
  at.is_array();
  std::vector<Node> list;
  list.reserve(at.size());
  std::unordered_map<Name, std::uint32_t> names;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const At element = at.item(i);
    Node made = node(element, draft);
    if (names.count(made.name) != 0) element.fault_at("name", "another node of the list has it");
    if (element.has("after")) {
      const At after = element.member("after");
      after.is_array();
      for (std::size_t j = 0; j < after.size(); ++j) {
        const Name before = name(after.item(j));
        const auto place = names.find(before);
        if (place == names.end())
          after.item(j).fault("no node before this one in the list is named " + shown(recording_.text(before)));
        made.after.push_back(place->second);
      }
    }
    names.emplace(made.name, static_cast<std::uint32_t>(i));
    list.push_back(std::move(made));
  }
  return list;
}

Node Decoder::node(const At& at, Draft& draft) {
  if (at.value().kind != Value::Kind::object) at.only({});
  Node node;
  node.name = name(at.member("name"));
  const At op = at.member("op");
  const auto known = node_op_named(op.string());
  if (!known) op.fault("no node is called " + shown(op.string()));
  node.op = *known;
  source_line(at, node.file, node.line);
  if (at.has("cost") && node.op != Op::launch && node.op != Op::external && node.op != Op::host_function &&
      node.op != Op::copy && node.op != Op::fill) {
    at.fault_at("cost", "there is no member of this name here");
  }
  if (at.has("cost")) node.cost = cost(at.member("cost"));
  node_work(at, node, draft);
  return node;
}

void Decoder::node_work(const At& at, Node& node, Draft& draft) {
  switch (node.op) {
    case Op::copy:
      at.only({"name", "op", "after", "file", "line", "to", "from", "cost"});
      return sides(at, node.uses, draft);
    case Op::fill:
      at.only({"name", "op", "after", "file", "line", "to", "cost"});
      node.uses = {operand(at.member("to"), draft)};
      node.uses[0].access = Access::out;
      return;
    case Op::alloc:
    case Op::free: {
      at.only({"name", "op", "after", "file", "line", "buffer"});
      const At named = at.member("buffer");
      node.target_kind = Target::buffer;
      node.target = node.op == Op::alloc ? allocated_buffer(named, draft) : live_buffer(named, draft);
      if (recording_.buffers()[node.target].kind != MemoryKind::device)
        named.fault("graphs have nodes for device memory only");
      return;
    }
    case Op::record:
    case Op::wait:
      at.only({"name", "op", "after", "file", "line", "event"});
      node.target_kind = Target::event;
      node.target = event_named(at.member("event"));
      return;
    case Op::graph:
      at.only({"name", "op", "after", "file", "line", "graph"});
      node.target_kind = Target::graph;
      node.target = graph_named(at.member("graph"));
      return;
    case Op::empty: return at.only({"name", "op", "after", "file", "line"});
    case Op::if_:
    case Op::switch_:
    case Op::while_: {
      at.only({"name", "op", "after", "file", "line", "condition", "bodies"});
      node.uses = {operand(at.member("condition"), draft)};
      const At bodies = at.member("bodies");
      bodies.is_array();
      if (bodies.size() == 0) bodies.fault("at least one is needed");
      const std::size_t most = node.op == Op::while_ ? 1 : node.op == Op::if_ ? 2 : bodies.size();
      if (bodies.size() > most) bodies.fault("there are more than " + std::to_string(most));
      for (std::size_t i = 0; i < bodies.size(); ++i) node.bodies.push_back(nodes(bodies.item(i), draft));
      return;
    }
    default:
      at.only({"name", "op", "after", "file", "line", "uses", "cost"});
      if (at.has("uses")) node.uses = operands(at.member("uses"), draft);
  }
}

Op Decoder::op_of(const At& path, Name graph) const {
  constexpr std::size_t most = 4096;  // child graphs are followed by recursion
  if (path.string().size() > most) path.fault("it is longer than 4096 characters");
  return op_in(path, path.string(), graph);
}

Op Decoder::op_in(const At& path, std::string_view rest, Name graph) const {
  const auto unknown = [&]() -> Op {
    // A graph that was made again may have had it before.
    if (graph_made_again_) return Op::empty;
    path.fault("no node " + shown(path.string()) + " is in the graph");
  };
  const Command& made = recording_.command(graphs_.find(graph));
  std::string_view first = rest.substr(0, rest.find('/'));
  std::string_view behind = first.size() < rest.size() ? rest.substr(first.size() + 1) : std::string_view();
  if (made.op == Op::end_capture) {
    // Which commands were captured depends on what joined the capture: that is seen when it runs.
    const auto id = recording_.find(first);
    const std::uint32_t place = id ? places_[program].find(*id) : none;
    if (place == none) return unknown();
    const Command& command = recording_.command(place);
    if (behind.empty()) return command.op;
    return command.op == Op::launch_graph ? op_in(path, behind, command.target) : unknown();
  }
  std::span<const Node> list = recording_.nodes(made);
  for (;;) {
    std::optional<std::size_t> body;
    if (first.size() > 2 && first.back() == ']') {
      const auto bracket = first.rfind('[');
      if (bracket == std::string_view::npos) return unknown();
      std::size_t number = 0;
      const auto [end, error] = std::from_chars(first.data() + bracket + 1, first.data() + first.size() - 1, number);
      if (error != std::errc() || end != first.data() + first.size() - 1) return unknown();
      body = number;
      first = first.substr(0, bracket);
    }
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const Node& node) { return recording_.text(node.name) == first; });
    if (found == list.end()) return unknown();
    if (body) {
      if (!is_conditional(found->op) || *body >= found->bodies.size() || behind.empty()) return unknown();
      list = found->bodies[*body];
    } else if (behind.empty()) {
      return found->op;
    } else {
      return found->op == Op::graph ? op_in(path, behind, found->target) : unknown();
    }
    first = behind.substr(0, behind.find('/'));
    behind = first.size() < behind.size() ? behind.substr(first.size() + 1) : std::string_view();
  }
}

void Decoder::host_work(const At& at) {
  at.only({"command", "node", "ns"});
  const std::uint64_t place = place_in_program(at);
  const Command& command = recording_.command(place);
  if (command.op != Op::launch_graph) at.fault_at("command", "it is no launch of a graph");
  const At path = at.member("node");
  const Name node = text(path);
  if (functions_.count({command.target, node}) == 0) {
    const bool is_one = op_of(path, command.target) == Op::host_function;
    // A graph that was made again may have had it before.
    if (!is_one && !graph_made_again_) path.fault("this node is no host function");
    functions_.emplace(command.target, node);
  }
  recording_.add_work(place, {node, at.member("ns").duration()});
}

void Decoder::update_node(const At& at, Draft& draft) {
  Command& command = draft.command;
  at.only({"id", "op", "thread", "file", "line", "graph", "node", "uses", "to", "from"});
  command.target_kind = Target::graph;
  command.target = graph_named(at.member("graph"));
  const At path = at.member("node");
  command.name = text(path);
  const Op op = op_of(path, command.target);
  command.ends = at.has("to") || at.has("from");
  if (command.ends && at.has("uses")) at.fault_at("uses", "a node has uses, or ends");
  const bool any = op == Op::empty;
  if (!any && command.ends != (op == Op::copy || op == Op::fill)) {
    path.fault(command.ends ? "this node is no copy and no fill" : "this node has no uses that could be changed");
  }
  if (!command.ends) {
    if (!any && op != Op::launch && op != Op::external && op != Op::host_function)
      path.fault("this node has no uses that could be changed");
    draft.uses = operands(at.member("uses"), draft);
  } else if (op == Op::fill || (any && !at.has("from"))) {
    if (at.has("from")) at.fault_at("from", "a fill has none");
    draft.uses = {operand(at.member("to"), draft)};
    draft.uses[0].access = Access::out;
  } else {
    sides(at, draft.uses, draft);
  }
}

void Decoder::enable_node(const At& at, Draft& draft) {
  Command& command = draft.command;
  at.only({"id", "op", "thread", "file", "line", "graph", "node", "enabled"});
  command.target_kind = Target::graph;
  command.target = graph_named(at.member("graph"));
  const At path = at.member("node");
  command.name = text(path);
  static_cast<void>(op_of(path, command.target));
  command.flag = at.member("enabled").boolean();
}

}  // namespace weir::scenario
