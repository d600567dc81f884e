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

model::Call call_for(Action action, std::uint32_t target, std::uint32_t stream) {
  model::Call call;
  call.action = action;
  call.target = target;
  call.stream = stream;
  return call;
}

namespace {

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

/// In the place of one that is closed, if there is one that nobody looks at any more.
std::uint32_t OnlineModel::add_stream(const model::Stream& stream, StreamId id) {
  const bool may_reuse = !late() && guess_ == nullptr;
  const auto reused = std::find_if(closed_.begin(), closed_.end(), [&](std::uint32_t place) {
    return may_reuse && program_.streams[place].device == stream.device && simulation_.idle(place);
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
    grow();
  }
  return place;
}

void OnlineModel::close(StreamId stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  closed_.push_back(found->second);
  streams_.erase(found);
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
  if (events_.size() >= events_at_once_ && !late()) forget_events();
  std::uint32_t place;
  if (free_events_.empty()) {
    place = program_.events++;
    grow();
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
    grow();
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
  Step step;
  step.thread = thread;
  step.command = command.id;
  step.stream = stream;
  if (const auto* record = std::get_if<Record>(&command.op)) {
    step.after = Step::After::record;
    step.event = record->event_id;
    const std::uint32_t place = event_place(record->event_id, record->event, clocks[thread]);
    return make(call_for(Action::record, place, stream), std::move(step), clocks);
  }
  if (const auto* wait = std::get_if<Wait>(&command.op)) {
    step.after = Step::After::marker;
    if (wait->event != nullptr) {
      // An event that was never recorded holds nobody, but the call is made.
      const auto event = events_.find(wait->event_id);
      const std::uint32_t place = event != events_.end() ? event->second.place : never_recorded();
      return make(call_for(Action::wait_event, place, stream), std::move(step), clocks);
    }
    step.kind = Step::Kind::follow;
    for (const StreamId other : command.behind) {
      if (const auto one = streams_.find(other); one != streams_.end()) step.others.push_back(one->second);
    }
    return take(std::move(step), clocks);
  }
  if (const auto* graph = std::get_if<GraphLaunch>(&command.op)) {
    const auto known = graphs_.find(graph->id);
    return known == graphs_.end() ? Place{} : launch(known->second, std::move(step), clocks);
  }
  model::Call call = call_for(Action::enqueue, none, stream);
  call.task = known_task(task_of(command.op, command.uses, command.where, profile_, costs, estimated_));
  if (program_.tasks[call.task].work == model::Work::nothing) {
    step.after = Step::After::marker;
    step.kind = Step::Kind::follow;
    return take(std::move(step), clocks);
  }
  if (const auto* collective = std::get_if<Collective>(&command.op)) meet(*collective, call);
  step.after = Step::After::command;
  if (const auto* function = std::get_if<HostCall>(&command.op)) {
    never_called(*function->function);  // if one was there before it
    step.bodies.emplace_back(none, function->function);
  }
  return make(call, std::move(step), clocks);
}

void OnlineModel::allocate(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::allocate, device), {.thread = thread}, clocks);
}
void OnlineModel::synchronize_all(std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::sync_all), {.thread = thread}, clocks);
}
void OnlineModel::synchronize_device(std::uint32_t device, std::uint32_t thread, std::vector<double>& clocks) {
  make(call_for(Action::sync_device, device), {.thread = thread}, clocks);
}
void OnlineModel::synchronize_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks) {
  if (const auto found = streams_.find(stream); found != streams_.end())
    make(call_for(Action::sync_stream, none, found->second), {.thread = thread}, clocks);
}
void OnlineModel::synchronize_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks) {
  if (const auto found = events_.find(event); found != events_.end())
    make(call_for(Action::sync_event, found->second.place), {.thread = thread}, clocks);
}
bool OnlineModel::query_stream(StreamId stream, std::uint32_t thread, std::vector<double>& clocks) {
  const auto found = streams_.find(stream);
  return found == streams_.end() || query(call_for(Action::query_stream, none, found->second), thread, clocks);
}
bool OnlineModel::query_event(std::uint64_t event, std::uint32_t thread, std::vector<double>& clocks) {
  const auto found = events_.find(event);
  return found == events_.end() || query(call_for(Action::query_event, found->second.place), thread, clocks);
}

double OnlineModel::time_of_event(std::uint64_t event) const {
  const auto found = events_.find(event);
  if (found == events_.end()) return std::nan("");
  const model::Simulation& seen = guess_ != nullptr ? *guess_ : simulation_;
  double time = found->second.at;
  for (const std::uint32_t command : seen.last_of_event(found->second.place))
    time = std::max(time, seen.known_end(command));
  return time;
}

double OnlineModel::end_of_stream(StreamId stream) {
  double time = 0;
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return time;
  model::Simulation& ahead = seen_ahead();
  for (const std::uint32_t command : ahead.last_of_stream(found->second)) time = std::max(time, ahead.end_of(command));
  return time;
}

double OnlineModel::end_of_event(std::uint64_t event) {
  if (const auto found = events_.find(event); found != events_.end()) {
    model::Simulation& ahead = seen_ahead();
    for (const std::uint32_t command : ahead.last_of_event(found->second.place)) ahead.end_of(command);
  }
  return time_of_event(event);
}

std::pair<double, double> OnlineModel::times_of(const Place& place) const {
  if (!place.known) return {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
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

double OnlineModel::end_of(const Place& place, CommandId function) {
  model::Simulation& ahead = seen_ahead();
  if (!place.known) {
    const auto guessed = guessed_functions_.find(function);
    return guessed == guessed_functions_.end() ? ahead.now() : ahead.end_of(guessed->second);
  }
  return place.last != none ? ahead.end_of(place.last) : place.at;
}

void OnlineModel::snapshot(model::Program& program, model::Result& result, std::vector<CommandId>& commands,
                           std::vector<StreamId>& streams) const {
  program = program_;
  commands = commands_;
  streams = stream_ids_;
  // Without calls that are not made yet.
  program.calls.resize(simulation_.calls().items().size());
  commands.resize(program.calls.size());
  const std::uint32_t first_call = simulation_.calls().first(), first_span = simulation_.spans().first();
  const auto from = [](std::uint32_t number, std::uint32_t first) {
    return number == none || number < first ? none : number - first;
  };
  result.calls = simulation_.calls().items();
  if (begun_) {
    model::HostSpan& last = result.calls.back();
    if (last.begin <= 0) last.begin = simulation_.now();
    last.end = std::max(last.begin, last.end);
  }
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
    span.before = from(span.before, first_span);
    for (double* time : {&span.issued, &span.ready, &span.begin, &span.end, &span.last_block}) *time -= begin;
    result.makespan = std::max(result.makespan, span.end);
  }
  result.host = simulation_.host_time();
}

}  // namespace weir::sim
