// The time of simulated devices, and of the host beside them.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <weir/op.hpp>

#include "backend.hpp"
#include "backends/sim/model/kernel_task.hpp"
#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim {

/// The only one. It lives as long as the process.
detail::DeviceClock& clock();

/// A device of the backend: those of one profile share its model. Before the core opens streams on it. Throws
/// std::string: what is wrong with the file of WEIR_SIM_COSTS.
void add_to_clock(int device, const std::string& profile_name, const model::Profile& profile);

/// What the model knows of the devices of one profile.
struct Snapshot {
  model::Program program;
  model::Result result;
  model::Profile profile;
  std::vector<CommandId> commands;  ///< of each call
  std::vector<StreamId> streams;    ///< of each stream
  std::vector<std::string> estimated;
};
Snapshot snapshot(int device);

}  // namespace weir::sim
