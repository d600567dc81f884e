// Graphs in the simulation of a program while it runs.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "backends/sim/online_model.hpp"
#include "backends/sim/tasks.hpp"

namespace weir::sim {

using model::Action;
using model::none;

OnlineModel::GraphNode OnlineModel::node_of(const GraphNodeInfo& info, const Costs& costs) {
  GraphNode node{info.kind, info.parent, info.branch, info.enabled, none, {}};
  if (info.op != nullptr) {
    if (const auto* call = std::get_if<HostCall>(info.op)) node.function = call->function;
    if (const auto* record = std::get_if<Record>(info.op)) {
      node.event = record->event_id;
      node.state = record->event;
    }
    if (const auto* wait = std::get_if<Wait>(info.op)) node.event = wait->event_id;
  }
  node.depends.assign(info.depends.begin(), info.depends.end());
  if (info.op == nullptr) return node;
  const model::Task task = task_of(*info.op, info.uses, info.where, profile_, costs, estimated_);
  if (task.work != model::Work::nothing) node.task = known_task(task);
  return node;
}

void OnlineModel::keep_graph(const GraphInfo& info, std::uint32_t device, const Costs& costs) {
  if (graphs_.count(info.id) != 0) return;
  Graph graph;
  graph.device = device;
  for (const GraphNodeInfo& node : info.nodes) graph.nodes.push_back(node_of(node, costs));
  if (free_graphs_.empty()) {
    graph.place = static_cast<std::uint32_t>(program_.graphs.size());
    program_.graphs.emplace_back();
  } else {
    graph.place = free_graphs_.back();
    free_graphs_.pop_back();
  }
  graphs_.emplace(info.id, std::move(graph));
}

void OnlineModel::change_node(std::uint64_t id, std::uint32_t node, const GraphNodeInfo& info, const Costs& costs) {
  const auto found = graphs_.find(id);
  if (found == graphs_.end() || node >= found->second.nodes.size()) return;
  GraphNode now = node_of(info, costs);
  now.depends = std::move(found->second.nodes[node].depends);
  now.parent = found->second.nodes[node].parent;
  now.branch = found->second.nodes[node].branch;
  found->second.nodes[node] = std::move(now);
  found->second.changed = true;
}

void OnlineModel::drop_graph(std::uint64_t id) {
  const auto found = graphs_.find(id);
  if (found == graphs_.end()) return;
  gone_graphs_.push_back(found->second.place);
  if (found->second.visitor != none) closed_.push_back(found->second.visitor);
  graphs_.erase(found);
  if (!late()) forget_graphs();
}

/// Launches that are not made yet may be of them.
void OnlineModel::forget_graphs() {
  guess_.reset();
  for (const std::uint32_t place : gone_graphs_) {
    program_.graphs[place] = {};
    simulation_.forget_graph(place);
    free_graphs_.push_back(place);
  }
  gone_graphs_.clear();
}

/// For its next launch. Those that are not made yet are of what it was before, in another place.
void OnlineModel::prepare(Graph& graph, std::uint32_t thread, std::vector<double>& clocks) {
  const bool other_events = std::any_of(graph.events.begin(), graph.events.end(), [&](const auto& one) {
    const GraphNode& node = graph.nodes[one.first];
    const auto found = events_.find(node.event);
    const std::uint32_t place = found == events_.end() ? none : found->second.place;
    const model::Node& made = program_.graphs[graph.place][one.second];
    return node.state != nullptr ? place == none || made.records != place : made.waits != place;
  });
  if (!graph.changed && !other_events) return find_events(graph, clocks[thread]);
  if (late()) {
    gone_graphs_.push_back(graph.place);
    Step step;
    step.kind = Step::Kind::follow_graph;
    step.thread = thread;
    step.stream = static_cast<std::uint32_t>(program_.graphs.size());
    step.others = {graph.place};
    program_.graphs.push_back(model::Graph(program_.graphs[graph.place]));
    graph.place = step.stream;
    take(std::move(step), clocks);
  }
  if (graph.changed) translate(graph);
  find_events(graph, clocks[thread]);
}

void OnlineModel::translate(Graph& graph) {
  model::Graph made;
  graph.events.clear();
  graph.bodies.clear();
  graph.numbers = std::make_shared<std::vector<std::uint32_t>>();
  add_nodes(graph, made, -1, {}, true);
  program_.graphs[graph.place] = std::move(made);
  graph.changed = false;
}

/// What its records and waits are about is found at each launch: events come and go.
void OnlineModel::find_events(const Graph& graph, double at) {
  for (const auto& [number, place] : graph.events) {
    const GraphNode& node = graph.nodes[number];
    model::Node& made = program_.graphs[graph.place][place];
    if (node.state != nullptr) {
      made.records = event_place(node.event, node.state, at);
    } else {
      const auto found = events_.find(node.event);
      made.waits = found == events_.end() ? none : found->second.place;
    }
  }
}

/// The nodes of a parent, whose beginnings come behind those named; of a conditional one the first body, whose host functions may
/// run never, or often. Returns the ends.
std::vector<std::uint32_t> OnlineModel::add_nodes(Graph& graph, model::Graph& made, std::int32_t parent,
                                                  std::vector<std::uint32_t> behind, bool once) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> ends;  // of nodes, in the graph that is made
  std::set<std::uint32_t> followed;
  const std::function<void(std::uint32_t)> add = [&](std::uint32_t number) {
    if (ends.count(number) != 0) return;
    const GraphNode& node = graph.nodes[number];
    std::vector<std::uint32_t> after;
    for (const std::uint32_t before : node.depends) {
      add(before);
      followed.insert(before);
      const std::vector<std::uint32_t>& them = ends[before];
      after.insert(after.end(), them.begin(), them.end());
    }
    if (node.depends.empty()) after = behind;
    conditional_ = conditional_ || node.kind == NodeKind::conditional;
    const bool holds_others = node.kind == NodeKind::graph || node.kind == NodeKind::conditional;
    if (holds_others && node.enabled) {
      std::vector<std::uint32_t> inner =
          add_nodes(graph, made, static_cast<std::int32_t>(number), after, once && node.kind == NodeKind::graph);
      ends[number] = inner.empty() ? after : std::move(inner);
      return;
    }
    made.push_back({node.enabled ? node.task : none, std::move(after), none, none});
    graph.numbers->push_back(number);
    const auto at = static_cast<std::uint32_t>(made.size() - 1);
    if (node.function != nullptr && node.enabled && once) graph.bodies.emplace_back(at, node.function);
    if (node.event != 0 && node.enabled) graph.events.emplace_back(number, at);
    ends[number] = {at};
  };
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].parent == parent && graph.nodes[i].branch == 0) add(i);
  }
  std::vector<std::uint32_t> last;
  for (const auto& [number, its] : ends) {
    if (followed.count(number) == 0) last.insert(last.end(), its.begin(), its.end());
  }
  return last;
}

