// The workers of one CPU device: ready queues by priority, parallel loops that want help, spinning, sleeping, growing.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <weir/block.hpp>

#include "backends/cpu/futex.hpp"

namespace weir::cpu {

class CpuQueue;
class WorkerPool;

/// What a thread needs to run commands: a worker's, or that of a host thread which helps while it waits.
struct Runner {
  detail::BlockMemory block_memory;
  int depth = 0;  ///< of queues that it runs because others wait for them
};

/// A loop that several threads share: each takes chunks until none is left.
class ParallelLoop {
 public:
  using Body = void (*)(void* context, std::size_t begin, std::size_t end, Runner& runner);

  ParallelLoop(Body body, void* context, std::size_t begin, std::size_t end, std::size_t chunk)
      : next_(begin), end_(end), chunk_(chunk), body_(body), context_(context) {}

  /// Takes chunks until the loop is used up, a participant threw, or `pool` has more urgent work (never for the owner).
  void participate(Runner& runner, const WorkerPool* leave_for);
  bool used_up() const { return next_.load(std::memory_order_relaxed) >= end_; }

 private:
  friend class WorkerPool;
  std::atomic<std::size_t> next_;
  const std::size_t end_;
  const std::size_t chunk_;
  const Body body_;
  void* const context_;
  std::atomic<int> helpers_{0};  ///< the last touch of a helper is its decrement
  SpinLock failure_lock_;
  std::exception_ptr failure_;
  ParallelLoop* next_loop_ = nullptr;  ///< guarded by the pool's lock
};

class WorkerPool {
 public:
  static constexpr int levels = 6;  ///< priorities -5 to 0
  static constexpr int most_workers = 128;

  explicit WorkerPool(int workers);

  int width() const { return width_; }

  /// Makes a queue with work known to the workers. `level` 0 is the most urgent.
  void push(CpuQueue* queue, int level) { push_chain(queue, queue, level); }
  /// Several at once, linked by next_ready().
  void push_chain(CpuQueue* first, CpuQueue* last, int level);
  /// Whether a queue of a level before `level` waits for a worker.
  bool more_urgent_than(int level) const {
    return (ready_mask_.load(std::memory_order_relaxed) & ((1u << level) - 1)) != 0;
  }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  bool any_ready() const { return ready_mask_.load(std::memory_order_relaxed) != 0; }

  /// Runs body over [0, count), on this thread and, if it lasts, on idle workers. Rethrows what the body threw.
  void run_parallel(ParallelLoop::Body body, void* context, std::size_t count, Runner& runner);
  /// The same for work whose cost is known: split at once into pieces of `chunk`.
  void run_split(ParallelLoop::Body body, void* context, std::size_t count, std::size_t chunk, Runner& runner);

  /// Called by the monitor every tick; false where there is nothing to watch.
  bool watch_if_armed() { return armed_.load(std::memory_order_seq_cst) && watch(); }
  /// The process is ending: workers stop after their present command. Waits a moment for them.
  void stop();

 private:
  struct List {
    CpuQueue* first = nullptr;
    CpuQueue* last = nullptr;
  };

  CpuQueue* pop();
  void work(bool extra);
  bool find_work(Runner& runner);
  bool help_loop(Runner& runner);
  bool spin();
  bool sleep(bool extra);
  void wake_one();
  bool watch();
  void start_worker(bool extra);
  void share(ParallelLoop& loop, Runner& runner, std::size_t pieces);

  const int width_;

  alignas(64) std::atomic<bool> spinning_{false};
  std::atomic<bool> waking_{false};
  std::atomic<int> sleepers_{0};
  std::atomic<std::uint32_t> epoch_{0};  ///< sleepers wait on it
  std::atomic<bool> armed_{false};       ///< the monitor watches
  std::atomic<bool> stopping_{false};
  std::atomic<int> alive_{0};

  // What a push or a pop writes lies together: one cache line travels, not three.
  alignas(64) SpinLock lock_;
  std::atomic<std::uint32_t> ready_mask_{0};
  std::atomic<std::uint32_t> pushes_{0};  ///< written under lock_
  std::atomic<std::uint32_t> pops_{0};    ///< written under lock_
  List ready_[levels];                    ///< guarded by lock_
  std::atomic<int> loops_{0};
  ParallelLoop* first_loop_ = nullptr;  ///< guarded by lock_

  std::uint32_t watched_pops_ = 0;  ///< the monitor's
  int stuck_ticks_ = 0;
  int quiet_ticks_ = 0;
};

/// Asks the monitor thread to watch a pool that has work and no idle worker.
void arm_monitor();
void register_pool(WorkerPool& pool);

}  // namespace weir::cpu
