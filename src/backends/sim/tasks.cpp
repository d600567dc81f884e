#include "backends/sim/tasks.hpp"

#include <algorithm>

#include <weir/kernel.hpp>

#include "backends/sim/model/collective_task.hpp"
#include "backends/sim/model/kernel_task.hpp"

namespace weir::sim {

using model::Task;
using model::Work;

namespace {

constexpr std::uint64_t usual_threads = 256;

double bytes_of(const Layout& layout) {
  return static_cast<double>(layout.shape.count()) * static_cast<double>(layout.element_bytes);
}

double bytes_of(const Region& region) {
  double bytes = static_cast<double>(region.row_bytes) * static_cast<double>(region.rows);
  for (std::size_t d = 0; d < region.outer_count; ++d) bytes *= static_cast<double>(region.outer[d].count);
  return bytes * (region.access == Access::read || region.access == Access::write ? 1 : 2);
}

double bytes_of(std::span<const Region> uses) {
  double bytes = 0;
  for (const Region& use : uses) bytes += bytes_of(use);
  return bytes;
}

Task kernel(const model::Profile& profile, model::KernelCost cost) {
  try {
    return model::kernel_task(profile, cost);
  } catch (const std::string&) {
    if (cost.threads) cost.threads = std::min(*cost.threads, static_cast<std::uint64_t>(profile.threads_per_sm));
    if (cost.shared_bytes)
      cost.shared_bytes = std::min(*cost.shared_bytes, static_cast<std::uint64_t>(profile.shared_bytes_per_sm));
    return model::kernel_task(profile, cost);
  }
}

/// Where time goes by blocks, they are the launch's; what is known by its bytes alone fills the device.
void add_shape(const Launch& launch, model::KernelCost& cost) {
  const std::uint64_t elements = launch.extent.count();
  const bool cooperative = launch.kernel->rank == 0;
  if (cooperative || cost.block_ns) {
    if (!cost.threads)
      cost.threads = launch.threads != 0 ? launch.threads : launch.block != 0 ? launch.block : usual_threads;
    if (!cost.blocks)
      cost.blocks = std::max<std::uint64_t>(1, cooperative ? elements : (elements + *cost.threads - 1) / *cost.threads);
  }
  if (!cost.shared_bytes && launch.shared_bytes != 0) cost.shared_bytes = launch.shared_bytes;
}

Task launch_task(const Launch& launch, std::span<const Region> uses, const model::Profile& profile, const Costs& costs,
                 std::set<std::string, std::less<>>& estimated) {
  if (const std::optional<model::KernelCost> said = said_of(launch, costs)) return kernel(profile, *said);
  model::KernelCost cost;
  cost.bytes = bytes_of(uses);
  const std::string_view name = launch.name != nullptr ? launch.name : launch.kernel->name;
  if (!estimated.contains(name)) estimated.emplace(name);
  add_shape(launch, cost);
  return kernel(profile, cost);
}

Task copy_task(const Copy& copy, const model::Profile& profile) {
  Task task;
  task.bytes = bytes_of(copy.from_layout);
  const bool in = copy.to_kind == MemoryKind::device, out = copy.from_kind == MemoryKind::device;
  task.work = !in && !out                          ? Work::copy_host
              : !out                               ? Work::h2d
              : !in                                ? Work::d2h
              : copy.to_device == copy.from_device ? Work::copy_within
                                                   : Work::copy_peer;
  model::run_by_driver(profile, task);
  task.pageable = in != out && (in ? copy.from_kind : copy.to_kind) == MemoryKind::pageable;
  model::copy_as_own(profile, task, copy.from_kind == MemoryKind::pageable, copy.to_kind == MemoryKind::pageable);
  return task;
}

}  // namespace

std::optional<model::KernelCost> said_of(const Launch& launch, const Costs& costs) {
  const std::string_view functor = launch.kernel->name;
  const model::KernelCost* said = costs.find(launch.name != nullptr ? launch.name : functor, functor);
  if (said == nullptr) return std::nullopt;
  model::KernelCost cost = *said;
  add_shape(launch, cost);
  return cost;
}

std::optional<model::KernelCost> said_of(const Op& op, SourceLocation where, const Costs& costs) {
  if (const auto* launch = std::get_if<Launch>(&op)) return said_of(*launch, costs);
  if (!std::holds_alternative<HostCall>(op) && !std::holds_alternative<External>(op)) return std::nullopt;
  const model::KernelCost* said = costs.find(where);
  return said != nullptr ? std::optional(*said) : std::nullopt;
}

Task task_of(const Op& op, std::span<const Region> uses, SourceLocation where, const model::Profile& profile,
             const Costs& costs, std::set<std::string, std::less<>>& estimated) {
  return visit_op(
      op, [&](const Launch& launch) { return launch_task(launch, uses, profile, costs, estimated); },
      [&](const Copy& copy) { return copy_task(copy, profile); },
      [&](const Fill& fill) {
        Task task;
        task.work = fill.kind == MemoryKind::device ? Work::fill : Work::copy_host;
        task.bytes = bytes_of(fill.layout);
        task.pageable = fill.kind == MemoryKind::pageable;
        model::run_by_driver(profile, task);
        return task;
      },
      [&](const External&) {
        if (const model::KernelCost* said = costs.find(where)) return kernel(profile, *said);
        estimated.emplace("external work");
        model::KernelCost cost;
        cost.bytes = bytes_of(uses);
        return kernel(profile, cost);
      },
      [&](const HostCall&) {
        Task task;
        task.work = Work::host_function;
        if (const model::KernelCost* said = costs.find(where))
          task.fixed_us = std::max(said->ns.value_or(0), said->block_ns.value_or(0)) / 1000;
        return task;
      },
      [](const Alloc&) { return Task{}; }, [](const Free&) { return Task{}; }, [](const Record&) { return Task{}; },
      [](const Wait&) { return Task{}; }, [](const GraphLaunch&) { return Task{}; },
      [&](const Collective& collective) {
        return model::collective_task(profile, collective.call, static_cast<double>(collective.bytes),
                                      static_cast<std::size_t>(collective.size));
      });
}

}  // namespace weir::sim
