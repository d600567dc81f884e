// From the model's answer to what held a program back.
#pragma once

#include <vector>

#include <weir/sim.hpp>

#include "backends/sim/model/program.hpp"

namespace weir::predict {

/// Why a span did not begin earlier, for people.
sim::Cause wait_cause(const sim::model::Span& span);
/// From the beginning to the end; commands are places in the program's list of calls.
std::vector<sim::PathPart> critical_path(const sim::model::Program& program, const sim::model::Result& result);

}  // namespace weir::predict
