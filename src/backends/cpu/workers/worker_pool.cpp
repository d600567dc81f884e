// Workers: one spins for a moment after the last work, the others sleep; a submitter wakes somebody only if nobody spins.
#include "backends/cpu/workers/worker_pool.hpp"

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "backend.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto spin_window = std::chrono::microseconds(50);
constexpr int pauses_between_looks = 32;  ///< about a microsecond
constexpr int usual_looks = 32;           ///< at ready queues, while a host thread is at work
constexpr int most_looks = 256;
constexpr auto cheap_command = std::chrono::nanoseconds(250);
constexpr auto host_presence =
    std::chrono::nanoseconds(20'000);  ///< for so long after a sign of life a host is at work
constexpr auto extra_worker_patience = std::chrono::milliseconds(100);
constexpr auto stop_patience = std::chrono::milliseconds(500);
}  // namespace

WorkerPool::WorkerPool(int workers) : width_(workers) { register_pool(*this); }

void WorkerPool::push_chain(CpuQueue* first, CpuQueue* last, int count, int level) {
  ready_.push(first, last, count, level);
  call_worker();
}

void WorkerPool::push_quietly(CpuQueue* queue, int level) {
  ready_.push(queue, queue, 1, level);
  arm();
}

/// Sees to it that ready queues find a worker. One more than there are cores for is woken by the monitor alone: the host
/// thread is at work, too, and would lose its core to it.
void WorkerPool::call_worker() {
  // The other side of this check is in sleep(): a sleeper is counted before it looks at the mask for the last time.
  if (spinning_.load(std::memory_order_seq_cst) || waking_.load(std::memory_order_seq_cst)) return;
  const int others = awake();
  if (others > 0 && others + 1 >= width_ && host_is_active()) {
    arm();
  } else {
    wake_one();
  }
}

bool WorkerPool::host_is_active() {
  const std::int64_t now =
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
  const std::uint32_t turns = host_turns_.load(std::memory_order_relaxed);
  if (turns != seen_host_turns_.load(std::memory_order_relaxed)) {
    seen_host_turns_.store(turns, std::memory_order_relaxed);
    host_seen_.store(now, std::memory_order_relaxed);
    return true;
  }
  return now - host_seen_.load(std::memory_order_relaxed) < host_presence.count();
}

