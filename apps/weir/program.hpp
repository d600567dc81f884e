// Programs that the tool starts: one place for all commands of the form `weir VERB [options] -- PROGRAM ARGS...`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <weir/recording.hpp>

namespace tool {

/// What is set in the program's environment beside what the tool has.
using Switches = std::vector<std::pair<std::string, std::string>>;

/// Starts a program as a shell would, by its path or found in PATH, and waits for its end. Signals that somebody sends to
/// the tool meanwhile go to the program; those of the terminal reach it anyway. Returns its exit code, or 128 and the
/// number of the signal that ended it. Throws UsageError where it cannot be started. Thread rule: no other thread runs.
int run_program(const std::vector<std::string>& words, const Switches& switches);

/// The same, and what it asks of Weir is saved as `output`, with `device` (if not empty) for its default one.
struct RecordedProgram {
  int code;
  bool recorded;  ///< else it made no call of Weir, or did not end by exit()
};
RecordedProgram record_program(const std::vector<std::string>& words, const std::string& output,
                               const std::string& device);

/// Why nothing was `done` with a program that left no file.
std::string left_nothing(const std::string& program, int code, const char* done);

/// The same, and the recording, with more in the environment. Throws std::runtime_error, which says that nothing was `done`, where there is none.
struct LoadedProgram {
  weir::Recording recording;
  int code;
};
LoadedProgram run_and_load(const std::vector<std::string>& words, const std::string& device, const char* done,
                           const Switches& more = {});

}  // namespace tool
