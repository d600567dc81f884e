// Runs a random program on the library.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>

#include "interpret.hpp"
#include "program.hpp"

namespace weir::stress {

/// An order forced by a gate: one command is held back until another has run, or until the limit.
struct Hold {
  std::size_t command;
  std::size_t until;
  std::chrono::milliseconds limit;
};

/// The backend that programs run on: WEIR_TEST_BACKEND, else "cpu".
std::string_view tested_backend();

/// Runs the program on the first devices of that backend, each host thread's part in a thread of its own.
/// Ends the process, with the program's text, if the program does not end.
Outcome execute(const Program& program, const std::optional<Hold>& hold = std::nullopt);

}  // namespace weir::stress
