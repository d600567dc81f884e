// What a thread needs to run commands.
#pragma once

#include <cstdint>

#include <weir/block.hpp>

#include "backends/cpu/workers/crew.hpp"

namespace weir::cpu {

/// A worker's, or that of a host thread which helps while it waits.
struct Runner {
  static constexpr int fair_share = 256;  ///< commands of a turn, before another queue of the priority has one

  detail::BlockMemory block_memory;
  int depth = 0;               ///< of queues that it runs because others wait for them
  int share = fair_share;      ///< commands left of the turn
  int hops = 0;                ///< of the turn, between queues that wait for each other
  std::uint64_t commands = 0;  ///< that it ran so far
  int level = 0;               ///< of what it runs
  int place = 0;               ///< the share of parallel loops that it begins with
  /// A worker's: the one queue that its last command woke, listed and in no list yet. Nothing is run before it is pushed, or taken.
  CpuQueue* woken = nullptr;
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
  /// For the monitor, too: it looks how far that queue comes.
  void note_queue(const CpuQueue& queue) {
    if (member != nullptr) member->queue.store(&queue, std::memory_order_release);
  }
  void await_helpers(bool now) {
    if (member == nullptr) return;
    if (now) member->note_nap();
    member->awaits_helpers.store(now, std::memory_order_relaxed);
  }
};

}  // namespace weir::cpu
