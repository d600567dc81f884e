// From calls to commands: what each comes behind.
#include <algorithm>

#include "backends/sim/model/collective_task.hpp"
#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

namespace {

bool is_link_copy(Work work) { return work == Work::h2d || work == Work::d2h || work == Work::copy_peer; }
/// Or is a kernel of the driver's or of NCCL's.
bool on_multiprocessors(Work work) {
  return work == Work::kernel || work == Work::fill || work == Work::copy_within || work == Work::collective;
}

}  // namespace

double Simulation::cost_of(const Task& task) const {
  switch (task.work) {
    case Work::kernel: return task.bytes > 0 ? profile_.host.launch_memory_us : profile_.host.launch_us;
    case Work::fill: return profile_.host.fill_us;
    case Work::copy_within: return profile_.host.copy_within_us;
    case Work::host_function: return profile_.host.host_function_us;
    case Work::collective: return launches_of_a_collective * profile_.host.launch_us;
    case Work::nothing: return 0;
    default: return profile_.host.copy_us;
  }
}

/// From the call's end to the engine.
double Simulation::way_of(const Task& task) const {
  if (on_multiprocessors(task.work)) return profile_.start.kernel_us;
  if (task.work == Work::host_function) return profile_.start.host_function_us;
  return is_link_copy(task.work) ? profile_.start.copy_us : 0;
}

double Simulation::hop(const Task& from, const Task& to, std::uint32_t events, Cause cause, bool in_graph) const {
  double us = 0;
  if (from.work == Work::host_function && to.work != Work::host_function) us += profile_.hop.from_host_function_us;
  const bool from_link = is_link_copy(from.work), to_link = is_link_copy(to.work);
  if (on_multiprocessors(from.work) && on_multiprocessors(to.work)) {
    us += in_graph ? profile_.hop.graph_us : profile_.hop.kernel_kernel_us;
  } else if (from_link && on_multiprocessors(to.work)) {
    us += profile_.hop.copy_kernel_us;
  } else if (on_multiprocessors(from.work) && to_link) {
    us += profile_.hop.kernel_copy_us;
  } else if (from_link && to_link && from.work != to.work) {
    us += profile_.hop.copy_copy_us;
  }
  if (events > 0 && to.work != Work::nothing) us += profile_.hop.event_us + (events - 1) * profile_.hop.passed_event_us;
  if (cause == Cause::barrier) us += profile_.hop.legacy_us;
  return us;
}

std::uint32_t Simulation::add_command(std::uint32_t call, std::uint32_t task, std::uint32_t stream,
                                      std::uint32_t device, double issued, double ready) {
  const std::uint32_t number = commands_.end();
  Command command;
  command.device = device;
  commands_.push_back(command);
  Span span;
  span.call = call;
  span.task = task;
  span.stream = stream;
  span.issued = issued;
  span.ready = ready;
  spans_.push_back(span);
  return number;
}

void Simulation::enter_stream(std::uint32_t command, std::uint32_t stream) {
  StreamState& state = streams_[stream];
  legacy_rules(command, stream);
  const Task& task = task_of(command);
  for (const Behind& behind : state.tail) {
    const Task& from = task_of(behind.command);
    const double us = hop(from, task, behind.events, behind.cause, false);
    commands_[command].crowds = commands_[command].crowds || (us > 0 && from.work != task.work);
    come_behind(behind.command, command, Phase::ended, us, behind.cause);
    if (profile_.dependency_check != 0 && behind.same_stream()) check_dependencies(command, behind.command);
  }
  if (profile_.dependency_check != 0 && task.work == Work::kernel) {
    Device& device = devices_[commands_[command].device];
    if (device.all_checked != none) come_behind(device.all_checked, command, Phase::ended, 0, Cause::check);
    device.all_started = join(device.all_started, command, Phase::started);
  }
  share_queue(command, stream);
  continue_run(command, stream);
  state.tail.assign(1, {command, Cause::order, 0});
  ++state.unfinished;
}

/// `behind` is the command before it in its stream.
void Simulation::check_dependencies(std::uint32_t command, std::uint32_t behind) {
  if (task_of(behind).work != Work::kernel) return;
  Device& device = devices_[commands_[command].device];
  if (device.all_started != none) come_behind(device.all_started, command, Phase::ended, 0, Cause::check);
  check_launch(device, behind);
}

void Simulation::check_launch(Device& device, std::uint32_t kernel) {
  if (ended(kernel) || device.last_checked == kernel) return;
  device.last_checked = kernel;
  device.all_checked = join(device.all_checked, kernel, Phase::ended);
}

/// One that stands for what `before` stands for, and for the kernel: so each command comes behind one instead of all.
std::uint32_t Simulation::join(std::uint32_t before, std::uint32_t kernel, Phase phase) {
  const std::uint32_t made =
      add_command(spans_[kernel].call, none, none, commands_[kernel].device, spans_[kernel].issued, 0);
  if (before != none) come_behind(before, made, Phase::ended, 0, Cause::check);
  come_behind(kernel, made, phase, 0, Cause::check);
  one_less(made, 0, Cause::host, none);
  return made;
}

