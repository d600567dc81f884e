// What changes of a device or of a program would gain: each is predicted.
#pragma once

#include <array>
#include <vector>

#include <weir/sim.hpp>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::predict {

/// Of changes that have to do with what the time went to, those that gain more than a hundredth; the greatest first.
std::vector<sim::Gain> gains(const sim::model::Program& program, const sim::model::Profile& profile, double makespan,
                             const std::array<double, sim::cause_count>& cause_us);

}  // namespace weir::predict
