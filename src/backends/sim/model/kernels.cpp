// Kernels on the multiprocessors: blocks begin where there are places, those of one kernel after those of another.
#include <algorithm>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

namespace {

/// From a block's begin to the first byte that it moves.
double first_byte_us(const Profile& profile, Work work) {
  return work == Work::fill          ? profile.memory.fill_us
         : work == Work::copy_within ? profile.memory.copy_us
                                     : profile.memory.kernel_us;
}

}  // namespace

void Simulation::start_kernels(Device& device) {
  if (profile_.copy_engines == 0 && copies_running(device)) return;
  while (!device.kernels.empty()) {
    const std::uint32_t command = std::get<2>(*device.kernels.begin());
    const Task& task = task_of(command);
    std::uint32_t& launch = commands_[command].launch;
    if (launch == none && device.resident >= profile_.resident_kernels) return;
    const double resident = launch == none ? 0 : launches_[launch].resident;
    const double left = launch == none ? task.blocks : launches_[launch].left;
    const double blocks = std::min(left, device.places.free(task, resident));
    if (blocks < 1) return;
    if (launch == none) {
      launch = new_launch(command, left);
      ++device.resident;
      ++device.running;
      Span& span = spans_[command];
      span.begin = now_;
      span.begin_by = now_ > span.ready ? Cause::device : span.ready_by;
      span.holder = now_ > span.ready ? device.freed_by : none;
    }
    start_cohort(device, launch, blocks);
    if (launches_[launch].left > 0) return;
    device.kernels.erase(device.kernels.begin());
    commands_[command].started = now_;
    spans_[command].last_block = now_;
    let_go(command, Phase::started, now_);
  }
}

std::uint32_t Simulation::new_launch(std::uint32_t command, double blocks) {
  if (free_launches_.empty()) {
    launches_.push_back({command, blocks});
    return static_cast<std::uint32_t>(launches_.size() - 1);
  }
  const std::uint32_t place = free_launches_.back();
  free_launches_.pop_back();
  launches_[place] = {command, blocks};
  return place;
}

void Simulation::start_cohort(Device& device, std::uint32_t number, double blocks) {
  Launch& launch = launches_[number];
  const Task& task = task_of(launch.command);
  // Places that became free one after the other are taken one after the other.
  const double inherited = device.lag_until > now_ && device.freed > 0
                               ? (device.lag_until - now_) * std::min(1.0, blocks / device.freed)
                               : 0;
  Cohort cohort{number, blocks, now_, std::max(blocks * profile_.blocks.start_us, inherited)};
  device.places.take(task, blocks);
  launch.left -= blocks;
  launch.resident += blocks;
  ++launch.cohorts;
  std::uint32_t place;
  if (free_cohorts_.empty()) {
    place = static_cast<std::uint32_t>(cohorts_.size());
    cohorts_.push_back(cohort);
  } else {
    place = free_cohorts_.back();
    free_cohorts_.pop_back();
    cohorts_[place] = cohort;
  }
  if (task.bytes > 0) {
    at(now_ + first_byte_us(profile_, task.work), What::memory_add, place);
  } else {
    at(now_ + task.block_us, What::cohort_end, place);
  }
}

void Simulation::cohort_end(std::uint32_t place) {
  const Cohort& cohort = cohorts_[place];
  Launch& launch = launches_[cohort.launch];
  const Span& span = spans_[launch.command];
  launch.end = std::max(launch.end, now_ + cohort.lag);
  if (--launch.cohorts == 0 && launch.left <= 0) {
    launch.end = std::max(launch.end, span.begin + task_of(launch.command).fixed_us);
    at(launch.end, What::end, launch.command);
  }
  at(now_ + profile_.blocks.turnaround_us, What::places, place);
}

void Simulation::free_places(std::uint32_t place) {
  const Cohort cohort = cohorts_[place];
  free_cohorts_.push_back(place);
  Launch& launch = launches_[cohort.launch];
  Device& device = devices_[commands_[launch.command].device];
  device.places.give_back(task_of(launch.command), cohort.blocks);
  launch.resident -= cohort.blocks;
  if (launch.resident <= 0 && launch.left <= 0) {
    --device.resident;
    free_launches_.push_back(cohort.launch);
  }
  device.freed = cohort.blocks;
  device.freed_by = launch.command;
  device.lag_until = now_ + cohort.lag;
  device.changed = true;
}

}  // namespace weir::sim::model
