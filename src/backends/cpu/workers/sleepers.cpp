// The list of sleeping workers.
#include "backends/cpu/workers/sleepers.hpp"

#include <sched.h>

namespace weir::cpu {

void Sleepers::lie_down(Bed& bed) {
  bed.called.store(0, std::memory_order_relaxed);
  bed.core = sched_getcpu();
  const SpinGuard guard(lock_);
  Bed** link = &first_;
  while (bed.extra && *link != nullptr) link = &(*link)->next;
  bed.next = *link;
  *link = &bed;
  count_.fetch_add(1, std::memory_order_seq_cst);
}

bool Sleepers::get_up(Bed& bed) {
  {
    const SpinGuard guard(lock_);
    for (Bed** link = &first_; *link != nullptr; link = &(*link)->next) {
      if (*link != &bed) continue;
      *link = bed.next;
      count_.fetch_sub(1, std::memory_order_seq_cst);
      return true;
    }
  }
  // Whoever took the bed from the list is still to write to it.
  while (bed.called.load(std::memory_order_acquire) == 0) yield();
  return false;
}

bool Sleepers::wake(bool extra_too) {
  const int core = sched_getcpu();
  Bed* bed;
  {
    const SpinGuard guard(lock_);
    Bed** chosen = &first_;
    while (*chosen != nullptr && (*chosen)->core == core) chosen = &(*chosen)->next;
    if (*chosen == nullptr || (*chosen)->extra) chosen = &first_;
    bed = *chosen;
    if (bed == nullptr || (bed->extra && !extra_too)) return false;
    *chosen = bed->next;
    count_.fetch_sub(1, std::memory_order_seq_cst);
  }
  bed->called.store(1, std::memory_order_seq_cst);
  futex_wake(bed->called, 1);
  return true;
}

}  // namespace weir::cpu
