// The model: when each command of a program runs on devices of one profile.
#pragma once

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim::model {

/// Uses no clock and no thread: the same program and profile give the same result. The program is well-formed: places it
/// names exist, kernels fit on a multiprocessor, nodes come behind those that they wait for.
Result simulate(const Program& program, const Profile& profile);

}  // namespace weir::sim::model
