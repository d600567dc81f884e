// Whether a list of commands is a program: lives of objects, values before reads, and order enough.
#pragma once

#include <optional>
#include <string>

#include "program.hpp"

namespace weir::stress {

/// What is wrong first: an object used outside of its life, a value never written, an order that is missing.
std::optional<std::string> problem(const Program& program);

/// Without the commands whose objects or values are gone. Orders may be missing.
Program prune(const Program& program);

}  // namespace weir::stress
