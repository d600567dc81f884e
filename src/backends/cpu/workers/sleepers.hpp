// Workers that sleep, each on a word of its own, so that a waker can choose whom it wakes.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "backends/cpu/workers/futex.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

/// `Parts` says what the list is made of; a model checker has its own:
///   Atomic<T>, Data<T>, Lock, Guard   std::atomic<T>, T, and a lock with its scope
///   core(), back_off(looks), wake(word)  where the caller runs, its wait for another thread, and the call of a sleeper
template <class Parts>
class BasicSleepers {
  template <class T>
  using Atomic = typename Parts::template Atomic<T>;
  template <class T>
  using Data = typename Parts::template Data<T>;
  using Lock = typename Parts::Lock;
  using Guard = typename Parts::Guard;

 public:
  /// A worker's place in the list; lives as long as the worker.
  struct Bed {
    Atomic<std::uint32_t> called{0};  ///< the worker waits for it to change from 0
    Data<int> core{-1};
    Data<int> caller{-1};     ///< the core of who has called; -1: nobody has
    Data<bool> extra{false};  ///< called last, and never for a loop
    Data<Bed*> next{nullptr};
  };

  /// Workers in the list. With a full barrier: who is in it looks for work once more before it sleeps.
  int count() const { return count_.load(std::memory_order_seq_cst); }
  void lie_down(Bed& bed);
  /// Leaves the list; false if somebody has called.
  bool get_up(Bed& bed);
  /// Calls the worker that lay down last, of those on other cores than the caller's if there are any: on the same core it
  /// would have to wait for the caller. False if nobody sleeps.
  bool wake() {
    return wake([](Bed&) {});
  }
  /// `before(bed)` is done while it still sleeps.
  template <class Before>
  bool wake(Before before) {
    return call(true, before);
  }
  /// The same, but for extra workers.
  bool wake_ordinary() {
    return call(false, [](Bed&) {});
  }

 private:
  template <class Before>
  bool call(bool extra_too, Before before);

  Lock lock_;
  /// Who lay down last comes first, extra workers last.
  Data<Bed*> first_ WEIR_GUARDED_BY(lock_){nullptr};
  Atomic<int> count_{0};
};

template <class Parts>
void BasicSleepers<Parts>::lie_down(Bed& bed) {
  bed.called.store(0, std::memory_order_relaxed);
  bed.core = Parts::core();
  bed.caller = -1;
  const Guard guard(lock_);
  Data<Bed*>* link = &first_;
  while (bed.extra && *link != nullptr && !static_cast<Bed*>(*link)->extra) link = &static_cast<Bed*>(*link)->next;
  bed.next = static_cast<Bed*>(*link);
  *link = &bed;
  count_.fetch_add(1, std::memory_order_seq_cst);
}

template <class Parts>
bool BasicSleepers<Parts>::get_up(Bed& bed) {
  // In no list then. Each of many who are called at once would look through it, and keep callers and others waiting.
  if (bed.called.load(std::memory_order_acquire) != 0) return false;
  {
    const Guard guard(lock_);
    for (Data<Bed*>* link = &first_; *link != nullptr; link = &static_cast<Bed*>(*link)->next) {
      if (*link != &bed) continue;
      *link = static_cast<Bed*>(bed.next);
      count_.fetch_sub(1, std::memory_order_seq_cst);
      return true;
    }
  }
  // Whoever took the bed from the list is still to write to it.
  for (int looks = 0; bed.called.load(std::memory_order_acquire) == 0; ++looks) Parts::back_off(looks);
  return false;
}

template <class Parts>
template <class Before>
bool BasicSleepers<Parts>::call(bool extra_too, Before before) {
  const int core = Parts::core();
  Bed* bed;
  {
    const Guard guard(lock_);
    Data<Bed*>* chosen = &first_;
    while (*chosen != nullptr && static_cast<Bed*>(*chosen)->core == core) chosen = &static_cast<Bed*>(*chosen)->next;
    if (*chosen == nullptr || static_cast<Bed*>(*chosen)->extra) chosen = &first_;
    bed = *chosen;
    if (bed == nullptr || (bed->extra && !extra_too)) return false;
    *chosen = static_cast<Bed*>(bed->next);
    count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  bed->caller = core;
  before(*bed);
  bed->called.store(1, std::memory_order_seq_cst);
  Parts::wake(bed->called);
  return true;
}

/// What a pool of threads is made of.
struct ThreadParts {
  template <class T>
  using Atomic = std::atomic<T>;
  template <class T>
  using Data = T;
  using Lock = SpinLock;
  using Guard = SpinGuard;
  static int core() { return sched_getcpu(); }
  static void back_off(int looks) { cpu::back_off(looks); }
  static void wake(std::atomic<std::uint32_t>& word) { futex_wake(word, 1); }
};

extern template class BasicSleepers<ThreadParts>;
using Sleepers = BasicSleepers<ThreadParts>;

}  // namespace weir::cpu