Place OnlineModel::launch(Graph& graph, Step step, std::vector<double>& clocks) {
  prepare(graph, step.thread, clocks);
  step.after = Step::After::graph;
  step.numbers = graph.numbers;
  step.bodies = graph.bodies;
  return make(call_for(Action::launch_graph, graph.place, step.stream), std::move(step), clocks);
}

Place OnlineModel::visit(const Command& command, double behind, std::uint32_t thread, std::vector<double>& clocks) {
  const auto known = graphs_.find(std::get<GraphLaunch>(command.op).id);
  if (known == graphs_.end()) return {};
  Graph& graph = known->second;
  if (graph.visitor == none) {
    graph.visitor = add_stream({graph.device, 0, model::Stream::Kind::non_blocking}, 0);
  }
  Step hold;
  hold.kind = Step::Kind::hold;
  hold.thread = thread;
  hold.stream = graph.visitor;
  hold.time = behind;
  take(std::move(hold), clocks);
  Step step;
  step.thread = thread;
  step.command = command.id;
  step.stream = graph.visitor;
  return launch(graph, std::move(step), clocks);
}

double OnlineModel::end_of_visit(const Command& command) {
  const auto known = graphs_.find(std::get<GraphLaunch>(command.op).id);
  if (known == graphs_.end() || known->second.visitor == none) return 0;
  double time = 0;
  model::Simulation& ahead = seen_ahead();
  for (const std::uint32_t one : ahead.last_of_stream(known->second.visitor)) time = std::max(time, ahead.end_of(one));
  return time;
}

}  // namespace weir::sim
