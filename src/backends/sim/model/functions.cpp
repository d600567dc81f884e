// Host functions: the driver's one thread, and bodies that say only while they run for real how long they last.
#include <algorithm>
#include <utility>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

/// From what it comes behind to the driver's thread, which has to be woken: the less awake, the longer it has waited.
double Simulation::way_to_driver(std::uint32_t command) const {
  const Span& span = spans_[command];
  if (span.ready_by == Cause::host || driver_runs_) return 0;
  const Task& task = task_of(command);
  const double waited = now_ - std::max(span.issued + cost_of(task) + way_of(task), driver_free_);
  if (waited <= 0) return 0;
  const bool awake = driver_last_ != none && now_ - driver_free_ < profile_.hop.function_awake_us;
  return std::min(profile_.hop.function_wait_share * waited,
                  awake ? profile_.hop.to_awake_function_us : profile_.hop.to_host_function_us);
}

void Simulation::start_host_function(std::uint32_t command) {
  spans_[command].ready = now_ + way_to_driver(command);
  functions_.push_back(command);
  if (!driver_runs_) next_host_function();
}

void Simulation::next_host_function() {
  driver_runs_ = !functions_.empty();
  if (!driver_runs_) return;
  const std::uint32_t command = functions_.front();
  functions_.pop_front();
  Span& span = spans_[command];
  span.begin = std::max(span.ready, driver_free_);
  span.begin_by = span.begin > span.ready ? Cause::driver : span.ready_by;
  span.holder = span.begin > span.ready ? driver_last_ : none;
  driver_last_ = command;
  at(span.begin + profile_.host.function_us, What::body, command);
}

/// Whether nobody knows yet how much longer its body lasts.
bool Simulation::waits_for_body(std::uint32_t command) const {
  if (bodies_.empty()) return false;
  const auto found = bodies_.find({spans_[command].call, spans_[command].node});
  return found != bodies_.end() && !found->second.over;
}

/// What each function lasts is over. A cost that was said of its line is as long as its body, or longer: both are the same here,
/// so that a recording, which has costs alone, takes the same time.
void Simulation::body(std::uint32_t command) {
  const Span& span = spans_[command];
  double more = task_of(command).fixed_us;
  if (const auto found = bodies_.find({span.call, span.node}); found != bodies_.end()) {
    more = std::max(more, found->second.us);
    bodies_.erase(found);
  }
  if (more > 0) return at(span.begin + profile_.host.function_us + more, What::end, command);
  end(command);
}

void Simulation::leave_driver() {
  driver_free_ = now_;
  next_host_function();
}

void Simulation::expect(std::uint32_t call, std::uint32_t node) { bodies_[{call, node}] = {}; }

bool Simulation::worked(std::uint32_t call, std::uint32_t node, double us, bool over) {
  const auto found = bodies_.find({call, node});
  if (found == bodies_.end()) return false;
  found->second.us += us;
  found->second.over = over;
  return true;
}

void Simulation::assume() {
  for (auto& [key, one] : bodies_) one.over = true;
}

std::unique_ptr<Simulation> Simulation::guess() {
  // What ended long ago is nothing to it.
  Window<Command> commands = commands_.from(ended_long_ago(0));
  Window<Span> spans = spans_.from(commands.first());
  std::swap(commands, commands_);
  std::swap(spans, spans_);
  std::unique_ptr<Simulation> made(new Simulation(*this));
  std::swap(commands, commands_);
  std::swap(spans, spans_);
  made->assume();
  return made;
}

}  // namespace weir::sim::model
