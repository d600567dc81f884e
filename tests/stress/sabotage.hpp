// Defects planted on purpose, to test the testers.
#pragma once

#include <optional>
#include <vector>

#include "program.hpp"

namespace weir::stress {

/// An order that only one wait gives.
struct Sabotage {
  std::size_t wait;     ///< the command that gives it
  std::size_t earlier;  ///< what must run first
  std::size_t later;    ///< what must run after, or be called after
};

/// The waits of a program without which an order is missing, each with the first order that is.
std::vector<Sabotage> necessary_waits(const Program& program);
/// The waits that may go: orders suffice without any one of them.
std::vector<std::size_t> redundant_waits(const Program& program);
/// The same program on a machine that ignores one command.
Program sabotaged(const Program& program, std::size_t command);

}  // namespace weir::stress
