#include "predict/tasks.hpp"

#include <algorithm>
#include <cmath>

namespace weir::predict {

using recorded::Op;
using sim::model::Task;
using sim::model::Work;

namespace {

constexpr double most_blocks = 4294967295.0;
constexpr double most_waves = 1000;

std::uint32_t whole(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, 0xffffffff));
}

}  // namespace

/// Fills and copies within a device are kernels of the driver's, of as many blocks as there are bytes for.
void Tasks::by_the_driver(Task& task) const {
  const double threads = std::min(512.0, profile_.threads_per_sm);
  const double most = profile_.sms * std::max(1.0, std::floor(profile_.threads_per_sm / threads));
  task.threads = whole(static_cast<std::uint64_t>(threads));
  task.blocks = whole(static_cast<std::uint64_t>(std::clamp(std::ceil(task.bytes / (16 * threads)), 1.0, most)));
}

Task Tasks::make(Op op, std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const {
  Task task;
  switch (op) {
    case Op::launch:
    case Op::external: return kernel(uses, by_bytes_ ? std::nullopt : cost);
    case Op::copy: return copy(uses[0], uses[1]);
    case Op::fill:
      task.work = Work::fill;
      task.bytes = static_cast<double>(uses[0].total());
      by_the_driver(task);
      if (recording_.buffers()[uses[0].buffer].kind != MemoryKind::device) task.work = Work::copy_host;
      return task;
    case Op::host_function:
      task.work = Work::host_function;
      task.fixed_us = cost ? cost->ns.value_or(cost->block_ns.value_or(0)) / 1000 : 0;
      return task;
    default: return task;
  }
}

Task Tasks::kernel(std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const {
  Task task;
  task.work = Work::kernel;
  if (!cost) {
    for (const recorded::Use& use : uses) {
      const bool both = use.access == recorded::Access::inout || use.access == recorded::Access::accumulate;
      task.bytes += static_cast<double>(use.total()) * (both ? 2 : 1);
    }
  } else {
    task.bytes = static_cast<double>(cost->bytes.value_or(0));
    task.block_us = cost->block_ns.value_or(0) / 1000;
    task.fixed_us = cost->ns.value_or(0) / 1000;
    task.shared_bytes = whole(cost->shared_bytes.value_or(0));
  }
  const bool grid = cost && cost->blocks;
  // A kernel that is known by its bytes alone fills the device, in blocks of the usual size.
  const double threads = std::min(256.0, profile_.threads_per_sm);
  task.threads = cost && cost->threads ? whole(std::max<std::uint64_t>(1, *cost->threads))
                                       : whole(static_cast<std::uint64_t>(threads));
  if (grid) {
    task.blocks = whole(std::max<std::uint64_t>(1, *cost->blocks));
  } else if (task.bytes > 0) {
    const double most =
        profile_.sms * std::min(profile_.blocks_per_sm, std::floor(profile_.threads_per_sm / task.threads));
    task.blocks = whole(static_cast<std::uint64_t>(
        std::clamp(std::ceil(task.bytes / (16.0 * task.threads)), 1.0, std::clamp(most, 1.0, most_blocks))));
  }
  // A grid of very many waves is one of fewer, longer blocks: each wave costs the model an event.
  const double waves = task.blocks / (profile_.sms * profile_.blocks_per_sm);
  if (waves > most_waves) {
    const double together = std::ceil(waves / most_waves);
    task.blocks = whole(static_cast<std::uint64_t>(std::ceil(task.blocks / together)));
    task.block_us *= together;
  }
  // A duration alone is that of one block, which holds its place as long.
  if (!grid && task.bytes <= 0 && task.fixed_us > task.block_us) task.block_us = task.fixed_us;
  if (task.threads > profile_.threads_per_sm)
    throw std::string("blocks of " + std::to_string(task.threads) + " threads fit on no multiprocessor of " +
                      profile_.name);
  if (task.shared_bytes > profile_.shared_bytes_per_sm)
    throw std::string(std::to_string(task.shared_bytes) + " bytes of shared memory fit on no multiprocessor of " +
                      profile_.name);
  return task;
}

Task Tasks::copy(const recorded::Use& to, const recorded::Use& from) const {
  Task task;
  const recorded::Buffer& target = recording_.buffers()[to.buffer];
  const recorded::Buffer& source = recording_.buffers()[from.buffer];
  task.bytes = static_cast<double>(from.total());
  const bool in = target.kind == MemoryKind::device, out = source.kind == MemoryKind::device;
  task.work = !in && !out                      ? Work::copy_host
              : !out                           ? Work::h2d
              : !in                            ? Work::d2h
              : target.device == source.device ? Work::copy_within
                                               : Work::copy_peer;
  by_the_driver(task);
  task.pageable = (in != out) && (in ? source.kind : target.kind) == MemoryKind::pageable;
  return task;
}

}  // namespace weir::predict
