#include "predict/tasks.hpp"

#include <algorithm>
#include <string>

#include "backends/sim/model/kernel_task.hpp"

namespace weir::predict {

using recorded::Op;
using sim::model::Task;
using sim::model::Work;

Task Tasks::make(Op op, std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const {
  Task task;
  switch (op) {
    case Op::launch:
    case Op::external: return kernel(uses, rules_.by_bytes ? std::nullopt : cost);
    case Op::copy: return copy(uses[0], uses[1]);
    case Op::fill:
      task.work = Work::fill;
      task.bytes = static_cast<double>(uses[0].total());
      sim::model::run_by_driver(profile_, task);
      if (const MemoryKind kind = recording_.buffers()[uses[0].buffer].kind; kind != MemoryKind::device) {
        task.work = Work::copy_host;
        task.pageable = rules_.own_copies && kind == MemoryKind::pageable;
      }
      return task;
    case Op::host_function:
      task.work = Work::host_function;
      task.fixed_us = cost ? std::max(cost->ns.value_or(0), cost->block_ns.value_or(0)) / 1000 : 0;
      return task;
    default: return task;
  }
}

Task Tasks::kernel(std::span<const recorded::Use> uses, const std::optional<recorded::Cost>& cost) const {
  sim::model::KernelCost known;
  if (cost) {
    if (cost->blocks == 0 || cost->threads == 0) throw std::string("a kernel has one block and one thread at least");
    known = {cost->ns, cost->block_ns, {}, cost->blocks, cost->threads, cost->shared_bytes};
    if (cost->bytes) known.bytes = static_cast<double>(*cost->bytes);
    return sim::model::kernel_task(profile_, known);
  }
  double bytes = 0;
  for (const recorded::Use& use : uses) {
    const bool both = use.access == recorded::Access::inout || use.access == recorded::Access::accumulate;
    bytes += static_cast<double>(use.total()) * (both ? 2 : 1);
  }
  known.bytes = bytes;
  return sim::model::kernel_task(profile_, known);
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
  sim::model::run_by_driver(profile_, task);
  task.pageable = (in != out) && (in ? source.kind : target.kind) == MemoryKind::pageable;
  if (rules_.own_copies)
    sim::model::copy_as_own(profile_, task, source.kind == MemoryKind::pageable, target.kind == MemoryKind::pageable);
  return task;
}

}  // namespace weir::predict
