// Where commands go when they are ready: copy engines and the memory. Host functions: functions.cpp.
#include <algorithm>
#include <utility>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

namespace {

enum : std::uint32_t { in = 0, out = 1, peer = 2 };

}  // namespace

/// With one engine, or none of its own, copies of both directions take turns.
std::uint32_t Simulation::engine_of(Work work) const {
  if (work == Work::copy_peer) return peer;
  return work == Work::d2h && profile_.copy_engines >= 2 ? out : in;
}

void Simulation::take(std::uint32_t command) {
  Span& span = spans_[command];
  const Task& task = task_of(command);
  Device& device = devices_[commands_[command].device];
  commands_[command].taken = now_;
  let_go(command, Phase::taken, now_);
  switch (task.work) {
    case Work::h2d:
    case Work::d2h:
    case Work::copy_peer: {
      const std::uint32_t engine = engine_of(task.work);
      wait_for_engine(command, engine);
      if (span.stream != none && span.node == none) streams_[span.stream].ready_copy[engine] = command;
      device.changed = true;
      return;
    }
    case Work::fill:
    case Work::copy_within:
    case Work::kernel: {
      const std::int32_t priority = span.stream == none ? 0 : program_.streams[span.stream].priority;
      device.kernels.emplace(priority, happenings_++, command);
      device.changed = true;
      return;
    }
    case Work::copy_host:
      span.begin = now_;
      return at(now_ + task.bytes / (profile_.memory.host_gb_s * 1000), What::end, command);
    case Work::host_function: return start_host_function(command);
    case Work::collective: return meet(command);
    case Work::nothing: span.begin = now_; return end(command);
  }
}

/// An engine turns to the stream that it has not served for longest.
void Simulation::wait_for_engine(std::uint32_t command, std::uint32_t engine) {
  Command& copy = commands_[command];
  copy.served = streams_[spans_[command].stream].served[engine];
  copy.turn = happenings_++;
  devices_[copy.device].engines[engine].ready.emplace(copy.served, copy.turn, command);
}

/// Of devices that have had nothing to do for so long: what a program takes does not depend on what was there before it, which
/// its recording does not know either.
void Simulation::forget_served() {
  for (Device& device : devices_) {
    for (Engine& engine : device.engines) engine.served = none;
  }
  for (StreamState& stream : streams_) std::fill(std::begin(stream.served), std::end(stream.served), -1.0);
}

std::uint32_t Simulation::crowd(std::uint32_t command) const {
  const Task& task = task_of(command);
  const Device& device = devices_[commands_[command].device];
  if (task.work == Work::h2d || task.work == Work::d2h)
    return static_cast<std::uint32_t>(device.engines[engine_of(task.work)].ready.size());
  return task.work == Work::kernel ? static_cast<std::uint32_t>(device.kernels.size()) : 0;
}

bool Simulation::copies_running(const Device& device) const {
  return std::any_of(std::begin(device.engines), std::end(device.engines),
                     [](const Engine& engine) { return engine.running != none; });
}

void Simulation::start_commands(Device& device) {
  for (std::uint32_t engine = 0; engine < 3; ++engine) start_copy(device, engine);
  start_kernels(device);
}

/// The copy that begins next; none if none may.
std::uint32_t Simulation::choose_copy(Device& device, std::uint32_t number) const {
  const Engine& engine = device.engines[number];
  if (engine.running != none || engine.ready.empty()) return none;
  if (profile_.copy_engines == 0 && device.running > 0) return none;
  if (profile_.copies_in_order != 0) {
    const auto first = engine.issued.front();
    return std::any_of(engine.ready.begin(), engine.ready.end(),
                       [&](const auto& one) { return std::get<2>(one) == first; })
               ? first
               : none;
  }
  if (engine.served != none && streams_[engine.served].ready_copy[number] != none)
    return streams_[engine.served].ready_copy[number];
  return std::get<2>(*engine.ready.begin());
}

/// Before the copy that an engine did last it may have stood idle: it waited for that one, and the later one with it.
void Simulation::waited_in_order(Span& span, const Engine& engine) const {
  const bool known = engine.before != none && !forgotten(engine.before);
  const double free = known ? spans_[engine.before].end : 0;
  const double idle_from = std::max(span.ready, free);
  if (spans_[engine.last].begin <= idle_from) return;
  span.begin_by = Cause::copy_order;
  span.idle_from = idle_from;
  if (free > span.ready) span.before = engine.before;
}

