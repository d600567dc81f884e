// Host threads: calls, what they cost, and waiting.
#include <algorithm>
#include <cmath>
#include <utility>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

void Simulation::make_calls() {
  while (next_call_ < calls_.end() && !waiting_.on) {
    const Call& call = call_of(next_call_);
    const double time = std::max(clocks_[call.thread], last_begin_);
    if (time > now_) return at(time, What::call, 0);
    last_begin_ = time;
    clocks_[call.thread] = time;
    calls_[next_call_].begin = time;
    if (!make(call, next_call_)) return;
    if (!waiting_.on) calls_[next_call_].end = clocks_[call.thread];
    ++next_call_;
  }
}

/// False if there is no room in the stream yet.
bool Simulation::make(const Call& call, std::uint32_t number) {
  double& clock = clocks_[call.thread];
  const auto spend = [&](double us) {
    clock += us;
    host_ += us;
  };
  switch (call.action) {
    case Action::enqueue:
    case Action::launch_graph: {
      const bool without_room = std::exchange(waiting_.without_room, false);
      if (!without_room && streams_[call.stream].unfinished >= profile_.pending_commands) {
        waiting_.on = true;
        waiting_.stream = call.stream;
        return false;
      }
      const bool graph = call.action == Action::launch_graph;
      const double begin = clock;
      spend(graph ? profile_.host.graph_us : cost_of(program_.tasks[call.task]));
      if (graph) {
        launch_graph(call, number, begin);
      } else {
        enqueue(call, number, begin);
      }
      return true;
    }
    case Action::record:
      spend(profile_.host.record_us);
      events_[call.target] = recorded(call.stream, number);
      return true;
    case Action::wait_event:
      spend(profile_.host.wait_us);
      add_to_tail(call.stream, events_[call.target]);
      wait_in_legacy(call.stream, number);
      return true;
    case Action::wait_stream: {
      spend(profile_.host.record_us + profile_.host.wait_us);
      const std::vector<Behind> tail = recorded(call.target, number);
      add_to_tail(call.stream, tail);
      wait_in_legacy(call.stream, number);
      return true;
    }
    case Action::sync_stream: synchronize(number, all_of(call.stream)); return true;
    case Action::sync_event: synchronize(number, events_[call.target]); return true;
    case Action::sync_device:
    case Action::sync_all: {
      std::vector<Behind> all;
      for (std::uint32_t i = 0; i < streams_.size(); ++i) {
        if (call.action == Action::sync_all || program_.streams[i].device == call.target)
          all.insert(all.end(), streams_[i].tail.begin(), streams_[i].tail.end());
      }
      synchronize(number, all);
      return true;
    }
    case Action::query_stream: answer_ = query(all_of(call.stream), clock); return true;
    case Action::query_event: answer_ = query(events_[call.target], clock); return true;
    case Action::poll_stream: poll(number, all_of(call.stream)); return true;
    case Action::poll_event: poll(number, events_[call.target]); return true;
    case Action::work: spend(call.us); return true;
    case Action::allocate:
      spend(profile_.host.allocate_us);
      if (profile_.implicit_synchronization != 0) {
        for (std::uint32_t i = 0; i < program_.devices; ++i) {
          if (call.target == none || call.target == i) separate(i, number, clock);
        }
      }
      return true;
    case Action::give: given_[call.target] = clock; return true;
    case Action::take:
      if (given_[call.target] < 0) {
        waiting_.on = true;
        waiting_.hand_off = call.target;
        return false;
      }
      clock = std::max(clock, given_[call.target]);
      return true;
  }
  return true;
}

/// What it was given; of the legacy stream, which stands for them, all blocking streams, too (R25).
std::vector<Simulation::Behind> Simulation::all_of(std::uint32_t stream) const {
  using Kind = Stream::Kind;
  std::vector<Behind> all = streams_[stream].tail;
  if (program_.streams[stream].kind != Kind::legacy) return all;
  for (const std::uint32_t other : devices_[program_.streams[stream].device].streams) {
    if (program_.streams[other].kind != Kind::blocking) continue;
    all.insert(all.end(), streams_[other].tail.begin(), streams_[other].tail.end());
  }
  return all;
}

void Simulation::synchronize(std::uint32_t number, const std::vector<Behind>& targets) {
  host_ += profile_.host.synchronize_us;
  clocks_[call_of(number).thread] += profile_.host.synchronize_us;
  wait_for(number, targets);
}

/// Asks again and again. What lies between is not simulated: the answer changes when the last of them ends.
void Simulation::poll(std::uint32_t number, const std::vector<Behind>& targets) {
  if (query(targets, clocks_[call_of(number).thread])) return;
  wait_for(number, targets);
  waiting_.polls = true;
}

void Simulation::wait_for(std::uint32_t number, const std::vector<Behind>& targets) {
  for (const Behind& target : targets) {
    if (only_barrier(target) || ended(target.command) || commands_[target.command].awaited) continue;
    commands_[target.command].awaited = true;
    waiting_.commands.push_back(target.command);
  }
  waiting_.left = waiting_.commands.size();
  waiting_.earliest = clocks_[call_of(number).thread];
  waiting_.on = waiting_.left > 0;
}

/// Whether all of it has ended. Asking is what older devices check a launch for.
bool Simulation::query(const std::vector<Behind>& targets, double& clock) {
  bool all = true;
  for (const Behind& target : targets) {
    if (only_barrier(target) || forgotten(target.command)) continue;
    all = all && ended(target.command);
    if (profile_.dependency_check != 0 && task_of(target.command).work == Work::kernel)
      check_launch(devices_[commands_[target.command].device], target.command);
  }
  if (all) return true;
  clock += profile_.host.query_us;
  host_ += profile_.host.query_us;
  return false;
}

/// When somebody who asks again and again hears what is true from that time on.
double Simulation::asked_until(double time) {
  const double each = profile_.host.query_us;
  if (each <= 0 || time <= waiting_.earliest) return std::max(time, waiting_.earliest);
  const double asking = each * std::ceil((time - waiting_.earliest) / each);
  host_ += asking;
  return waiting_.earliest + asking;
}

void Simulation::wake(std::uint32_t command) {
  if (!waiting_.on) return;
  double time = now_;
  if (waiting_.left > 0) {
    if (!commands_[command].awaited || --waiting_.left > 0) return;
    for (const std::uint32_t awaited : waiting_.commands) commands_[awaited].awaited = false;
    waiting_.commands.clear();
    const std::uint32_t number = next_call_ - 1;
    time = waiting_.polls ? asked_until(now_) : std::max(waiting_.earliest, now_ + profile_.host.wake_us);
    waiting_.polls = false;
    clocks_[call_of(number).thread] = time;
    calls_[number].end = time;
    calls_[number].awaited = command;
  } else if (waiting_.stream != none) {
    if (streams_[waiting_.stream].unfinished >= profile_.pending_commands) return;
    waiting_.stream = none;
    calls_[next_call_].awaited = command;
    clocks_[call_of(next_call_).thread] = now_;
  } else {
    if (given_[waiting_.hand_off] < 0) return;
    waiting_.hand_off = none;
    calls_[next_call_].awaited = command;
  }
  waiting_.on = false;
  at(time, What::call, 0);
}

}  // namespace weir::sim::model
