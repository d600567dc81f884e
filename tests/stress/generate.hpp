// Random programs, sufficiently ordered.
#pragma once

#include <cstdint>

#include "builder.hpp"
#include "program.hpp"

namespace weir::stress {

/// The same program for the same theme and seed, on every machine.
Program generate(const Theme& theme, std::uint64_t seed);

}  // namespace weir::stress
