#include "backends/sim/online_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "backends/sim/model/kernel_task.hpp"
#include "backends/sim/tasks.hpp"

namespace weir::sim {

using model::Action;
using model::none;

namespace {

/// A timeline has the last ones at least; each takes some 250 bytes.
constexpr std::uint32_t kept_commands = 100'000;

model::Program nothing_yet() {
  model::Program program;
  program.devices = 0;
  program.threads = 0;
  return program;
}

std::string key_of(const model::Task& task) {
  std::string key;
  const auto add = [&](const auto& value) { key.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(task.work);
  add(task.pageable);
  add(task.staged);
  add(task.bytes);
  add(task.block_us);
  add(task.fixed_us);
  add(task.blocks);
  add(task.threads);
  add(task.shared_bytes);
  return key;
}

model::Call call_for(Action action, std::uint32_t target = none, std::uint32_t stream = none) {
  model::Call call;
  call.action = action;
  call.target = target;
  call.stream = stream;
  return call;
}

model::Stream stream_of(const StreamInfo& info, std::uint32_t device) {
  using Kind = model::Stream::Kind;
  return {device, info.priority, info.legacy ? Kind::legacy : info.blocking ? Kind::blocking : Kind::non_blocking};
}

}  // namespace

OnlineModel::OnlineModel(std::string name, model::Profile profile)
    : name_(std::move(name)),
      profile_(model::as_own(std::move(profile))),
      program_(nothing_yet()),
      simulation_(program_, profile_) {}

void OnlineModel::open(const StreamInfo& info, std::uint32_t device) {
  if (streams_.count(info.id) == 0) streams_[info.id] = add_stream(stream_of(info, device), info.id);
}

/// In the place of one that is closed, if there is one.
std::uint32_t OnlineModel::add_stream(const model::Stream& stream, StreamId id) {
  const auto reused = std::find_if(closed_.begin(), closed_.end(), [&](std::uint32_t place) {
    return program_.streams[place].device == stream.device && simulation_.idle(place);
  });
  std::uint32_t place;
  if (reused != closed_.end()) {
    place = *reused;
    closed_.erase(reused);
    program_.streams[place] = stream;
    simulation_.reopen(place);
    stream_ids_[place] = id;
  } else {
    place = static_cast<std::uint32_t>(program_.streams.size());
    program_.streams.push_back(stream);
    stream_ids_.push_back(id);
    simulation_.grow();
  }
  return place;
}

void OnlineModel::close(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  closed_.push_back(found->second);
  streams_.erase(found);
}

bool OnlineModel::make(model::Call call, std::uint32_t thread, std::vector<double>& clocks, CommandId command) {
  if (program_.threads < clocks.size()) {
    program_.threads = static_cast<std::uint32_t>(clocks.size());
    simulation_.grow();
  }
  simulation_.set_clock(thread, clocks[thread]);
  if (call.action == Action::enqueue || call.action == Action::launch_graph) questions_.forget(thread);
  call.thread = thread;
  program_.calls.push_back(call);
  commands_.push_back(command);
  const bool answer = simulation_.call();
  clocks[thread] = simulation_.clock(thread);
  if (simulation_.drop_question()) {
    program_.calls.pop_back();
    commands_.pop_back();
  }
  const std::uint32_t first = simulation_.calls().first();
  const auto gone = static_cast<std::ptrdiff_t>(simulation_.forget(kept_commands) - first);
  program_.calls.erase(program_.calls.begin(), program_.calls.begin() + gone);
  commands_.erase(commands_.begin(), commands_.begin() + gone);
  return answer;
}

std::uint32_t OnlineModel::known_task(const model::Task& task) {
  // Programs do the same again and again.
  if (last_task_ < program_.tasks.size() && program_.tasks[last_task_] == task) return last_task_;
  const auto [found, fresh] = tasks_.emplace(key_of(task), static_cast<std::uint32_t>(program_.tasks.size()));
  if (fresh) program_.tasks.push_back(task);
  return last_task_ = found->second;
}

std::uint32_t OnlineModel::event_place(std::uint64_t event, const detail::EventState* state, double at) {
  if (const auto found = events_.find(event); found != events_.end()) {
    found->second.at = at;
    return found->second.place;
  }
  if (events_.size() >= events_at_once_) forget_events();
  std::uint32_t place;
  if (free_events_.empty()) {
    place = program_.events++;
    simulation_.grow();
  } else {
    place = free_events_.back();
    free_events_.pop_back();
  }
  events_.emplace(event, Event{place, at, state});
  return place;
}

std::uint32_t OnlineModel::never_recorded() {
  if (never_recorded_ == none) {
    never_recorded_ = program_.events++;
    simulation_.grow();
  }
  return never_recorded_;
}

/// Those whose owners are gone.
void OnlineModel::forget_events() {
  for (auto one = events_.begin(); one != events_.end();) {
    if ((one->second.state->id.load(std::memory_order_relaxed) & ~detail::captured_bit) == one->first) {
      ++one;
      continue;
    }
    free_events_.push_back(one->second.place);
    one = events_.erase(one);
  }
  events_at_once_ = std::max<std::size_t>(1024, 2 * events_.size());
}

Place OnlineModel::submit(const Command& command, std::uint32_t thread, std::vector<double>& clocks,
                          const Costs& costs) {
  const auto found = streams_.find(command.stream);
  if (found == streams_.end()) return {};
  const std::uint32_t stream = found->second;
  Place place;
  const auto marker = [&] {
    place.behind = simulation_.last_of_stream(stream);
    place.at = clocks[thread];
  };
  model::Call call;
  call.stream = stream;
  if (const auto* record = std::get_if<Record>(&command.op)) {
    call.action = Action::record;
    call.target = event_place(record->event_id, record->event, clocks[thread]);
    make(call, thread, clocks, command.id);
    events_.at(record->event_id).at = clocks[thread];
    marker();
  } else if (const auto* wait = std::get_if<Wait>(&command.op)) {
    if (wait->event == nullptr) {
      for (const StreamId other : command.behind) {
        if (const auto one = streams_.find(other); one != streams_.end()) simulation_.follow(stream, one->second);
      }
    } else {
      // An event that was never recorded holds nobody, but the call is made.
      const auto event = events_.find(wait->event_id);
      call.action = Action::wait_event;
      call.target = event != events_.end() ? event->second.place : never_recorded();
      make(call, thread, clocks, command.id);
    }
    marker();
  } else if (const auto* graph = std::get_if<GraphLaunch>(&command.op)) {
    const auto known = graphs_.find(graph->id);
    if (known != graphs_.end()) place = launch(known->second, stream, command.id, thread, clocks);
  } else {
    call.action = Action::enqueue;
    call.task = known_task(task_of(command.op, command.uses, command.where, profile_, costs, estimated_));
    if (program_.tasks[call.task].work == model::Work::nothing) {
      marker();
      return place;
    }
    if (const auto* collective = std::get_if<Collective>(&command.op)) meet(*collective, call);
    make(call, thread, clocks, command.id);
    // With implicit synchronisation there are others before and behind it.
    const model::Window<model::Span>& spans = simulation_.spans();
    for (std::uint32_t i = spans.end(); i-- > spans.first();) {
      if (spans[i].task == none) continue;
      place.first = place.last = i;
      break;
    }
  }
  return place;
}

Place OnlineModel::launch(Graph& graph, std::uint32_t stream, CommandId command, std::uint32_t thread,
                          std::vector<double>& clocks) {
  if (graph.changed) translate(graph);
  find_events(graph, clocks[thread]);
  Place place;
  place.first = simulation_.next_command();
  make(call_for(Action::launch_graph, graph.place, stream), thread, clocks, command);
  place.last = simulation_.last_of_stream(stream).back();
  place.numbers = graph.numbers;
  return place;
}

Place OnlineModel::visit(const Command& command, double behind, std::uint32_t thread, std::vector<double>& clocks) {
  const auto known = graphs_.find(std::get<GraphLaunch>(command.op).id);
  if (known == graphs_.end()) return {};
  Graph& graph = known->second;
  if (graph.visitor == none) {
    graph.visitor = add_stream({graph.device, 0, model::Stream::Kind::non_blocking}, 0);
  }
  simulation_.hold(graph.visitor, behind);
  return launch(graph, graph.visitor, command.id, thread, clocks);
}

void OnlineModel::allocate(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::allocate, device), thread, clocks);
}
void OnlineModel::synchronize_all(std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::sync_all), thread, clocks);
}
void OnlineModel::synchronize_device(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::sync_device, device), thread, clocks);
}
void OnlineModel::synchronize_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks) {
  if (const auto found = streams_.find(stream); found != streams_.end())
    make(call_for(Action::sync_stream, none, found->second), thread, clocks);
}
void OnlineModel::synchronize_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks) {
  if (const auto found = events_.find(event); found != events_.end())
    make(call_for(Action::sync_event, found->second.place), thread, clocks);
}
bool OnlineModel::query_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks) {
  const auto found = streams_.find(stream);
  return found == streams_.end() || query(call_for(Action::query_stream, none, found->second), thread, clocks);
}
bool OnlineModel::query_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks) {
  const auto found = events_.find(event);
  return found == events_.end() || query(call_for(Action::query_event, found->second.place), thread, clocks);
}

