// Collectives among devices of one host, as NCCL does them.
#pragma once

#include <cstddef>
#include <string_view>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"

namespace weir::sim::model {

/// A rank's call takes the host as long as so many launches: 9.6 us on two H200s.
inline constexpr double launches_of_a_collective = 3;

/// A rank's part of the collective that is called so, "all_reduce", among as many ranks. `bytes`: of the larger of its input and
/// output.
Task collective_task(const Profile& profile, std::string_view call, double bytes, std::size_t ranks);

}  // namespace weir::sim::model
