// Makes a failing program small: removes what the failure does not need, and never an order that the rest needs.
#pragma once

#include <chrono>
#include <functional>

#include "program.hpp"

namespace weir::stress {

/// The smallest program found, within the time, for which `fails` is still true. Every candidate is a sufficiently
/// ordered program; `fails` should run it several times where failures are rare.
Program shrink(const Program& failing, const std::function<bool(const Program&)>& fails,
               std::chrono::milliseconds budget);

}  // namespace weir::stress
