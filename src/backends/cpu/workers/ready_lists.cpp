// Lists of ready queues: shards with a lock each.
#include "backends/cpu/workers/ready_lists.hpp"

#include <algorithm>

#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {
constexpr int narrow = 3;                   ///< workers that one lock serves best
constexpr std::uint32_t pops_at_home = 15;  ///< before a worker begins elsewhere
}  // namespace

ReadyLists::ReadyLists(int workers)
    : used_(workers <= narrow
                ? 1
                : std::min(1 + (workers + workers_per_shard - 1) / workers_per_shard, static_cast<int>(most_shards))) {}

int ReadyLists::home_of(int worker) const { return used_ == 1 ? 0 : 1 + worker % (used_ - 1); }

void ReadyLists::push(CpuQueue* first, CpuQueue* last, int count, int level, int home) {
  std::size_t at = 0;
  if (used_ > 1 && level == usual_level) {
    if (home == anywhere) {
      const std::uint32_t next = spread_.load(std::memory_order_relaxed) + 1;
      spread_.store(next, std::memory_order_relaxed);
      home = 1 + static_cast<int>(next % static_cast<std::uint32_t>(used_ - 1));
    }
    at = place(home);
  }
  Shard& shard = shards_[at];
  SpinGuard guard(shard.lock);
  last->next_ready() = nullptr;
  List& list = shard.lists[usual_level - level];
  (list.last ? list.last->next_ready() : list.first) = first;
  list.last = last;
  shard.count.store(shard.count.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  shard.mask.fetch_or(1u << level, std::memory_order_seq_cst);  // A1, see vigil.hpp
}

inline CpuQueue* ReadyLists::pop_from(Shard& shard) {
  // By seq_cst for a worker's first look after it was woken or spun, which pairs like any_for_certain().
  if (shard.mask.load(std::memory_order_seq_cst) == 0) return nullptr;
  SpinGuard guard(shard.lock);
  const std::uint32_t mask = shard.mask.load(std::memory_order_relaxed);
  if (mask == 0) return nullptr;
  const int level = __builtin_ctz(mask);
  List& list = shard.lists[usual_level - level];
  CpuQueue* queue = list.first;
  list.first = queue->next_ready();
  if (list.first == nullptr) {
    list.last = nullptr;
    // A hint goes, nothing is published: relaxed. Under the lock, so that it takes back no push.
    shard.mask.fetch_and(~(1u << level), std::memory_order_relaxed);
  }
  shard.count.store(shard.count.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  shard.pops.store(shard.pops.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return queue;
}

CpuQueue* ReadyLists::pop(int home, std::uint32_t turn) {
  CpuQueue* queue = pop_from(shards_[0]);
  if (queue != nullptr || used_ == 1) return queue;
  const int usual = used_ - 1;
  int at = home - 1;
  if ((turn & pops_at_home) == 0)
    at = static_cast<int>((turn / (pops_at_home + 1)) % static_cast<std::uint32_t>(usual));
  for (int i = 0; i < usual; ++i) {
    queue = pop_from(shards_[place(1 + at)]);
    if (queue != nullptr) return queue;
    if (++at == usual) at = 0;
  }
  return nullptr;
}

bool ReadyLists::any() const {
  for (int i = 0; i < used_; ++i) {
    if (shards_[place(i)].mask.load(std::memory_order_relaxed) != 0) return true;
  }
  return false;
}

bool ReadyLists::any_for_certain() const {
  for (int i = 0; i < used_; ++i) {
    if (shards_[place(i)].mask.load(std::memory_order_seq_cst) != 0) return true;  // A4
  }
  return false;
}

int ReadyLists::count() const {
  int all = 0;
  for (int i = 0; i < used_; ++i) all += shards_[place(i)].count.load(std::memory_order_relaxed);
  return all;
}

std::uint32_t ReadyLists::pops() const {
  std::uint32_t all = 0;
  for (int i = 0; i < used_; ++i) all += shards_[place(i)].pops.load(std::memory_order_relaxed);
  return all;
}

}  // namespace weir::cpu
