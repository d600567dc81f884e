// The processes of a job on this machine: started together, listened to, told of signals, and waited for.
#pragma once

#include <string>
#include <vector>

#include "program.hpp"

namespace tool {

struct RankOptions {
  int ranks = 1;
  double grace_seconds = 10;  ///< that the others have to end once one has failed
  bool prefixed = true;       ///< each line of output has the number of its rank before it
};

/// Starts the program once for each rank, with RANK, LOCAL_RANK and `switches` in its environment, and waits for all. Rank 0
/// has the tool's input, the others none. Signals that somebody sends to the tool go to all of them. When one ends with an
/// error, the others have the grace to end by themselves; then they are told to (SIGTERM), and made to (SIGKILL). If the tool
/// is gone, so are they. Returns the exit code of the first rank that failed, 128 and the number of the signal that ended
/// it, or 0. Throws UsageError where the program cannot be started. Thread rule: no other thread runs.
int run_ranks(const std::vector<std::string>& words, const Switches& switches, const RankOptions& options);

}  // namespace tool
