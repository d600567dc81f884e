#include "predict/graphs.hpp"

#include <algorithm>

namespace weir::predict {

using recorded::Op;
using sim::model::none;

std::uint32_t Graphs::add_task(Op op, std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) {
  program_.tasks.push_back(tasks_.make(op, uses, cost));
  return static_cast<std::uint32_t>(program_.tasks.size() - 1);
}

std::uint32_t Graphs::add(Built& graph, std::uint32_t task, std::vector<std::uint32_t> after, const std::string& path) {
  const auto place = static_cast<std::uint32_t>(graph.nodes.size());
  graph.nodes.push_back({task, std::move(after)});
  graph.paths.push_back(path);
  if (!path.empty()) graph.places.emplace(path, place);
  return place;
}

std::uint32_t Graphs::add_child(Built& graph, std::uint32_t name, std::uint32_t begin, const std::string& path) {
  const auto found = graphs_.find(name);
  std::vector<std::uint32_t> ends{begin};
  if (found != graphs_.end()) {
    const Built& child = found->second;
    const auto base = static_cast<std::uint32_t>(graph.nodes.size());
    for (std::size_t i = 0; i < child.nodes.size(); ++i) {
      std::vector<std::uint32_t> after;
      for (const std::uint32_t one : child.nodes[i].after) after.push_back(base + one);
      if (after.empty()) after.push_back(begin);
      const bool disabled = child.disabled.count(static_cast<std::uint32_t>(i)) > 0;
      const std::uint32_t place = add(graph, child.nodes[i].task, std::move(after),
                                      child.paths[i].empty() ? std::string() : path + "/" + child.paths[i]);
      graph.nodes[place].waits = child.nodes[i].waits;
      graph.nodes[place].records = child.nodes[i].records;
      if (disabled) graph.disabled.insert(place);
      ends.push_back(place);
    }
  }
  return add(graph, none, std::move(ends), {});
}

std::uint32_t Graphs::add_list(Built& graph, std::span<const recorded::Node> nodes, std::uint32_t begin,
                               const std::string& path) {
  std::vector<std::uint32_t> places, ends;
  for (const recorded::Node& node : nodes) {
    std::vector<std::uint32_t> after;
    for (const std::uint32_t one : node.after) after.push_back(places[one]);
    if (after.empty() && begin != none) after.push_back(begin);
    const std::string own = path + recording_.text(node.name);
    if (node.op == Op::graph) {
      places.push_back(add_child(graph, node.target, add(graph, none, std::move(after), own), own));
    } else if (node.op == Op::if_ || node.op == Op::switch_ || node.op == Op::while_) {
      conditional_ = true;
      const std::uint32_t inside = add(graph, none, std::move(after), own);
      places.push_back(node.bodies.empty() ? inside : add_list(graph, node.bodies.front(), inside, own + "[0]/"));
    } else {
      const bool works = node.op == Op::launch || node.op == Op::external || node.op == Op::host_function ||
                         node.op == Op::copy || node.op == Op::fill;
      const std::uint32_t task = works ? add_task(node.op, node.uses, node.cost) : none;
      places.push_back(add(graph, task, std::move(after), own));
      if (node.op == Op::wait) graph.nodes.back().waits = node.target;
      if (node.op == Op::record) graph.nodes.back().records = node.target;
    }
    ends.push_back(places.back());
  }
  if (begin != none) ends.push_back(begin);
  return begin == none ? none : add(graph, none, std::move(ends), {});
}

void Graphs::build(const recorded::Command& command) {
  Built graph;
  add_list(graph, recording_.nodes(command), none, {});
  graphs_[command.target] = std::move(graph);
}

std::uint32_t Graphs::current(std::uint32_t name) {
  const auto found = graphs_.find(name);
  if (found == graphs_.end()) return none;
  // Made at the first launch; changes come before it, or make another one.
  Built& graph = found->second;
  if (graph.made == none) {
    graph.made = static_cast<std::uint32_t>(program_.graphs.size());
    sim::model::Graph made = graph.nodes;
    for (const std::uint32_t node : graph.disabled) made[node].task = none;
    program_.graphs.push_back(std::move(made));
  }
  return graph.made;
}

std::uint32_t Graphs::node(std::uint32_t graph, std::uint32_t path) const {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return none;
  const auto place = found->second.places.find(std::string_view(recording_.text(path)));
  return place == found->second.places.end() ? none : place->second;
}

Graphs::Built* Graphs::changed(const recorded::Command& command, std::uint32_t& node) {
  const auto graph = graphs_.find(command.target);
  if (graph == graphs_.end()) return nullptr;
  const auto place = graph->second.places.find(std::string_view(recording_.text(command.name)));
  if (place == graph->second.places.end()) return nullptr;
  node = place->second;
  graph->second.made = none;
  return &graph->second;
}

void Graphs::update(const recorded::Command& command) {
  std::uint32_t node = none;
  Built* graph = changed(command, node);
  // A kernel's cost stays what it was: only its operands change.
  if (!graph || !command.ends) return;
  std::vector<recorded::Use> uses;
  for (std::size_t i = 0; i < command.use_count; ++i) uses.push_back(recording_.use(command, i));
  graph->nodes[node].task = add_task(uses.size() == 2 ? Op::copy : Op::fill, uses, {});
}

void Graphs::enable(const recorded::Command& command) {
  std::uint32_t node = none;
  Built* graph = changed(command, node);
  if (!graph) return;
  if (command.flag) {
    graph->disabled.erase(node);
  } else {
    graph->disabled.insert(node);
  }
}

void Graphs::begin_capture(std::uint32_t stream) {
  captures_.push_back({stream, {}, {}, {}});
  captures_.back().tails[stream];
}

void Graphs::end_capture(const recorded::Command& command) {
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const Capture& one) { return one.origin == command.stream; });
  if (found == captures_.end()) throw std::string("its stream captures nothing");
  graphs_[command.target] = std::move(found->graph);
  captures_.erase(found);
}

