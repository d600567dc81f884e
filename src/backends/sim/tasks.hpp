// From what observers are told to what the model is given.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>

#include <weir/op.hpp>

#include "backends/sim/costs.hpp"
#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim {

/// What was said of a launch, with its own blocks and threads where time goes by blocks.
std::optional<model::KernelCost> said_of(const Launch& launch, const Costs& costs);
/// The same of any command that was made there.
std::optional<model::KernelCost> said_of(const Op& op, SourceLocation where, const Costs& costs);

/// Kernels whose cost nobody said last as long as the bytes of their uses take: their names are added to `estimated`. Work::nothing
/// for what keeps no engine busy. What fits on no multiprocessor takes one whole.
model::Task task_of(const Op& op, std::span<const Region> uses, SourceLocation where, const model::Profile& profile,
                    const Costs& costs, std::set<std::string, std::less<>>& estimated);

}  // namespace weir::sim
