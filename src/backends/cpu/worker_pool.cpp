// Workers: one spins for a moment after the last work, the others sleep; a submitter wakes somebody only if nobody spins.
#include "backends/cpu/worker_pool.hpp"

#include <pthread.h>

#include <chrono>
#include <csignal>
#include <system_error>
#include <thread>

#include "backend.hpp"
#include "backends/cpu/cpu_queue.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto spin_window = std::chrono::microseconds(50);
constexpr int pauses_between_looks = 32;  ///< about a microsecond
constexpr int most_patient_looks = 16;
constexpr auto extra_worker_patience = std::chrono::milliseconds(100);
constexpr auto stop_patience = std::chrono::milliseconds(500);
}  // namespace

WorkerPool::WorkerPool(int workers) : width_(workers) { register_pool(*this); }

void WorkerPool::push_chain(CpuQueue* first, CpuQueue* last, int level) {
  {
    SpinGuard guard(lock_);
    last->next_ready() = nullptr;
    List& list = ready_[level];
    (list.last ? list.last->next_ready() : list.first) = first;
    list.last = last;
    pushes_.store(pushes_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    ready_mask_.fetch_or(1u << level, std::memory_order_seq_cst);
  }
  // The other side of this check is in sleep(): a sleeper is counted before it looks at the mask for the last time.
  if (spinning_.load(std::memory_order_seq_cst) || waking_.load(std::memory_order_seq_cst)) return;
  wake_one();
}

CpuQueue* WorkerPool::pop() {
  if (!any_ready()) return nullptr;
  SpinGuard guard(lock_);
  const std::uint32_t mask = ready_mask_.load(std::memory_order_relaxed);
  if (mask == 0) return nullptr;
  const int level = __builtin_ctz(mask);
  List& list = ready_[level];
  CpuQueue* queue = list.first;
  list.first = queue->next_ready();
  if (list.first == nullptr) {
    list.last = nullptr;
    ready_mask_.fetch_and(~(1u << level), std::memory_order_relaxed);
  }
  pops_.store(pops_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return queue;
}

/// Wakes a sleeper, starts a worker that was never needed so far, or has the monitor watch: all are busy.
void WorkerPool::wake_one() {
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    if (waking_.exchange(true, std::memory_order_seq_cst)) return;
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    if (futex_wake(epoch_, 1) > 0) return;  // the woken thread takes `waking_` back
    waking_.store(false, std::memory_order_seq_cst);
  }
  if (alive_.load(std::memory_order_relaxed) < width_) {
    start_worker(false);
  } else if (!armed_.load(std::memory_order_relaxed) && !armed_.exchange(true, std::memory_order_seq_cst)) {
    arm_monitor();
  }
}

void WorkerPool::start_worker(bool extra) {
  if (stopping_.load(std::memory_order_relaxed)) return;
  const int others = alive_.fetch_add(1, std::memory_order_seq_cst);
  if (!extra && others >= width_) {
    alive_.fetch_sub(1, std::memory_order_seq_cst);
    return;
  }
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // signals are for the program's own threads
  try {
    std::thread([this, extra] { work(extra); }).detach();
  } catch (const std::system_error&) {
    alive_.fetch_sub(1, std::memory_order_seq_cst);  // those that live go on; waiting hosts help
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void WorkerPool::work(bool extra) {
  detail::thread_state = detail::ThreadState::running;
  {
    Runner runner;
    while (!stopping_.load(std::memory_order_relaxed)) {
      if (find_work(runner)) continue;
      if (spin()) continue;
      if (!sleep(extra)) break;
    }
  }
  alive_.fetch_sub(1, std::memory_order_seq_cst);
}

bool WorkerPool::find_work(Runner& runner) {
  if (CpuQueue* queue = pop()) {
    // One wakes the next only if there is more to do.
    if (any_ready() && !spinning_.load(std::memory_order_relaxed) && !waking_.load(std::memory_order_relaxed))
      wake_one();
    queue->run_popped(runner);
    return true;
  }
  return loops_.load(std::memory_order_relaxed) > 0 && help_loop(runner);
}

/// Looks for work for a short while; one worker at a time. Looks seldom, and leaves ready queues alone while their number
/// still grows, up to a limit: a host thread that is about to wait runs its own work in a fraction of the time that handing
/// it over takes, and every look of a spinner slows a submitter down.
bool WorkerPool::spin() {
  if (spinning_.exchange(true, std::memory_order_seq_cst)) return false;
  const auto deadline = Clock::now() + spin_window;
  bool found = false;
  int patience = most_patient_looks;
  std::uint32_t pushes = pushes_.load(std::memory_order_relaxed);
  while (!found && !stopping_.load(std::memory_order_relaxed)) {
    pause(pauses_between_looks);
    if (loops_.load(std::memory_order_relaxed) > 0) {
      found = true;
    } else if (any_ready()) {
      const std::uint32_t now = pushes_.load(std::memory_order_relaxed);
      found = now == pushes || --patience == 0;
      pushes = now;
    } else if (Clock::now() >= deadline) {
      break;
    }
  }
  spinning_.store(false, std::memory_order_seq_cst);
  return found;
}

bool WorkerPool::sleep(bool extra) {
  const std::uint32_t epoch = epoch_.load(std::memory_order_seq_cst);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  waking_.store(false, std::memory_order_seq_cst);
  const bool work_left = ready_mask_.load(std::memory_order_seq_cst) != 0 ||
                         loops_.load(std::memory_order_seq_cst) > 0 || stopping_.load(std::memory_order_seq_cst);
  if (!work_left) {
    if (extra) {
      futex_wait_for(epoch_, epoch, extra_worker_patience);
    } else {
      futex_wait(epoch_, epoch);
    }
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  waking_.store(false, std::memory_order_seq_cst);
  const bool idle_for_long = extra && !work_left && epoch_.load(std::memory_order_seq_cst) == epoch;
  return !idle_for_long;
}

bool WorkerPool::watch() {
  const std::uint32_t pops = pops_.load(std::memory_order_relaxed);
  if (!any_ready()) {
    stuck_ticks_ = 0;
    if (++quiet_ticks_ < 5) return true;
    quiet_ticks_ = 0;
    armed_.store(false, std::memory_order_seq_cst);
    return ready_mask_.load(std::memory_order_seq_cst) != 0 && !armed_.exchange(true, std::memory_order_seq_cst);
  }
  quiet_ticks_ = 0;
  if (pops != watched_pops_ || spinning_.load(std::memory_order_relaxed)) {
    stuck_ticks_ = 0;
  } else if (sleepers_.load(std::memory_order_relaxed) > 0) {
    wake_one();
  } else {
    const int wanted = 1 << (stuck_ticks_ < 3 ? stuck_ticks_ : 3);
    for (int i = 0; i < wanted && alive_.load(std::memory_order_relaxed) < most_workers; ++i) start_worker(true);
    ++stuck_ticks_;
  }
  watched_pops_ = pops;
  return true;
}

void WorkerPool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  const auto deadline = Clock::now() + stop_patience;
  while (alive_.load(std::memory_order_seq_cst) > 0 && Clock::now() < deadline) {
    epoch_.fetch_add(1, std::memory_order_seq_cst);
    futex_wake(epoch_, most_workers);
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace weir::cpu