void Simulation::legacy_rules(std::uint32_t command, std::uint32_t stream) {
  using Kind = Stream::Kind;
  const std::uint32_t place = program_.streams[stream].device;
  Device& device = devices_[place];
  if (program_.streams[stream].kind == Kind::legacy) {
    for (const std::uint32_t other : device.streams) {
      if (program_.streams[other].kind != Kind::blocking) continue;
      for (const Behind& behind : streams_[other].tail) {
        const double us = hop(task_of(behind.command), task_of(command), 1, Cause::barrier, false);
        come_behind(behind.command, command, Phase::ended, us, Cause::barrier);
      }
    }
    device.legacy = command;
  } else if (program_.streams[stream].kind == Kind::blocking && device.legacy != streams_[stream].legacy_seen) {
    streams_[stream].legacy_seen = device.legacy;
    const double us = hop(task_of(device.legacy), task_of(command), 1, Cause::barrier, false);
    come_behind(device.legacy, command, Phase::ended, us, Cause::barrier);
  }
}

/// A record or a wait in the legacy stream is a command like others: behind all blocking streams, and before what they are
/// given next.
void Simulation::enter_legacy(std::uint32_t stream, std::uint32_t call) {
  const std::uint32_t device = program_.streams[stream].device;
  const bool separates = profile_.implicit_synchronization != 0;
  if (separates) separate(device, call, now_);
  const std::uint32_t made = add_command(call, none, stream, device, now_, 0);
  enter_stream(made, stream);
  if (separates) separate(device, call, now_);
  one_less(made, 0, Cause::host, none);
}

void Simulation::wait_in_legacy(std::uint32_t stream, std::uint32_t call) {
  if (program_.streams[stream].kind == Stream::Kind::legacy) enter_legacy(stream, call);
}

/// What a record in the stream stands for now. It comes behind the legacy stream as commands do; in the legacy stream it is a
/// command like others, behind all blocking streams.
std::vector<Simulation::Behind> Simulation::recorded(std::uint32_t stream, std::uint32_t call) {
  using Kind = Stream::Kind;
  const std::uint32_t device = program_.streams[stream].device;
  const Kind kind = program_.streams[stream].kind;
  if (kind == Kind::legacy) enter_legacy(stream, call);
  const std::uint32_t legacy = devices_[device].legacy;
  if (kind == Kind::blocking && legacy != streams_[stream].legacy_seen) {
    streams_[stream].legacy_seen = legacy;
    add_to_tail(stream, {{legacy, Cause::order, 0}});
  }
  std::vector<Behind> all = streams_[stream].tail;
  std::erase_if(all, only_barrier);
  return all;
}

/// Where streams share a work queue, its head holds what was issued behind it.
void Simulation::share_queue(std::uint32_t command, std::uint32_t stream) {
  Device& device = devices_[program_.streams[stream].device];
  if (device.streams.size() <= device.queue_last.size()) return;
  std::uint32_t& last = device.queue_last[streams_[stream].queue];
  if (last != none && !forgotten(last) && spans_[last].stream != stream)
    come_behind(last, command, Phase::taken, 0, Cause::queue);
  last = command;
}

/// What is issued from now on, in any stream of the device, comes behind all that was issued before.
void Simulation::separate(std::uint32_t device, std::uint32_t call, double time) {
  const std::uint32_t join = add_command(call, none, none, device, time, time);
  for (const std::uint32_t stream : devices_[device].streams) {
    for (const Behind& behind : streams_[stream].tail)
      come_behind(behind.command, join, Phase::ended, 0, Cause::barrier);
    std::erase_if(streams_[stream].tail, only_barrier);
    streams_[stream].tail.push_back({join, Cause::barrier, 1});
  }
  one_less(join, time, Cause::host, none);
}

/// In a stream, so that who waits for the later one waits for both.
bool Simulation::comes_before(const Behind& earlier, const Behind& later) const {
  if (earlier.command >= later.command || earlier.cause != later.cause) return false;
  if (forgotten(earlier.command)) return false;
  const Span &a = spans_[earlier.command], &b = spans_[later.command];
  return a.stream != none && a.stream == b.stream && a.node == none && b.node == none;
}

void Simulation::add_to_tail(std::uint32_t stream, const std::vector<Behind>& events) {
  std::vector<Behind>& tail = streams_[stream].tail;
  for (const Behind& event : events) {
    if (!tail.empty() && ended(event.command)) continue;
    const bool known = std::any_of(tail.begin(), tail.end(), [&](const Behind& behind) {
      return behind.command == event.command || comes_before(event, behind);
    });
    if (known) continue;
    std::erase_if(tail, [&](const Behind& behind) { return comes_before(behind, event); });
    tail.push_back({event.command, event.cause, static_cast<std::uint8_t>(std::min(event.events + 1, 255))});
  }
  if (tail.size() <= 8) return;
  // One that stands for all, so that lists stay short.
  const std::uint32_t join = add_command(none, none, none, program_.streams[stream].device, now_, 0);
  for (const Behind& behind : tail) come_behind(behind.command, join, Phase::ended, 0, Cause::order);
  tail.assign(1, {join, Cause::order, 0});
  one_less(join, 0, Cause::host, none);
}

