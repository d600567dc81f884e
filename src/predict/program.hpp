// From a recorded program to what the model is given.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <weir/recording.hpp>

#include "backends/sim/model/profile.hpp"
#include "backends/sim/model/program.hpp"
#include "predict/tasks.hpp"

namespace weir::predict {

struct Translated {
  sim::model::Program program;
  std::vector<std::uint32_t> command;  ///< of each call of the program: the place of its command
  std::vector<std::string> estimated;  ///< what is a guess, one text for each kind
};

/// Throws invalid_value for what the devices of the profile cannot run, with the command's id.
Translated translate(const Recording& recording, const sim::model::Profile& profile, const Rules& rules);

}  // namespace weir::predict
