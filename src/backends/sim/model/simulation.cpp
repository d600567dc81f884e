// What happens next, and how commands let each other go.
#include "backends/sim/model/simulation.hpp"

#include <algorithm>

#include "backends/sim/model/simulate.hpp"

namespace weir::sim::model {

namespace {

const Task nothing{};

}  // namespace

Simulation::Device::Device(const Profile& profile)
    : places(profile),
      memory(profile.memory.gb_s * 1000,
             profile.memory.gb_s * 1000 / (profile.memory.saturating_share * profile.sms * profile.threads_per_sm)) {}

Simulation::Simulation(const Program& program, const Profile& profile) : program_(program), profile_(profile) {
  events_.resize(program.events);
  clocks_.resize(program.threads);
  given_.resize(program.hand_offs, -1);
  devices_.reserve(program.devices);
  for (std::uint32_t i = 0; i < program.devices; ++i) devices_.emplace_back(profile);
  while (streams_.size() < program.streams.size()) add_stream();
  calls_.reserve(program.calls.size());
  for (std::size_t i = 0; i < program.calls.size(); ++i) calls_.push_back({});
  spans_.reserve(program.calls.size());
  commands_.reserve(program.calls.size());
}

/// The program's next one.
void Simulation::add_stream() {
  const auto stream = static_cast<std::uint32_t>(streams_.size());
  Device& device = devices_[program_.streams[stream].device];
  const std::size_t queue = device.streams.size() % static_cast<std::size_t>(profile_.work_queues);
  streams_.emplace_back().queue = static_cast<std::uint32_t>(queue);
  device.queue_last.resize(std::max(device.queue_last.size(), queue + 1), none);
  device.streams.push_back(stream);
}

const Task& Simulation::task_of(std::uint32_t command) const {
  if (forgotten(command)) return nothing;
  const std::uint32_t task = spans_[command].task;
  return task == none ? nothing : program_.tasks[task];
}

void Simulation::at(double time, What what, std::uint32_t subject, std::uint32_t version) {
  if (what != What::call) ++work_ahead_;
  list_.push({time, happenings_++, what, subject, version});
}

Result Simulation::run() {
  for (const NodeWork& one : program_.works) {
    Body& body = bodies_[{one.call, one.node}];
    body.us += one.us;
    body.over = true;
  }
  make_calls();
  while (step()) {
  }
  Result result;
  result.stuck = next_call_ < calls_.end() || waiting_.on;
  const bool was_made = waiting_.on && waiting_.hand_off == none;
  if (result.stuck) result.stuck_call = was_made ? next_call_ - 1 : next_call_;
  for (const double clock : clocks_) result.makespan = std::max(result.makespan, clock);
  for (const Span& span : spans_.items()) result.makespan = std::max(result.makespan, span.end);
  result.host = host_;
  result.spans = spans_.take();
  result.calls = calls_.take();
  return result;
}

/// What happens next; false if nothing does, or a body holds it. What happens at one time happens together: only then engines choose, and only
/// then time goes on.
bool Simulation::step() {
  if (!list_.empty() && list_.top().time <= now_) {
    const Happening happening = list_.top();
    held_ = happening.what == What::body && waits_for_body(happening.subject);
    if (held_) return false;
    list_.pop();
    if (happening.what != What::call) {
      --work_ahead_;
      last_work_ = now_;
    }
    happen(happening);
    return true;
  }
  bool chosen = false;
  for (Device& device : devices_) {
    if (!std::exchange(device.changed, false)) continue;
    start_commands(device);
    chosen = true;
  }
  if (chosen) return true;
  if (list_.empty()) return false;
  if (work_ahead_ == 0 && list_.top().time - last_work_ > long_ago_us) forget_served();
  now_ = list_.top().time;
  return true;
}

void Simulation::happen(const Happening& happening) {
  const std::uint32_t subject = happening.subject;
  switch (happening.what) {
    case What::call: return make_calls();
    case What::ready: return take(subject);
    case What::move: return move(subject);
    case What::moved:
      if (devices_[commands_[subject].device].engines[engine_of(task_of(subject).work)].version == happening.version)
        moved(subject);
      return;
    case What::memory_add: return add_to_memory(subject);
    case What::memory: {
      Device& device = devices_[subject];
      if (device.memory_version != happening.version) return;
      const std::uint32_t job = device.memory.pop(now_);
      memory_changed(subject);
      const Cohort& cohort = cohorts_[job];
      const double blocks_end = cohort.begin + task_of(launches_[cohort.launch].command).block_us;
      at(std::max(now_, blocks_end), What::cohort_end, job);
      return;
    }
    case What::cohort_end: return cohort_end(subject);
    case What::places: return free_places(subject);
    case What::body: return body(subject);
    case What::end: return end(subject);
  }
}

double Simulation::time_of(std::uint32_t command, Phase phase) const {
  return phase == Phase::ended     ? spans_[command].end
         : phase == Phase::started ? commands_[command].started
                                   : commands_[command].taken;
}

void Simulation::come_behind(std::uint32_t from, std::uint32_t to, Phase phase, double hop, Cause cause) {
  if (forgotten(from)) return;
  ++commands_[to].pending;
  if (commands_[from].phase >= phase) return one_less(to, time_of(from, phase) + hop, cause, from);
  const Edge edge{to, commands_[from].edges, hop, phase, cause};
  std::uint32_t place = free_edges_;
  if (place == none) {
    place = static_cast<std::uint32_t>(edges_.size());
    edges_.push_back(edge);
  } else {
    free_edges_ = edges_[place].next;
    edges_[place] = edge;
  }
  commands_[from].edges = place;
}

void Simulation::one_less(std::uint32_t to, double time, Cause cause, std::uint32_t from) {
  Span& span = spans_[to];
  if (from != none && time >= span.ready) {
    span.ready = time;
    span.ready_by = cause;
    span.behind = from;
  }
  if (--commands_[to].pending == 0) make_ready(to);
}

void Simulation::make_ready(std::uint32_t command) {
  Span& span = spans_[command];
  if (commands_[command].crowds && span.ready_by == Cause::order && span.ready > now_) {
    span.ready += profile_.hop.crowd_us * std::min<double>(profile_.hop.crowd_streams, crowd(command));
  }
  at(std::max(now_, span.ready), What::ready, command);
}

void Simulation::let_go(std::uint32_t command, Phase phase, double time) {
  commands_[command].phase = phase;
  for (std::uint32_t i = commands_[command].edges; i != none; i = edges_[i].next) {
    const Edge edge = edges_[i];
    if (edge.phase == phase) one_less(edge.to, time + edge.hop, edge.cause, command);
  }
  if (phase != Phase::ended || commands_[command].edges == none) return;
  std::uint32_t last = commands_[command].edges;
  while (edges_[last].next != none) last = edges_[last].next;
  edges_[last].next = free_edges_;
  free_edges_ = std::exchange(commands_[command].edges, none);
}

void Simulation::end(std::uint32_t command) {
  Span& span = spans_[command];
  span.end = now_;
  let_go(command, Phase::ended, now_);
  if (commands_[command].launch != none) {
    Device& device = devices_[commands_[command].device];
    if (--device.running == 0 && profile_.copy_engines == 0) {
      device.freed_by = command;
      device.changed = true;
    }
  }
  const std::uint32_t task = span.task;
  if (task != none && program_.tasks[task].work == Work::host_function) {
    const auto first = std::lower_bound(program_.gives.begin(), program_.gives.end(), std::pair(task, 0U));
    for (auto give = first; give != program_.gives.end() && give->first == task; ++give) given_[give->second] = now_;
  }
  if (span.stream != none && span.node == none) --streams_[span.stream].unfinished;
  if (driver_runs_ && command == driver_last_) leave_driver();
  wake(command);
}

Result simulate(const Program& program, const Profile& profile) { return Simulation(program, profile).run(); }

}  // namespace weir::sim::model
