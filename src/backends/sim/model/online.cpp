// A program that grows while it is simulated.
#include <algorithm>
#include <limits>
#include <utility>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

namespace {

bool is_question(const Call& call) { return call.action == Action::query_stream || call.action == Action::query_event; }

}  // namespace

void Simulation::grow() {
  while (devices_.size() < program_.devices) devices_.emplace_back(profile_);
  while (streams_.size() < program_.streams.size()) add_stream();
  events_.resize(program_.events);
  const double latest = clocks_.empty() ? 0 : *std::max_element(clocks_.begin(), clocks_.end());
  clocks_.resize(program_.threads, latest);
}

bool Simulation::call() {
  const std::uint32_t number = calls_.end();
  calls_.push_back({});
  const std::uint32_t thread = call_of(number).thread;
  set_clock(thread, now_);
  answer_ = true;
  make_calls();
  return go_on();
}

bool Simulation::go_on() {
  const std::uint32_t number = calls_.end() - 1;
  held_ = false;
  while ((next_call_ <= number || waiting_.on) && (step() || (!held_ && go_on_without_others()))) {
  }
  if (held_) return false;
  // What it waits for is not of these devices: it has come, or else there would be no next call.
  waiting_ = {};
  if (next_call_ <= number) ++next_call_;
  calls_[number].end = clocks_[call_of(number).thread];
  return true;
}

/// Nothing happens before a rank makes a call that is not made yet. For room in a stream the real call does not wait. What the
/// host has really waited for is over, so that collectives that it depends on have failed.
bool Simulation::go_on_without_others() {
  if (!waiting_.on || meetings_.empty()) return false;
  if (waiting_.stream == none) return give_up_meetings();
  waiting_ = {};
  waiting_.without_room = true;
  make_calls();
  return true;
}

bool Simulation::drop_question() {
  const std::uint32_t number = calls_.end() - 1;
  if (!is_question(call_of(number))) return false;
  const HostSpan asked = calls_.back();
  if (asked.begin < asked.end) {
    const bool first = number == calls_.first() || !is_question(call_of(number - 1));
    if (first || call_of(number - 1).thread != call_of(number).thread) return false;
    calls_[number - 1].end = asked.end;
  }
  calls_.pop_back();
  --next_call_;
  return true;
}

void Simulation::advance(double time) {
  while (!list_.empty() && list_.top().time <= time && step()) {
  }
}

std::vector<std::uint32_t> Simulation::last_of_stream(std::uint32_t stream) const {
  std::vector<std::uint32_t> last;
  for (const Behind& behind : streams_[stream].tail) last.push_back(behind.command);
  return last;
}

std::vector<std::uint32_t> Simulation::last_of_event(std::uint32_t event) const {
  std::vector<std::uint32_t> last;
  for (const Behind& behind : events_[event]) last.push_back(behind.command);
  return last;
}

double Simulation::end_of(std::uint32_t command) {
  while (!ended(command) && step()) {
  }
  return known_end(command);
}

double Simulation::known_end(std::uint32_t command) const {
  if (forgotten(command)) return 0;
  return commands_[command].phase == Phase::ended ? spans_[command].end : std::numeric_limits<double>::infinity();
}

double Simulation::next_time(double after) {
  for (bool chosen = true; chosen;) {
    advance(after);
    chosen = false;
    for (Device& device : devices_) {
      if (!std::exchange(device.changed, false)) continue;
      start_commands(device);
      chosen = true;
    }
  }
  return list_.empty() ? std::numeric_limits<double>::infinity() : list_.top().time;
}

void Simulation::follow(std::uint32_t stream, std::uint32_t other) {
  const std::vector<Behind> tail = streams_[other].tail;
  add_to_tail(stream, tail);
}

void Simulation::hold(std::uint32_t stream, double time) {
  const std::uint32_t made = add_command(none, none, none, program_.streams[stream].device, now_, time);
  streams_[stream].tail.push_back({made, Cause::order, 1});
  one_less(made, time, Cause::host, none);
}

bool Simulation::idle(std::uint32_t stream) const {
  const StreamState& state = streams_[stream];
  return state.unfinished == 0 &&
         std::all_of(state.tail.begin(), state.tail.end(), [&](const Behind& behind) { return ended(behind.command); });
}

void Simulation::reopen(std::uint32_t stream) {
  const std::uint32_t queue = streams_[stream].queue;
  // An engine stays with a stream, not with its place.
  for (Engine& engine : devices_[program_.streams[stream].device].engines) {
    if (engine.served == stream) engine.served = none;
  }
  streams_[stream] = {};
  streams_[stream].queue = queue;
}

void Simulation::follow_graph(std::uint32_t graph, std::uint32_t other) {
  if (graphs_last_.size() <= graph) graphs_last_.resize(graph + 1, none);
  graphs_last_[graph] = other < graphs_last_.size() ? graphs_last_[other] : none;
}

/// The first command that has not, or is one of the last `keep`.
std::uint32_t Simulation::ended_long_ago(std::uint32_t keep) const {
  std::uint32_t until = commands_.first();
  while (commands_.end() - until > keep && commands_[until].phase == Phase::ended &&
         spans_[until].end < now_ - long_ago_us) {
    ++until;
  }
  return until;
}

std::uint32_t Simulation::forget(std::uint32_t keep) {
  if (commands_.end() < try_to_forget_) return calls_.first();
  try_to_forget_ = commands_.end() + keep;
  const std::uint32_t until = ended_long_ago(keep);
  commands_.forget_before(until);
  spans_.forget_before(until);
  std::uint32_t call = next_call_;
  for (std::uint32_t i = until; i < spans_.end(); ++i) {
    if (spans_[i].call == none) continue;
    call = spans_[i].call;
    break;
  }
  calls_.forget_before(std::max(call, calls_.first()));
  return calls_.first();
}

}  // namespace weir::sim::model