void Simulation::start_copy(Device& device, std::uint32_t number) {
  const std::uint32_t command = choose_copy(device, number);
  if (command == none) return;
  Engine& engine = device.engines[number];
  Span& span = spans_[command];
  const Task& task = task_of(command);
  engine.ready.erase({commands_[command].served, commands_[command].turn, command});
  if (profile_.copies_in_order != 0) engine.issued.pop_front();
  span.begin = now_;
  if (now_ > span.ready) {
    const bool busy = engine.last != none && !forgotten(engine.last) && spans_[engine.last].end > span.ready;
    span.begin_by = busy ? Cause::link : profile_.copy_engines == 0 ? Cause::device : Cause::copy_order;
    span.holder = profile_.copy_engines == 0 && !busy ? device.freed_by : engine.last;
    if (busy && profile_.copies_in_order != 0 && profile_.copy_engines != 0) waited_in_order(span, engine);
  } else {
    span.begin_by = span.ready_by;
  }
  engine.running = command;
  engine.before = std::exchange(engine.last, command);
  engine.served = span.stream;
  streams_[span.stream].served[number] = now_;
  if (span.stream != none && streams_[span.stream].ready_copy[number] == command)
    streams_[span.stream].ready_copy[number] = none;
  commands_[command].started = now_;
  let_go(command, Phase::started, now_);

  double setup = task.work == Work::d2h ? profile_.link.setup_d2h_us : profile_.link.setup_h2d_us;
  // The driver itself puts small ones into pinned memory.
  if (task.staged)
    setup = task.work == Work::d2h ? profile_.pageable.staged_setup_d2h_us : profile_.pageable.staged_setup_h2d_us;
  else if (task.pageable && task.bytes > profile_.pageable.small_bytes)
    setup = task.work == Work::d2h ? profile_.pageable.setup_d2h_us : profile_.pageable.setup_h2d_us;
  if (number != peer && device.engines[1 - number].running != none) setup += profile_.link.setup_both_us;
  at(now_ + setup, What::move, command);
}

/// A stream whose copy is ready goes behind the others that wait for the engine when it is given more of them right behind.
void Simulation::continue_run(std::uint32_t command, std::uint32_t stream) {
  StreamState& state = streams_[stream];
  const Work work = task_of(command).work;
  const bool copies = work == Work::h2d || work == Work::d2h || work == Work::copy_peer;
  const std::uint32_t number = copies ? engine_of(work) : none;
  if (!copies || state.run_engine != number) {
    state.run_engine = number;
    state.run = command;
    return;
  }
  const std::uint32_t waiting = state.ready_copy[number];
  if (waiting == none || waiting < state.run) return;
  const Command& copy = commands_[waiting];
  devices_[copy.device].engines[number].ready.erase({copy.served, copy.turn, waiting});
  wait_for_engine(waiting, number);
}

void Simulation::move(std::uint32_t command) {
  const Task& task = task_of(command);
  Device& device = devices_[commands_[command].device];
  Engine& engine = device.engines[engine_of(task.work)];
  engine.moving = true;
  engine.left = task.bytes;
  engine.since = now_;
  engine.rate = 0;
  set_rates(device);
}

/// Each direction is slower while the other one moves, too.
void Simulation::set_rates(Device& device) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    Engine& engine = device.engines[i];
    if (!engine.moving) continue;
    const Task& task = task_of(engine.running);
    double rate = task.work == Work::copy_peer ? profile_.link.peer_gb_s
                  : task.work == Work::d2h     ? profile_.link.d2h_gb_s
                                               : profile_.link.h2d_gb_s;
    if (i != peer && device.engines[1 - i].moving) rate *= profile_.link.both_factor;
    const Profile::Pageable& pageable = profile_.pageable;
    if (task.staged) {
      rate = std::min(rate, task.work == Work::d2h ? pageable.staged_d2h_gb_s : pageable.staged_h2d_gb_s);
    } else if (task.pageable) {
      rate = std::min(rate, task.work == Work::d2h ? pageable.d2h_gb_s : pageable.h2d_gb_s);
    }
    rate *= 1000;
    if (rate == engine.rate) continue;
    engine.left -= (now_ - engine.since) * engine.rate;
    engine.since = now_;
    engine.rate = rate;
    at(now_ + std::max(0.0, engine.left) / rate, What::moved, engine.running, ++engine.version);
  }
}

void Simulation::moved(std::uint32_t command) {
  Device& device = devices_[commands_[command].device];
  Engine& engine = device.engines[engine_of(task_of(command).work)];
  engine.moving = false;
  engine.running = none;
  device.freed_by = command;
  device.changed = true;
  set_rates(device);
  end(command);
}

void Simulation::add_to_memory(std::uint32_t place) {
  const Cohort& cohort = cohorts_[place];
  const std::uint32_t command = launches_[cohort.launch].command;
  const Task& task = task_of(command);
  // A copy reads and writes each byte.
  const double bytes = task.work == Work::copy_within ? 2 * task.bytes : task.bytes;
  const std::uint32_t device = commands_[command].device;
  devices_[device].memory.add(now_, place, cohort.blocks * task.threads, bytes * cohort.blocks / task.blocks);
  memory_changed(device);
}

void Simulation::memory_changed(std::uint32_t place) {
  Device& device = devices_[place];
  ++device.memory_version;
  if (!device.memory.empty()) at(std::max(now_, device.memory.next()), What::memory, place, device.memory_version);
}

}  // namespace weir::sim::model