Graphs::Capture* Graphs::capture_of(std::uint32_t stream) {
  for (Capture& capture : captures_) {
    if (capture.tails.count(stream) > 0) return &capture;
  }
  return nullptr;
}

bool Graphs::captured(const recorded::Command& command, std::size_t place) {
  if (captures_.empty() || command.stream == recorded::none) return false;
  Capture* capture = capture_of(command.stream);
  if (!capture) {
    // A wait for what a capture holds takes the stream into it.
    if (command.op != Op::wait || command.flag) return false;
    for (Capture& one : captures_) {
      const bool event = command.target_kind == recorded::Target::event && one.events.count(command.target) > 0;
      const bool other = command.target_kind == recorded::Target::stream && one.tails.count(command.target) > 0;
      if (event || other) capture = &one;
    }
    if (!capture) return false;
  }
  std::vector<std::uint32_t>& tail = capture->tails[command.stream];
  const auto join = [&](const std::vector<std::uint32_t>& more) { tail.insert(tail.end(), more.begin(), more.end()); };
  const auto node = [&](std::uint32_t task) { tail.assign(1, add(capture->graph, task, tail, recording_.id(place))); };
  if (command.flag && (command.op == Op::record || command.op == Op::wait)) {
    // Of events outside of the graph.
    node(none);
    (command.op == Op::wait ? capture->graph.nodes.back().waits : capture->graph.nodes.back().records) = command.target;
    return true;
  }
  switch (command.op) {
    case Op::record: capture->events[command.target] = tail; return true;
    case Op::wait:
      if (command.target_kind == recorded::Target::event) {
        const std::vector<std::uint32_t> event = capture->events[command.target];
        join(event);
      } else {
        const std::vector<std::uint32_t> other = capture->tails[command.target];
        join(other);
      }
      return true;
    case Op::launch:
    case Op::external:
    case Op::host_function:
    case Op::copy:
    case Op::fill: {
      std::vector<recorded::Use> uses;
      for (std::size_t i = 0; i < command.use_count; ++i) uses.push_back(recording_.use(command, i));
      node(add_task(command.op, uses, recording_.cost(command)));
      return true;
    }
    case Op::launch_graph: {
      const std::uint32_t begin = add(capture->graph, none, tail, recording_.id(place));
      tail.assign(1, add_child(capture->graph, command.target, begin, recording_.id(place)));
      return true;
    }
    case Op::alloc:
    case Op::free: return true;
    default: return false;
  }
}

}  // namespace weir::predict
