// Workers that sleep, each on a word of its own, so that a waker can choose whom it wakes.
#pragma once

#include <atomic>
#include <cstdint>

#include "backends/cpu/workers/futex.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

class Sleepers {
 public:
  /// A worker's place in the list; lives as long as the worker.
  struct Bed {
    std::atomic<std::uint32_t> called{0};  ///< the worker waits for it to change from 0
    int core = -1;
    bool extra = false;  ///< called last, and never for a loop
    Bed* next = nullptr;
  };

  /// Workers in the list. With a full barrier: who is in it looks for work once more before it sleeps.
  int count() const { return count_.load(std::memory_order_seq_cst); }
  void lie_down(Bed& bed);
  /// Leaves the list; false if somebody has called.
  bool get_up(Bed& bed);
  /// Calls the worker that lay down last, of those on other cores than the caller's if there are any: on the same core it
  /// would have to wait for the caller. False if nobody sleeps.
  bool wake() { return wake(true); }
  /// The same, but for extra workers.
  bool wake_ordinary() { return wake(false); }

 private:
  bool wake(bool extra_too);

  SpinLock lock_;
  Bed* first_ WEIR_GUARDED_BY(lock_) = nullptr;  ///< extra workers come last
  std::atomic<int> count_{0};
};

}  // namespace weir::cpu
