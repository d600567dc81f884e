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
             profile.memory.gb_s * 1000 / (profile.memory.saturating_share * profile.sms * profile.threads_per_sm)),
      queue_last(static_cast<std::size_t>(profile.work_queues), none) {}

Simulation::Simulation(const Program& program, const Profile& profile) : program_(program), profile_(profile) {
  streams_.resize(program.streams.size());
  events_.resize(program.events);
  clocks_.resize(program.threads);
  given_.resize(program.hand_offs, -1);
  devices_.reserve(program.devices);
  for (std::uint32_t i = 0; i < program.devices; ++i) devices_.emplace_back(profile);
  for (std::uint32_t i = 0; i < program.streams.size(); ++i) {
    Device& device = devices_[program.streams[i].device];
    streams_[i].queue = static_cast<std::uint32_t>(device.streams.size() % device.queue_last.size());
    device.streams.push_back(i);
  }
  result_.calls.resize(program.calls.size());
  result_.spans.reserve(program.calls.size());
  commands_.reserve(program.calls.size());
}

const Task& Simulation::task_of(std::uint32_t command) const {
  const std::uint32_t task = result_.spans[command].task;
  return task == none ? nothing : program_.tasks[task];
}

void Simulation::at(double time, What what, std::uint32_t subject, std::uint32_t version) {
  list_.push({time, happenings_++, what, subject, version});
}

Result Simulation::run() {
  make_calls();
  while (!list_.empty()) {
    now_ = list_.top().time;
    // What happens at one time happens together: only then engines choose.
    while (!list_.empty() && list_.top().time == now_) {
      const Happening happening = list_.top();
      list_.pop();
      happen(happening);
    }
    for (Device& device : devices_) {
      if (std::exchange(device.changed, false)) start_commands(device);
    }
  }
  result_.stuck = next_call_ < program_.calls.size() || waiting_.on;
  for (const double clock : clocks_) result_.makespan = std::max(result_.makespan, clock);
  for (const Span& span : result_.spans) result_.makespan = std::max(result_.makespan, span.end);
  return std::move(result_);
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
    case What::end: return end(subject);
  }
}

double Simulation::time_of(std::uint32_t command, Phase phase) const {
  return phase == Phase::ended     ? result_.spans[command].end
         : phase == Phase::started ? commands_[command].started
                                   : commands_[command].taken;
}

void Simulation::come_behind(std::uint32_t from, std::uint32_t to, Phase phase, double hop, Cause cause) {
  ++commands_[to].pending;
  if (commands_[from].phase >= phase) return one_less(to, time_of(from, phase) + hop, cause, from);
  edges_.push_back({to, commands_[from].edges, hop, phase, cause});
  commands_[from].edges = static_cast<std::uint32_t>(edges_.size() - 1);
}

void Simulation::one_less(std::uint32_t to, double time, Cause cause, std::uint32_t from) {
  Span& span = result_.spans[to];
  if (from != none && time >= span.ready) {
    span.ready = time;
    span.ready_by = cause;
    span.behind = from;
  }
  if (--commands_[to].pending == 0) make_ready(to);
}

void Simulation::make_ready(std::uint32_t command) {
  Span& span = result_.spans[command];
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
}

void Simulation::end(std::uint32_t command) {
  Span& span = result_.spans[command];
  span.end = now_;
  let_go(command, Phase::ended, now_);
  const std::uint32_t task = span.task;
  if (task != none && program_.tasks[task].work == Work::host_function) {
    const auto first = std::lower_bound(program_.gives.begin(), program_.gives.end(), std::pair(task, 0U));
    for (auto give = first; give != program_.gives.end() && give->first == task; ++give) given_[give->second] = now_;
  }
  if (span.stream != none && span.node == none) --streams_[span.stream].unfinished;
  wake(command);
}

Result simulate(const Program& program, const Profile& profile) { return Simulation(program, profile).run(); }

}  // namespace weir::sim::model
