// Collectives that wait for each other in a circle, because ranks called them in different orders.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "collective_launches.hpp"
#include "core/collectives/communicator_state.hpp"

namespace weir::detail {

/// One that was open for some time, and where those parts are that were called by then.
struct PendingCall {
  struct Part {
    std::size_t index;
    const Queue* queue;
    std::uint64_t place;
  };
  std::shared_ptr<CommunicatorState> communicator;
  CallReference call;
  std::vector<Part> parts = {};
};

/// A launch of a graph, a call of all ranks of these.
struct PendingLaunch {
  WaitingLaunch launch;
  std::vector<std::shared_ptr<CommunicatorState>> communicators = {};
};
struct Pending {
  std::vector<PendingCall> calls;
  std::vector<PendingLaunch> launches;
};

/// If some wait for each other, by the orders of streams and communicators alone, their communicators fail. True if so. What is
/// found is true whatever has happened since they were collected: nothing in a circle can have run. Without any communicator's
/// lock.
bool fail_circle(const Pending& pending);

}  // namespace weir::detail
