// Runs a random program on the library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
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

/// Whether the thread's current call is made again should it be refused with Errc::hazard.
bool repeats_refused_calls();

/// A question behind which the machine may put a command of its own: the last one, so that nobody is told of that command
/// who has waited for all others; and where nothing fails, as that would skip it. Else beyond the program.
std::size_t question_to_probe(const Program& program);

/// Whether a stream says that it is done although a command that was put on it has not run. `put` gets that command.
template <class Put, class Done>
bool false_yes(Put&& put, Done&& done) {
  auto ran = std::make_shared<std::atomic<bool>>(false);
  put([ran] { ran->store(true); });
  return done() && !ran->load();
}

}  // namespace weir::stress
