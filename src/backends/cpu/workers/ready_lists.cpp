// Lists of ready queues under one lock.
#include "backends/cpu/workers/ready_lists.hpp"

#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

void ReadyLists::push(CpuQueue* first, CpuQueue* last, int count, int level) {
  SpinGuard guard(lock_);
  last->next_ready() = nullptr;
  List& list = lists_[level];
  (list.last ? list.last->next_ready() : list.first) = first;
  list.last = last;
  count_.store(count_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  mask_.fetch_or(1u << level, std::memory_order_seq_cst);
}

CpuQueue* ReadyLists::pop() {
  if (!any()) return nullptr;
  SpinGuard guard(lock_);
  const std::uint32_t mask = mask_.load(std::memory_order_relaxed);
  if (mask == 0) return nullptr;
  const int level = __builtin_ctz(mask);
  List& list = lists_[level];
  CpuQueue* queue = list.first;
  list.first = queue->next_ready();
  if (list.first == nullptr) {
    list.last = nullptr;
    // A hint goes, nothing is published: relaxed. Under the lock, so that it takes back no push.
    mask_.fetch_and(~(1u << level), std::memory_order_relaxed);
  }
  count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  pops_.store(pops_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return queue;
}

}  // namespace weir::cpu
