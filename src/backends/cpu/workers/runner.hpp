// What a thread needs to run commands.
#pragma once

#include <weir/block.hpp>

#include "backends/cpu/workers/crew.hpp"

namespace weir::cpu {

/// A worker's, or that of a host thread which helps while it waits.
struct Runner {
  detail::BlockMemory block_memory;
  int depth = 0;  ///< of queues that it runs because others wait for them
  int level = 0;  ///< of what it runs
  int place = 0;  ///< the share of parallel loops that it begins with
  bool worker = false;
  Member* member = nullptr;  ///< of a worker

  /// A worker that is asked to gives the queue up after its present command.
  bool must_leave() const { return member != nullptr && member->leave.load(std::memory_order_relaxed); }
  /// Extra workers stand in for others: they help in no loop.
  bool joins_loops() const { return member != nullptr && !member->extra; }
  /// For the monitor: a worker that works on one thing for long, step by step, is not held up.
  void note_progress() {
    if (member != nullptr) member->note_progress();
  }
  void await_helpers(bool now) {
    if (member == nullptr) return;
    if (now) member->note_nap();
    member->awaits_helpers.store(now, std::memory_order_relaxed);
  }
};

}  // namespace weir::cpu
