// The monitor: one thread for all pools, asleep unless some pool has work and no idle worker. It lets a pool grow while
// commands hold all its workers, so that a long or waiting kernel does not hold up other streams.
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/thread_start.hpp"
#include "backends/cpu/workers/worker_pool.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

namespace {

constexpr auto tick = std::chrono::milliseconds(1);

struct Monitor {
  detail::Mutex mutex;
  std::vector<WorkerPool*> pools WEIR_GUARDED_BY(mutex);
  bool started WEIR_GUARDED_BY(mutex) = false;
  std::atomic<std::uint32_t> requests{0};

  void run() {
    for (;;) {
      const std::uint32_t seen = requests.load(std::memory_order_seq_cst);
      bool busy = false;
      {
        const detail::LockGuard guard(mutex);
        for (WorkerPool* pool : pools) busy = pool->watch_if_armed() || busy;
      }
      if (busy) {
        std::this_thread::sleep_for(tick);
      } else {
        futex_wait(requests, seen);
      }
    }
  }
};

Monitor& monitor() {
  static auto& instance = *new Monitor;
  return instance;
}

}  // namespace

void register_pool(WorkerPool& pool) {
  const detail::LockGuard guard(monitor().mutex);
  monitor().pools.push_back(&pool);
}

bool arm_monitor() {
  Monitor& m = monitor();
  m.requests.fetch_add(1, std::memory_order_seq_cst);
  if (futex_wake(m.requests, 1) > 0) return true;
  const detail::LockGuard guard(m.mutex);
  if (!m.started) m.started = start_thread([](void* monitor) { static_cast<Monitor*>(monitor)->run(); }, &m);
  return m.started;
}

}  // namespace weir::cpu
