// Queues with work that no thread runs yet, by priority: the most urgent first, within a priority first in, first out.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/cpu/workers/futex.hpp"

namespace weir::cpu {

class CpuQueue;

/// Queues linked by CpuQueue::next_ready(), which belongs to the lists from push() to pop().
///
/// Pushing and going to sleep pair: who pushes raises the mask by a full barrier and then looks whether anybody is awake;
/// who goes to sleep says so by a full barrier (Sleepers::lie_down) and then looks at the mask (any_for_certain). One of
/// the two sees the other, so no push is left to nobody. All other looks are hints and relaxed: what they miss, a pusher
/// who calls a worker or a worker before it sleeps finds.
class ReadyLists {
 public:
  static constexpr int levels = 6;  ///< 0 is the most urgent

  /// Appends `count` queues, linked from `first` to `last`. A full barrier: what the caller loads afterwards by
  /// memory_order_seq_cst is not older. Its partner is any_for_certain().
  void push(CpuQueue* first, CpuQueue* last, int count, int level);
  /// The first queue of the most urgent level; null if there is none.
  CpuQueue* pop();

  bool any() const { return mask_.load(std::memory_order_relaxed) != 0; }
  /// After a full barrier of the caller's: sees every push whose caller did not see what was written before the barrier.
  bool any_for_certain() const { return mask_.load(std::memory_order_seq_cst) != 0; }
  /// Whether a queue of a level before `level` is ready.
  bool any_before(int level) const { return (mask_.load(std::memory_order_relaxed) & ((1u << level) - 1)) != 0; }
  int count() const { return count_.load(std::memory_order_relaxed); }
  /// How many were popped so far: for who watches whether any are.
  std::uint32_t pops() const { return pops_.load(std::memory_order_relaxed); }

 private:
  struct List {
    CpuQueue* first = nullptr;
    CpuQueue* last = nullptr;
  };

  // What a push or a pop writes lies together: one cache line travels, not three.
  alignas(64) SpinLock lock_;
  std::atomic<std::uint32_t> mask_{0};  ///< levels whose list is not empty; written under lock_
  std::atomic<std::uint32_t> pops_{0};  ///< written under lock_
  std::atomic<int> count_{0};           ///< written under lock_
  List lists_[levels];                  ///< guarded by lock_
};

}  // namespace weir::cpu
