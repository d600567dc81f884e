// What changes of a device or of a program would gain: each is predicted.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include <weir/sim.hpp>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::predict {

/// Of changes that have to do with what the time went to, those that gain more than a hundredth; the greatest first. `translate`: the
/// program for another profile, since kernels that are known by their bytes have as many blocks as fill the device.
std::vector<sim::Gain> gains(const sim::model::Program& program, const sim::model::Profile& profile, double makespan,
                             const std::array<double, sim::cause_count>& cause_us,
                             const std::function<sim::model::Program(const sim::model::Profile&)>& translate);

}  // namespace weir::predict