void Simulation::enqueue(const Call& call, std::uint32_t number, double issued) {
  const Task& task = program_.tasks[call.task];
  const std::uint32_t device = program_.streams[call.stream].device;
  double& clock = clocks_[call.thread];
  const bool small = task.pageable && task.work == Work::h2d && task.bytes <= profile_.pageable.small_bytes;
  const bool separates =
      profile_.implicit_synchronization != 0 && (task.work == Work::fill || task.work == Work::copy_within ||
                                                 program_.streams[call.stream].kind == Stream::Kind::legacy);
  if (separates) separate(device, number, clock);
  const std::uint32_t command = add_command(number, call.task, call.stream, device, issued, clock + way_of(task));
  if (task.work == Work::collective) {
    enter_collective(command, call);
  } else {
    enter_stream(command, call.stream);
  }
  if (is_link_copy(task.work) && profile_.copies_in_order != 0)
    devices_[device].engines[engine_of(task.work)].issued.push_back(command);
  if (separates && program_.streams[call.stream].kind == Stream::Kind::legacy) separate(device, number, clock);
  one_less(command, 0, Cause::host, none);
  // The host waits for copies of pageable memory, but for small ones to the device.
  if (task.pageable && !small) {
    waiting_.on = true;
    waiting_.earliest = clock;
    waiting_.commands.assign(1, command);
    waiting_.left = 1;
    commands_[command].awaited = true;
  }
}

void Simulation::launch_graph(const Call& call, std::uint32_t number, double issued) {
  const std::uint32_t device = program_.streams[call.stream].device;
  // Each branch that begins at once costs the host and the device.
  const Graph& graph = program_.graphs[call.target];
  const auto roots = std::count_if(graph.begin(), graph.end(), [](const Node& node) { return node.after.empty(); });
  const double branches = static_cast<double>(std::max<std::ptrdiff_t>(roots, 1) - 1);
  clocks_[call.thread] += branches * profile_.host.graph_branch_us;
  host_ += branches * profile_.host.graph_branch_us;
  const double arrival = clocks_[call.thread] + profile_.start.kernel_us + branches * profile_.start.graph_branch_us;
  const bool separates =
      profile_.implicit_synchronization != 0 && program_.streams[call.stream].kind == Stream::Kind::legacy;
  if (separates) separate(device, number, clocks_[call.thread]);
  const std::uint32_t first = add_command(number, none, none, device, issued, arrival);
  // The beginning is not the stream's last command: the end is.
  enter_stream(first, call.stream);
  spans_[first].stream = none;
  --streams_[call.stream].unfinished;
  // Launches of one graph come one after the other, whatever their streams.
  if (graphs_last_.size() <= call.target) graphs_last_.resize(call.target + 1, none);
  const std::uint32_t before = graphs_last_[call.target];
  if (before != none) come_behind(before, first, Phase::ended, 0, Cause::order);
  one_less(first, 0, Cause::host, none);

  const std::uint32_t base = commands_.end();
  std::vector<bool> followed(graph.size());
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    const std::uint32_t node = add_command(number, graph[i].task, call.stream, device, issued, 0);
    spans_[node].node = i;
    const Task& task = task_of(node);
    if (graph[i].after.empty()) come_behind(first, node, Phase::ended, 0, Cause::order);
    for (const std::uint32_t after : graph[i].after) {
      followed[after] = true;
      come_behind(base + after, node, Phase::ended, hop(task_of(base + after), task, 0, Cause::order, true),
                  Cause::order);
    }
    if (graph[i].waits != none) {
      for (const Behind& event : events_[graph[i].waits])
        come_behind(event.command, node, Phase::ended, hop(task_of(event.command), task, 1, event.cause, false),
                    event.cause);
    }
    if (is_link_copy(task.work) && profile_.copies_in_order != 0)
      devices_[device].engines[engine_of(task.work)].issued.push_back(node);
    one_less(node, 0, Cause::host, none);
  }
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    if (graph[i].records != none) events_[graph[i].records].assign(1, {base + i, Cause::order, 0});
  }
  const std::uint32_t last = add_command(number, none, call.stream, device, issued, 0);
  come_behind(first, last, Phase::ended, 0, Cause::order);
  for (std::uint32_t i = 0; i < graph.size(); ++i) {
    if (!followed[i]) come_behind(base + i, last, Phase::ended, 0, Cause::order);
  }
  StreamState& state = streams_[call.stream];
  state.tail.assign(1, {last, Cause::order, 0});
  graphs_last_[call.target] = last;
  if (program_.streams[call.stream].kind == Stream::Kind::legacy) devices_[device].legacy = last;
  if (separates) separate(device, number, clocks_[call.thread]);
  ++state.unfinished;
  one_less(last, 0, Cause::host, none);
}

}  // namespace weir::sim::model
