// The seam: launches of graphs with collectives, which wait for calls, and hold up calls, as a call of all ranks does.
#pragma once

#include <cstdint>
#include <vector>

#include "collective_call.hpp"

namespace weir::detail {

/// One that its stream has, and that is not on its way yet.
struct WaitingLaunch {
  const void* launch = nullptr;  ///< which one, for all of its communicators
  const Queue* queue = nullptr;
  std::uint64_t place = 0;  ///< in the queue, as CollectivePart has it
  /// Its number among all that a LaunchingTransport was given. CollectiveCall::lane_number is that of a call whose ranks have all
  /// come, and 0 of another one.
  std::uint64_t order = 0;
  std::int64_t ready_nanoseconds = 0;  ///< when the stream had come to it, on the steady clock; 0: not yet
  SourceLocation where;
};

/// Graphs have nodes of its own.
class LaunchingTransport : public CollectiveTransport {
 public:
  /// Those with collectives of this communicator: each comes behind its calls before, and later ones behind it. Finds out meanwhile
  /// which streams have come to theirs, for the next time. Must not wait.
  virtual std::vector<WaitingLaunch> waiting_launches() = 0;
};

/// Nodes are kernels of the host's. Where launches of graphs are calls, the core puts a part of its own before each, which run()
/// orders among those of the calls.
class GatedTransport : public CollectiveTransport {
 public:
  /// False: a launch waits for what its own stream has alone.
  virtual bool launches_are_calls() const = 0;
};

}  // namespace weir::detail
