// Kernels, and what the driver runs as kernels, from what is known of them.
#pragma once

#include <cstdint>
#include <optional>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim::model {

/// What a launch costs, as far as it is said; several durations: the longest.
struct KernelCost {
  std::optional<double> ns = {};
  std::optional<double> block_ns = {};
  std::optional<double> bytes = {};
  std::optional<std::uint64_t> blocks = {};
  std::optional<std::uint64_t> threads = {};
  std::optional<std::uint64_t> shared_bytes = {};
};

/// Throws std::string: why the kernel fits on no multiprocessor.
Task kernel_task(const Profile& profile, const KernelCost& cost);

/// A copy as Weir makes it: large pageable ones are staged, and the host waits for what comes to pageable memory, and for what it
/// cannot take at the call.
void copy_as_own(const Profile& profile, Task& task, bool from_pageable, bool to_pageable);

/// The device as Weir uses it, with as many work queues as it asks the driver for.
Profile as_own(Profile profile);

/// Fills and copies within a device are kernels of the driver's, of as many blocks as there are bytes for.
void run_by_driver(const Profile& profile, Task& task);

}  // namespace weir::sim::model