void WorkerPool::host_sleeps() {
  seen_host_turns_.store(host_turns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  host_seen_.store(0, std::memory_order_relaxed);
  if (any_ready()) call_worker();
}

/// Wakes a sleeper, starts a worker that was never needed so far, or has the monitor watch: all are busy.
void WorkerPool::wake_one() {
  if (sleepers_.count() > 0 && awake() < allowed()) {
    if (waking_.exchange(true, std::memory_order_seq_cst)) return;
    if (sleepers_.wake()) return;  // the woken thread takes `waking_` back
    waking_.store(false, std::memory_order_seq_cst);
  }
  if (alive_.load(std::memory_order_relaxed) < width_) {
    start_worker(false);
  } else {
    arm();
  }
}

void WorkerPool::work(Member& member) {
  crew_.enter(member);
  detail::thread_state = detail::ThreadState::running;
  {
    Runner runner;
    runner.worker = true;
    runner.member = &member;
    runner.place = crew_.index(member);
    Sleepers::Bed bed;
    bed.extra = member.extra;
    int patience = 0;
    while (!stopping_.load(std::memory_order_relaxed)) {
      if (!member.extra || awake() <= allowed()) {
        member.leave.store(false, std::memory_order_relaxed);
        if (sweep(runner, patience) && patience == 0) continue;
        if (spin(std::max(patience, usual_looks), !member.extra)) continue;
      }
      if (!sleep(bed, member)) break;
    }
  }
  crew_.unblock(member);
  crew_.leave(member);
  alive_.fetch_sub(1, std::memory_order_seq_cst);
}

/// Gives each queue that is ready now a turn; false if there was nothing to do. Where a host thread keeps feeding queues with
/// commands that cost less than to hand them over, `patience` grows, so that many are handed over at once; else it ends.
bool WorkerPool::sweep(Runner& runner, int& patience) {
  Member& member = *runner.member;
  int turns = 0;
  std::uint64_t commands = 0;
  const std::uint32_t host_turns = host_turns_.load(std::memory_order_relaxed);
  const auto begin = Clock::now();
  for (int left = ready_.count(); left > 0; --left) {
    if (runner.joins_loops() && loops_.any() && !ready_.any_before(loops_.most_urgent() + 1)) {
      help_loop(runner);
      return true;
    }
    CpuQueue* queue = ready_.pop();
    if (queue == nullptr) break;
    if (any_ready()) call_worker();  // one wakes the next only if there is more to do
    member.queue.store(queue, std::memory_order_relaxed);
    member.note_progress();
    commands += queue->run_popped(runner);
    ++turns;
    if (member.blocked.load(std::memory_order_relaxed)) crew_.unblock(member);
    if (member.leave.load(std::memory_order_relaxed)) return true;
  }
  if (turns == 0) return runner.joins_loops() && loops_.any() && help_loop(runner);
  const bool cheap = Clock::now() - begin < (static_cast<std::int64_t>(commands) + turns) * cheap_command;
  const bool fed = host_turns_.load(std::memory_order_relaxed) != host_turns;
  patience = cheap && fed ? std::min(std::max(2 * patience, usual_looks), most_looks) : 0;
  return true;
}

/// Looks for work for a short while; one worker at a time. Looks seldom, and leaves ready queues alone while a
/// host thread lists or runs some, up to a limit: a host thread that is about to wait runs its own work in a fraction of the time that handing
/// it over takes, and every look of a spinner slows a submitter down.
bool WorkerPool::spin(int patience, bool loops) {
  if (spinning_.exchange(true, std::memory_order_seq_cst)) return false;
  const auto deadline = Clock::now() + spin_window;
  bool found = false;
  std::uint32_t turns = host_turns_.load(std::memory_order_relaxed);
  while (!found && !stopping_.load(std::memory_order_relaxed)) {
    pause(pauses_between_looks);
    if (loops && loops_.any()) {
      found = true;
    } else if (any_ready()) {
      const std::uint32_t now = host_turns_.load(std::memory_order_relaxed);
      found = now == turns || --patience == 0;
      turns = now;
    } else if (Clock::now() >= deadline) {
      break;
    }
  }
  spinning_.store(false, std::memory_order_seq_cst);
  return found;
}

/// False if an extra worker was not called for so long that it may leave.
bool WorkerPool::sleep(Sleepers::Bed& bed, Member& member) {
  member.asleep.store(true, std::memory_order_relaxed);
  member.leave.store(false, std::memory_order_relaxed);
  crew_.unblock(member);
  sleepers_.lie_down(bed);
  waking_.store(false, std::memory_order_seq_cst);
  const bool extra = member.extra;
  const bool stopping = stopping_.load(std::memory_order_seq_cst);
  bool work_left = ready_.any_for_certain();
  if (extra && work_left && awake() >= allowed()) {  // it was woken for this, maybe, and others rely on it
    arm();
    work_left = false;
  }
  work_left = work_left || (!extra && loops_.any_for_certain()) || stopping;
  if (!work_left && extra) {
    futex_wait_for(bed.called, 0, extra_worker_patience);
  } else if (!work_left) {
    while (bed.called.load(std::memory_order_seq_cst) == 0) futex_wait(bed.called, 0);
  }
  const bool by_itself = sleepers_.get_up(bed);
  waking_.store(false, std::memory_order_seq_cst);
  member.note_nap();
  member.asleep.store(false, std::memory_order_relaxed);
  return !(extra && !work_left && by_itself);
}

void WorkerPool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  crew_.send_all_away();
  const auto deadline = Clock::now() + stop_patience;
  while (alive_.load(std::memory_order_seq_cst) > 0 && Clock::now() < deadline) {
    while (sleepers_.wake()) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace weir::cpu
