// The workers of one CPU device: ready queues by priority, parallel loops that want help, spinning, sleeping, growing.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include <weir/block.hpp>

#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/ready_lists.hpp"
#include "backends/cpu/workers/sleepers.hpp"

namespace weir::cpu {

class WorkerPool;

/// What a thread needs to run commands: a worker's, or that of a host thread which helps while it waits.
struct Runner {
  detail::BlockMemory block_memory;
  int depth = 0;  ///< of queues that it runs because others wait for them
  bool worker = false;
};

/// A loop that several threads share: each takes chunks until none is left. Chunks are a share of what is left, within limits:
/// long at first, since a long run through memory is faster than a scattered one, and short at the end, for an even finish.
class ParallelLoop {
 public:
  using Body = void (*)(void* context, std::size_t begin, std::size_t end, Runner& runner);

  struct Chunks {
    std::size_t least;
    std::size_t most;
    std::size_t shares;  ///< a chunk is what is left divided by this
  };

  ParallelLoop(Body body, void* context, std::size_t begin, std::size_t end, Chunks chunks)
      : next_(begin), end_(end), chunks_(chunks), body_(body), context_(context) {}

  /// Takes chunks until the loop is used up, a participant threw, or `pool` has more urgent work (never for the owner).
  void participate(Runner& runner, const WorkerPool* leave_for);
  bool used_up() const { return next_.load(std::memory_order_relaxed) >= end_; }

 private:
  friend class WorkerPool;
  /// False if nothing is left.
  bool take(std::size_t& begin, std::size_t& end);

  std::atomic<std::size_t> next_;
  const std::size_t end_;
  const Chunks chunks_;
  const Body body_;
  void* const context_;
  std::atomic<int> helpers_{0};  ///< the last touch of a helper is its decrement
  SpinLock failure_lock_;
  std::exception_ptr failure_;
  ParallelLoop* next_loop_ = nullptr;  ///< guarded by the pool's lock
};

class WorkerPool {
 public:
  static constexpr int levels = ReadyLists::levels;  ///< priorities -5 to 0
  static constexpr int most_workers = 128;

  explicit WorkerPool(int workers);

  int width() const { return width_; }

  /// Makes a queue with work known to the workers. `level` 0 is the most urgent.
  void push(CpuQueue* queue, int level) { push_chain(queue, queue, 1, level); }
  /// Several at once, linked by next_ready().
  void push_chain(CpuQueue* first, CpuQueue* last, int count, int level);
  /// One for which nobody is woken: workers that are awake find it, or the monitor, if nobody took it for a while.
  void push_quietly(CpuQueue* queue, int level);
  /// Somebody should look at what was pushed quietly.
  void nudge() { call_worker(); }
  /// For the monitor: a worker that works on one thing for long, step by step, is not held up.
  void note_progress() { progress_.store(progress_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Whether a queue of a level before `level` waits for a worker.
  bool more_urgent_than(int level) const { return ready_.any_before(level); }
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  int ready() const { return ready_.count(); }
  bool any_ready() const { return ready_.any(); }

  /// Runs body over [0, count), on this thread and, if it lasts, on idle workers. Rethrows what the body threw.
  void run_parallel(ParallelLoop::Body body, void* context, std::size_t count, Runner& runner);
  /// The same for work whose cost is known: split at once into pieces of `chunk` or more.
  void run_split(ParallelLoop::Body body, void* context, std::size_t count, std::size_t chunk, Runner& runner);

  /// A host thread lists or runs queues: it uses a core itself, and may be about to run what is ready.
  void note_host() { host_turns_.store(host_turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// A host thread that waited gives its core up.
  void host_sleeps();

  /// Called by the monitor every tick; false where there is nothing to watch.
  bool watch_if_armed() { return armed_.load(std::memory_order_seq_cst) && watch(); }
  /// The process is ending: workers stop after their present command. Waits a moment for them.
  void stop();

 private:
  void work(bool extra);
  bool sweep(Runner& runner, int& patience);
  bool help_loop(Runner& runner);
  bool spin(int patience);
  bool sleep(Sleepers::Bed& bed, bool extra);
  /// Workers that are awake, not counting as many as the pool has grown by: those were grown for others that are held up.
  int awake() const { return std::min(alive_.load(std::memory_order_relaxed), width_) - sleepers_.count(); }
  void call_worker();
  bool host_is_active();
  void wake_one();
  void arm();
  bool watch();
  void start_worker(bool extra);
  void share(ParallelLoop& loop, Runner& runner, std::size_t pieces);

  const int width_;

  alignas(64) std::atomic<bool> spinning_{false};
  std::atomic<bool> waking_{false};
  Sleepers sleepers_;
  std::atomic<bool> armed_{false};  ///< the monitor watches
  std::atomic<bool> stopping_{false};
  std::atomic<int> alive_{0};

  ReadyLists ready_;

  alignas(64) SpinLock lock_;
  std::atomic<int> loops_{0};
  ParallelLoop* first_loop_ = nullptr;  ///< guarded by lock_

  alignas(64) std::atomic<std::uint32_t> host_turns_{0};  ///< a lost increment does no harm
  std::atomic<std::uint32_t> seen_host_turns_{0};
  std::atomic<std::int64_t> host_seen_{0};  ///< when host_turns_ was last seen to have changed, in nanoseconds

  alignas(64) std::atomic<std::uint32_t> progress_{0};  ///< a lost increment does no harm
  std::uint32_t watched_pops_ = 0;                      ///< the monitor's
  int stuck_ticks_ = 0;
  int quiet_ticks_ = 0;
};

/// Asks the monitor thread to watch a pool that has work and no idle worker.
void arm_monitor();
void register_pool(WorkerPool& pool);

}  // namespace weir::cpu
