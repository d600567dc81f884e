#include "backends/sim/model/kernel_task.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace weir::sim::model {

namespace {

constexpr double most_blocks = 4294967295.0;
constexpr double most_waves = 1000;

std::uint32_t whole(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xffffffff));
}

}  // namespace

void copy_as_own(const Profile& profile, Task& task, bool from_pageable, bool to_pageable) {
  const bool large = task.bytes > profile.pageable.staged_bytes;
  if (task.work == Work::copy_host) task.pageable = to_pageable || (from_pageable && large);
  task.staged = (task.work == Work::h2d || task.work == Work::d2h) && task.pageable && large;
}

Profile as_own(Profile profile) {
  profile.work_queues = profile.own_work_queues;
  return profile;
}

void run_by_driver(const Profile& profile, Task& task) {
  const double threads = std::min(512.0, profile.threads_per_sm);
  const double most = profile.sms * std::max(1.0, std::floor(profile.threads_per_sm / threads));
  task.threads = whole(static_cast<std::uint64_t>(threads));
  task.blocks = whole(static_cast<std::uint64_t>(std::clamp(std::ceil(task.bytes / (16 * threads)), 1.0, most)));
}

Task kernel_task(const Profile& profile, const KernelCost& cost) {
  Task task;
  task.work = Work::kernel;
  task.bytes = cost.bytes.value_or(0);
  task.block_us = cost.block_ns.value_or(0) / 1000;
  task.fixed_us = cost.ns.value_or(0) / 1000;
  task.shared_bytes = whole(cost.shared_bytes.value_or(0));
  // A kernel that is known by its bytes alone fills the device, in blocks of the usual size.
  const double threads = std::min(256.0, profile.threads_per_sm);
  task.threads =
      cost.threads ? whole(std::max<std::uint64_t>(1, *cost.threads)) : whole(static_cast<std::uint64_t>(threads));
  if (cost.blocks.value_or(0) > 0xffffffff) {
    throw std::to_string(*cost.blocks) + " blocks are more than the model counts, which is 4294967295";
  }
  if (cost.blocks) {
    task.blocks = whole(std::max<std::uint64_t>(1, *cost.blocks));
  } else if (task.bytes > 0) {
    const double most =
        profile.sms * std::min(profile.blocks_per_sm, std::floor(profile.threads_per_sm / task.threads));
    task.blocks = whole(static_cast<std::uint64_t>(
        std::clamp(std::ceil(task.bytes / (16.0 * task.threads)), 1.0, std::clamp(most, 1.0, most_blocks))));
  }
  // A grid of very many waves is one of fewer, longer blocks: each wave costs the model an event.
  const double waves = task.blocks / (profile.sms * profile.blocks_per_sm);
  if (waves > most_waves) {
    const double together = std::ceil(waves / most_waves);
    task.blocks = whole(static_cast<std::uint64_t>(std::ceil(task.blocks / together)));
    task.block_us *= together;
  }
  // A duration alone is that of one block, which holds its place as long.
  if (!cost.blocks && task.bytes <= 0 && task.fixed_us > task.block_us) task.block_us = task.fixed_us;
  if (task.threads > profile.threads_per_sm)
    throw std::string("blocks of " + std::to_string(task.threads) + " threads fit on no multiprocessor of " +
                      profile.name);
  if (task.shared_bytes > profile.shared_bytes_per_sm)
    throw std::string(std::to_string(task.shared_bytes) + " bytes of shared memory fit on no multiprocessor of " +
                      profile.name);
  return task;
}

}  // namespace weir::sim::model
