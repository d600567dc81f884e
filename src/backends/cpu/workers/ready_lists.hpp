// Queues with work that no thread runs yet, by priority: the most urgent first, within a priority about first in, first out.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/workers/futex.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

class CpuQueue;

/// Queues linked by CpuQueue::next_ready(), which belongs to the lists from push() to pop().
///
/// A narrow pool has one shard: lists of all levels under one lock. A wide one has a shard for every few workers, for the
/// usual level, which is the least urgent: a worker's pushes go to its own, and it pops from its own first, then from the
/// others'. The more urgent levels share shard 0, and nothing else does: whoever pops looks there first, so that priorities
/// are kept over all shards, and a look for more urgent work is a load of a line that seldom changes.
///
/// Invariants
///  1. A queue is in exactly one list from push() to pop(); a level's bit in a shard's mask is set exactly while that list
///     is not empty. Both change under the shard's lock.
///  2. No push is left to nobody (vigil.hpp). Who pushes raises a mask by a full barrier and then looks who is awake: if
///     nobody will look again, it wakes one. Who stops looking says so by a full barrier and then looks at every mask
///     (any_for_certain). In the one order of all these operations either the pusher's look
///     is later, and finds the one who stopped, or the mask was raised earlier, and is found.
///  3. No list starves: every few pops a worker begins with another shard than its own.
/// All other looks are hints, and relaxed: what they miss is found by 2.
class ReadyLists {
 public:
  static constexpr int levels = 6;  ///< 0 is the most urgent
  static constexpr int usual_level = levels - 1;
  static constexpr int anywhere = -1;  ///< a home: the pusher has none, so pushes are spread over the shards

  explicit ReadyLists(int workers);

  /// Where worker number `worker` pushes and first looks.
  int home_of(int worker) const;
  /// Appends `count` queues, linked from `first` to `last`. A full barrier: what the caller loads afterwards by
  /// memory_order_seq_cst is not older. Its partner is any_for_certain().
  void push(CpuQueue* first, CpuQueue* last, int count, int level, int home);
  /// A queue of the most urgent level; null if none was found. `turn` is the caller's count of its pops.
  CpuQueue* pop(int home, std::uint32_t turn);

  bool any() const;
  /// Whether a queue waits where the worker looks first.
  bool any_at(int home) const {
    return (shards_[0].mask.load(std::memory_order_relaxed) |
            shards_[place(home)].mask.load(std::memory_order_relaxed)) != 0;
  }
  /// After a full barrier of the caller's: sees every push whose caller did not see what was written before the barrier.
  bool any_for_certain() const;
  /// Whether a queue of a level before `level` is ready.
  bool any_before(int level) const {
    if (level > usual_level) return any();
    return (shards_[0].mask.load(std::memory_order_relaxed) & ((1u << level) - 1)) != 0;
  }
  /// Roughly, for one shard exactly.
  int count() const;
  /// How many were popped so far: for who watches whether any are.
  std::uint32_t pops() const;
  bool sharded() const { return used_ > 1; }

 private:
  static constexpr int most_shards = 17;
  static constexpr int workers_per_shard = 4;

  struct List {
    CpuQueue* first = nullptr;
    CpuQueue* last = nullptr;
  };
  /// What a push or a pop of the usual level writes lies in one cache line.
  struct alignas(64) Shard {
    SpinLock lock;
    std::atomic<std::uint32_t> mask{0};        ///< levels whose list is not empty; written under lock
    std::atomic<std::uint32_t> pops{0};        ///< written under lock
    std::atomic<int> count{0};                 ///< written under lock
    List lists[levels] WEIR_GUARDED_BY(lock);  ///< the usual level first
  };

  static std::size_t place(int home) { return static_cast<std::size_t>(home); }
  CpuQueue* pop_from(Shard& shard);

  const int used_;                                    ///< shards: one, or the urgent one and some for the usual level
  alignas(64) std::atomic<std::uint32_t> spread_{0};  ///< a lost increment does no harm
  std::array<Shard, most_shards> shards_;
};

}  // namespace weir::cpu
