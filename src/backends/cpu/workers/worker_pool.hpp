// The workers of one CPU device: ready queues by priority, parallel loops that want help, spinning, sleeping, growing.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include <weir/device.hpp>

#include "backends/cpu/workers/crew.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/parallel_loop.hpp"
#include "backends/cpu/workers/ready_lists.hpp"
#include "backends/cpu/workers/runner.hpp"
#include "backends/cpu/workers/sleepers.hpp"
#include "backends/cpu/workers/vigil.hpp"

namespace weir::cpu {

class WorkerPool {
 public:
  static constexpr int levels = ReadyLists::levels;  ///< priorities -5 to 0
  static constexpr int most_workers = Crew::most;

  explicit WorkerPool(int workers);

  int width() const { return width_; }

  /// Makes a queue with work known to the workers. `level` 0 is the most urgent.
  void push(CpuQueue* queue, int level) { push_chain(queue, queue, 1, level); }
  /// Several at once, linked by next_ready().
  void push_chain(CpuQueue* first, CpuQueue* last, int count, int level);
  /// One for which nobody is woken: workers that are awake find it, or the monitor, if nobody took it for a while.
  void push_quietly(CpuQueue* queue, int level);
  /// Somebody should look at what was pushed quietly: it lasts.
  void nudge();
  /// Whether a queue of a level before `level` waits for a worker, or a loop of one for helpers.
  bool more_urgent_than(int level) const { return ready_.any_before(level) || loops_.any_before(level); }
  bool better_left_to_host(const Runner& runner) const;
  bool stopping() const { return stopping_.load(std::memory_order_relaxed); }
  /// How host threads wait for its queues.
  WaitMode wait_mode() const { return wait_mode_.load(std::memory_order_relaxed); }
  void set_wait_mode(WaitMode mode) { wait_mode_.store(mode, std::memory_order_relaxed); }
  int ready() const { return ready_.count(); }
  bool any_ready() const { return ready_.any(); }

  /// Runs body over [0, count), on this thread and, if it lasts, on idle workers. Rethrows what the body threw. Loops of one `kernel`
  /// are likely to cost the same each time.
  void run_parallel(ParallelLoop::Body body, void* context, std::size_t count, Runner& runner, const void* kernel);
  /// Whether this thread is to run a loop in one piece and without a look at the clock, because such loops were very short. A yes is
  /// for one loop: at one of some times it is no, for run_parallel() to measure the loop again.
  static bool takes_for_tiny(const void* kernel, std::size_t count);
  /// The same for work whose cost is known: split at once into pieces of `chunk` or more.
  void run_split(ParallelLoop::Body body, void* context, std::size_t count, std::size_t chunk, Runner& runner);

  /// A host thread lists or runs queues: it uses a core itself, and may be about to run what is ready.
  void note_host() { host_turns_.store(host_turns_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  /// Of a host thread that is about to run what it waits for: its core; -1 once it has.
  void note_host_core(int core) { host_core_.store(core, std::memory_order_relaxed); }
  /// A host thread that waited gives its core up.
  void host_sleeps();

  /// Called by the monitor every tick; false where there is nothing to watch.
  bool watch_if_armed() { return vigil_.armed() && watch(); }
  /// The process is ending: workers stop after their present command. Waits a moment for them.
  void stop();

 private:
  void work(Member& member);
  bool sweep(Runner& runner, int& patience);
  bool help_loop(Runner& runner);
  void await_loops(int level);
  bool spin(int patience, bool loops);
  bool better_left(int others, bool lasts);
  void learn(bool cheap, bool brief, bool fed);
  std::uint32_t spin_signs() const;
  int home() const;
  int most_spinners() const { return wide() && !cheap_.load(std::memory_order_relaxed) ? std::max(1, width_ / 4) : 1; }
  bool wide() const { return ready_.sharded(); }
  bool sleep(Sleepers::Bed& bed, Member& member);
  void leave_shared_core(Member& member, std::int64_t now);
  void keep_apart(Sleepers::Bed& bed) const;
  /// Workers that are awake and not held up inside a command: they use a core.
  int awake() const {
    return std::max(alive_.load(std::memory_order_relaxed) - sleepers_.count() - crew_.blocked(), 0);
  }
  /// How many may be: as many as there are cores, and those that the monitor has granted.
  int allowed() const { return width_ + granted_.load(std::memory_order_relaxed); }
  void call_worker();
  void call_unless_left(bool lasts);
  bool host_is_active(std::int64_t now);
  void wake_one();

  // growing (growth.cpp)
  void arm();
  bool watch();
  void foresee(const Crew::Look& look);
  void grow(int count);
  void start_worker(bool extra);

  void share(ParallelLoop& loop, Runner& runner, std::size_t pieces);

  const int width_;

  alignas(64) Vigil<ThreadParts> vigil_;
  Sleepers sleepers_;
  std::atomic<bool> stopping_{false};
  std::atomic<WaitMode> wait_mode_{WaitMode::automatic};
  std::atomic<int> alive_{0};

  ReadyLists ready_;

  OpenLoops loops_;

  // What the last sweeps were like. Written when that changes.
  alignas(64) std::atomic<bool> cheap_{true};      ///< commands from a host cost less than to hand them over
  std::atomic<bool> brief_{true};                  ///< a queue's turn does
  alignas(64) std::atomic<std::int64_t> soon_{0};  ///< until then a worker with such turns will probably look again

  alignas(64) std::atomic<std::uint32_t> host_turns_{0};  ///< a lost increment does no harm
  std::atomic<int> host_core_{-1};
  std::atomic<std::int64_t> moves_again_{0};  ///< until then none of its workers chooses a core
  std::atomic<std::int64_t> apart_until_{0};  ///< until then those that are woken do not share their caller's core
  std::atomic<std::uint32_t> seen_host_turns_{0};
  std::atomic<std::int64_t> host_seen_{0};  ///< when host_turns_ was last seen to have changed, in nanoseconds

  alignas(64) std::atomic<int> granted_{0};  ///< written by the monitor

  // The monitor's.
  const int cores_;  ///< that this process may use
  std::uint32_t watched_pops_ = 0;
  int watched_blocked_ = 0;
  int looks_without_more_blocked_ = 0;
  int quiet_ticks_ = 0;
  int foreseen_ = 0;  ///< workers granted because more and more are held up
  int help_ = 0;      ///< workers granted to those that compute without progress
  int grants_ = 0;    ///< of help, one after the other
  std::chrono::steady_clock::time_point last_grant_{};

  Crew crew_;
};

/// Asks the monitor thread to watch a pool that has work and no idle worker. False if that could not be started.
bool arm_monitor();
void register_pool(WorkerPool& pool);

}  // namespace weir::cpu
