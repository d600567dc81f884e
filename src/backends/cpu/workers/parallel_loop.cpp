// Parallel loops: a kernel, a copy or a fill on several workers.
#include <algorithm>
#include <chrono>

#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr double probe_nanoseconds = 3'000;     ///< how long a loop runs alone before its cost is judged
constexpr double alone_nanoseconds = 12'000;    ///< less than this is finished alone: a wake-up would cost as much
constexpr double least_nanoseconds = 40'000;    ///< a chunk long enough to take
constexpr double most_nanoseconds = 1'000'000;  ///< and one after which more urgent work is not late
constexpr std::size_t shares_per_worker = 2;
constexpr std::size_t longest_piece = 16;  ///< of copies and fills, in pieces
}  // namespace

bool ParallelLoop::take(std::size_t& begin, std::size_t& end) {
  begin = next_.load(std::memory_order_relaxed);
  do {
    if (begin >= end_) return false;
    const std::size_t left = end_ - begin;
    end = begin + std::min(left, std::clamp(left / chunks_.shares, chunks_.least, chunks_.most));
  } while (!next_.compare_exchange_weak(begin, end, std::memory_order_relaxed));
  return true;
}

void ParallelLoop::participate(Runner& runner, const WorkerPool* leave_for) {
  try {
    std::size_t begin;
    std::size_t end;
    while (take(begin, end)) {
      runner.note_progress();
      body_(context_, begin, end, runner);
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
  // No more than there are cores for: a thread that has to wait for its core would keep the others waiting for its chunk.
  const int room = width_ - (runner.worker ? 0 : 1) - awake();
  const int helpers = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(std::max(room, 0)), pieces - 1));
  for (int i = 0; i < helpers; ++i) {
    if (!sleepers_.wake_ordinary() && alive_.load(std::memory_order_relaxed) < width_) start_worker(false);
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
  ParallelLoop loop(body, context, 0, count,
                    {chunk, longest_piece * chunk, shares_per_worker * static_cast<std::size_t>(width_)});
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
  const std::size_t shares = shares_per_worker * static_cast<std::size_t>(width_);
  const auto least = std::min(static_cast<std::size_t>(least_nanoseconds / each) + 1, left / (2 * shares) + 1);
  const auto most = std::max(static_cast<std::size_t>(most_nanoseconds / each) + 1, least);
  ParallelLoop loop(body, context, done, count, {least, most, shares});
  share(loop, runner, (left + least - 1) / least);
}

}  // namespace weir::cpu
