// How the tool ends: exit codes, and the exceptions that choose them.
#pragma once

#include <stdexcept>

namespace tool {

/// What scripts get; the same numbers are in `weir --help`.
enum class Exit : int { ok = 0, wrong = 1, usage = 2, failed = 3 };

/// Something that the user asked for and cannot be had: one line on stderr, Exit::usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Commands do not finish although nothing holds them: the device cannot be used any more, nor the process ended
/// normally. Exit::wrong.
class Stuck : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tool