bool OnlineModel::query(const model::Call& call, std::uint32_t thread, std::vector<double>& clocks) {
  bool answer = make(call, thread, clocks);
  if (answer || profile_.host.query_us > 0) return answer;
  // Who asks again and again for nothing goes on with time: else the answer would never change.
  if (questions_.again(call, thread, clocks[thread])) {
    const double next = simulation_.next_time(clocks[thread]);
    answer = make(call, thread, clocks);
    if (!answer && next < std::numeric_limits<double>::infinity()) {
      clocks[thread] = std::max(clocks[thread], next);
      questions_.went_on(thread, clocks[thread]);
    }
  }
  return answer;
}

OnlineModel::GraphNode OnlineModel::node_of(const GraphNodeInfo& info, const Costs& costs) {
  GraphNode node{info.kind, info.parent, info.branch, info.enabled, none, {}};
  if (info.op != nullptr) {
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
  program_.graphs[found->second.place] = {};
  simulation_.forget_graph(found->second.place);
  if (found->second.visitor != none) closed_.push_back(found->second.visitor);
  free_graphs_.push_back(found->second.place);
  graphs_.erase(found);
}

void OnlineModel::translate(Graph& graph) {
  model::Graph made;
  graph.events.clear();
  graph.numbers = std::make_shared<std::vector<std::uint32_t>>();
  add_nodes(graph, made, -1, {});
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

/// The nodes of a parent, whose beginnings come behind those named; of a conditional one the first body. Returns the ends.
std::vector<std::uint32_t> OnlineModel::add_nodes(Graph& graph, model::Graph& made, std::int32_t parent,
                                                  std::vector<std::uint32_t> behind) {
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
      std::vector<std::uint32_t> inner = add_nodes(graph, made, static_cast<std::int32_t>(number), after);
      ends[number] = inner.empty() ? after : std::move(inner);
      return;
    }
    made.push_back({node.enabled ? node.task : none, std::move(after), none, none});
    graph.numbers->push_back(number);
    const auto at = static_cast<std::uint32_t>(made.size() - 1);
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

double OnlineModel::time_of_event(std::uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return std::nan("");
  double time = found->second.at;
  for (const std::uint32_t command : simulation_.last_of_event(found->second.place))
    time = std::max(time, simulation_.known_end(command));
  return time;
}

void OnlineModel::hold(StreamId stream, double time) {
  if (const auto found = streams_.find(stream); found != streams_.end()) simulation_.hold(found->second, time);
}

double OnlineModel::end_of_stream(StreamId stream) {
  double time = 0;
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return time;
  for (const std::uint32_t command : simulation_.last_of_stream(found->second))
    time = std::max(time, simulation_.end_of(command));
  return time;
}

double OnlineModel::end_of_event(std::uint64_t event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    for (const std::uint32_t command : simulation_.last_of_event(found->second.place)) simulation_.end_of(command);
  }
  return time_of_event(event);
}

std::pair<double, double> OnlineModel::times_of(const Place& place) const {
  if (place.first == none) {
    double time = place.at;
    for (const std::uint32_t command : place.behind) time = std::max(time, simulation_.known_end(command));
    return {time, time};
  }
  const double end = simulation_.known_end(place.last);
  if (std::isinf(end) || place.first < simulation_.spans().first()) return {end, end};
  return {simulation_.spans()[place.first].begin, end};
}

std::vector<OnlineModel::NodeTimes> OnlineModel::nodes_of(const Place& place) const {
  const model::Window<model::Span>& spans = simulation_.spans();
  std::vector<NodeTimes> nodes;
  if (place.numbers == nullptr || place.first < spans.first()) return nodes;
  for (std::uint32_t i = place.first; i < place.last; ++i) {
    const model::Span& span = spans[i];
    if (span.node != none && span.task != none) nodes.push_back({(*place.numbers)[span.node], span.begin, span.end});
  }
  std::stable_sort(nodes.begin(), nodes.end(), [](const NodeTimes& a, const NodeTimes& b) { return a.end < b.end; });
  return nodes;
}

double OnlineModel::end_of(const Place& place) {
  double time = place.at;
  if (place.last != none) time = simulation_.end_of(place.last);
  return time;
}

void OnlineModel::snapshot(model::Program& program, model::Result& result, std::vector<CommandId>& commands,
                           std::vector<StreamId>& streams) const {
  program = program_;
  commands = commands_;
  streams = stream_ids_;
  const std::uint32_t first_call = simulation_.calls().first(), first_span = simulation_.spans().first();
  const auto from = [](std::uint32_t number, std::uint32_t first) {
    return number == none || number < first ? none : number - first;
  };
  result.calls = simulation_.calls().items();
  double begin = std::numeric_limits<double>::infinity();
  for (model::HostSpan& call : result.calls) {
    call.awaited = from(call.awaited, first_span);
    begin = std::min(begin, call.begin);
  }
  if (result.calls.empty()) begin = 0;
  for (model::HostSpan& call : result.calls) {
    call.begin -= begin;
    call.end -= begin;
    result.makespan = std::max(result.makespan, call.end);
  }
  result.spans = simulation_.spans().items();
  for (std::uint32_t i = 0; i < result.spans.size(); ++i) {
    model::Span& span = result.spans[i];
    if (std::isinf(simulation_.known_end(first_span + i))) {
      span = {};  // not over
      continue;
    }
    span.call = from(span.call, first_call);
    span.behind = from(span.behind, first_span);
    span.holder = from(span.holder, first_span);
    for (double* time : {&span.issued, &span.ready, &span.begin, &span.end, &span.last_block}) *time -= begin;
    result.makespan = std::max(result.makespan, span.end);
  }
  result.host = simulation_.host_time();
}

}  // namespace weir::sim
