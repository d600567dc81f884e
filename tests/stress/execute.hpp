// Runs a random program on the library.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>

#include "interpret.hpp"
#include "program.hpp"

namespace weir::stress {

/// An order forced by a gate: one command is held back until another has run, or until the limit.
struct Hold {
  std::size_t command;
  std::size_t until;
  std::chrono::milliseconds limit;
};

/// Runs the program on the first devices of the backend "cpu", each host thread's part in a thread of its own.
/// Ends the process, with the program's text, if the program does not end.
Outcome execute(const Program& program, const std::optional<Hold>& hold = std::nullopt);

}  // namespace weir::stress
