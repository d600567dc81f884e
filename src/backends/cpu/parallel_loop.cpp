// Parallel loops: a kernel, a copy or a fill on several workers.
#include <algorithm>
#include <chrono>

#include "backends/cpu/worker_pool.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr double probe_nanoseconds = 3'000;   ///< how long a loop runs alone before its cost is judged
constexpr double alone_nanoseconds = 12'000;  ///< less than this is finished alone: a wake-up would cost as much
constexpr double chunk_nanoseconds = 40'000;  ///< a chunk long enough to take, short enough to share
constexpr int chunks_per_worker = 4;
}  // namespace

void ParallelLoop::participate(Runner& runner, const WorkerPool* leave_for) {
  try {
    while (!used_up()) {
      const std::size_t begin = next_.fetch_add(chunk_, std::memory_order_relaxed);
      if (begin >= end_) return;
      body_(context_, begin, std::min(begin + chunk_, end_), runner);
      if (leave_for != nullptr && leave_for->any_ready()) return;
    }
  } catch (...) {
    next_.store(end_, std::memory_order_relaxed);
    SpinGuard guard(failure_lock_);
    if (!failure_) failure_ = std::current_exception();
  }
}

void WorkerPool::share(ParallelLoop& loop, Runner& runner, std::size_t pieces) {
  {
    SpinGuard guard(lock_);
    loop.next_loop_ = first_loop_;
    first_loop_ = &loop;
    loops_.fetch_add(1, std::memory_order_seq_cst);
  }
  const std::size_t helpers = std::min<std::size_t>(static_cast<std::size_t>(width_) - 1, pieces - 1);
  for (std::size_t i = 0; i < helpers; ++i) {
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      epoch_.fetch_add(1, std::memory_order_seq_cst);
      futex_wake(epoch_, 1);
    } else if (alive_.load(std::memory_order_relaxed) < width_) {
      start_worker(false);
    }
  }
  loop.participate(runner, nullptr);
  {
    SpinGuard guard(lock_);
    ParallelLoop** link = &first_loop_;
    while (*link != &loop) link = &(*link)->next_loop_;
    *link = loop.next_loop_;
    loops_.fetch_sub(1, std::memory_order_seq_cst);
  }
  for (int tries = 0; loop.helpers_.load(std::memory_order_acquire) != 0; ++tries) {
    if (tries < 200) {
      pause(4);
    } else {
      yield();
    }
  }
  if (loop.failure_) std::rethrow_exception(loop.failure_);
}

bool WorkerPool::help_loop(Runner& runner) {
  ParallelLoop* loop;
  {
    SpinGuard guard(lock_);
    for (loop = first_loop_; loop != nullptr && loop->used_up();) loop = loop->next_loop_;
    if (loop == nullptr) return false;
    loop->helpers_.fetch_add(1, std::memory_order_relaxed);  // before the lock is free, so that the owner sees it
  }
  loop->participate(runner, this);
  loop->helpers_.fetch_sub(1, std::memory_order_release);
  return true;
}

void WorkerPool::run_split(ParallelLoop::Body body, void* context, std::size_t count, std::size_t chunk,
                           Runner& runner) {
  if (width_ == 1 || count <= chunk) {
    body(context, 0, count, runner);
    return;
  }
  ParallelLoop loop(body, context, 0, count, chunk);
  share(loop, runner, (count + chunk - 1) / chunk);
}

void WorkerPool::run_parallel(ParallelLoop::Body body, void* context, std::size_t count, Runner& runner) {
  if (width_ == 1 || count == 1) {
    body(context, 0, count, runner);
    return;
  }
  // Begin alone, in growing steps, to learn what an element costs.
  const auto start = Clock::now();
  double spent = 0;
  std::size_t done = 0;
  for (std::size_t step = 1; done < count && spent < probe_nanoseconds; step *= 16) {
    const std::size_t end = step < count - done ? done + step : count;
    body(context, done, end, runner);
    done = end;
    spent = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  }
  if (done == count) return;
  const double each = std::max(spent / static_cast<double>(done), 0.01);
  const std::size_t left = count - done;
  if (each * static_cast<double>(left) < alone_nanoseconds) {
    body(context, done, count, runner);
    return;
  }
  const std::size_t by_time = static_cast<std::size_t>(chunk_nanoseconds / each) + 1;
  const std::size_t by_share = left / static_cast<std::size_t>(width_ * chunks_per_worker) + 1;
  const std::size_t chunk = std::min(by_time, by_share);
  ParallelLoop loop(body, context, done, count, chunk);
  share(loop, runner, (left + chunk - 1) / chunk);
}

}  // namespace weir::cpu
