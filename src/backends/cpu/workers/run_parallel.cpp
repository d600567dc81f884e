// Parallel loops on the pool: when a loop is shared, who helps, and when helpers leave.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr double probe_nanoseconds = 3'000;     ///< how long a loop runs alone before its cost is judged
constexpr double tiny_nanoseconds = 750;        ///< a loop so short is run in one piece
constexpr double alone_nanoseconds = 12'000;    ///< less than this is finished alone: a wake-up would cost as much
constexpr double least_nanoseconds = 40'000;    ///< a chunk long enough to take
constexpr double most_nanoseconds = 1'000'000;  ///< and one after which more urgent work is not late
constexpr std::size_t longest_piece = 16;       ///< of copies and fills, in pieces
constexpr auto until_next_loop = std::chrono::microseconds(20);
constexpr auto until_loop_ends = std::chrono::microseconds(500);

/// What an element of some loops cost when this thread ran them: a guess, and 0 for others. It falls slowly, so that a loop that is
/// dear now and then is not taken for a cheap one.
class KnownCosts {
 public:
  struct Cost {
    const void* kernel = nullptr;
    double nanoseconds = 0;
    unsigned unmeasured = 0;  ///< tiny loops to run before one is measured again
  };
  Cost& of(const void* kernel) {
    Cost& cost = costs_[reinterpret_cast<std::uintptr_t>(kernel) / 64 % costs_.size()];
    if (cost.kernel != kernel) cost = {kernel};
    return cost;
  }
  static double after(double known, double measured) { return std::max(measured, 0.75 * known); }
  /// At random, since loops may be dear at every other launch.
  unsigned until_next() {
    random_ = random_ * 1'664'525 + 1'013'904'223;
    return random_ >> 29;
  }

 private:
  std::array<Cost, 16> costs_;
  std::uint32_t random_ = 1;
};
thread_local KnownCosts known_costs;
}  // namespace

void WorkerPool::share(ParallelLoop& loop, Runner& runner, std::size_t pieces) {
  const int level = runner.level;
  loops_.add(loop, level);
  // No more than there are cores for: a thread that has to wait for its core would keep the others waiting for its chunk.
  const int room = width_ - (runner.worker ? 0 : 1) - awake();
  const int wanted = static_cast<int>(std::min(static_cast<std::size_t>(width_ - 1), pieces - 1));
  const int helpers = std::clamp(room, 0, wanted);
  if (helpers < wanted && vigil_.spinners() == 0) arm();  // who is busy now may sleep soon
  for (int i = 0; i < helpers; ++i) {
    if (!sleepers_.wake_ordinary() && alive_.load(std::memory_order_relaxed) < width_) start_worker(false);
  }
  loop.participate(loops_, runner, [] { return false; });
  runner.level = level;
  loops_.end(level);
  loop.finish(runner);
}

/// Helps in the most urgent loop until nothing is left of it, or other work of its priority or a higher one wants a worker.
bool WorkerPool::help_loop(Runner& runner) {
  int level;
  ParallelLoop* const loop = loops_.join(level);
  if (loop == nullptr) return false;
  // What is less urgent may have been left to this worker while it spun or was coming, and the loop may last, or wait for it.
  if (ready_.any_for_certain()) call_worker();
  runner.level = level;
  loop->participate(loops_, runner,
                    [&] { return ready_.any_before(level + 1) || loops_.any_before(level) || runner.must_leave(); });
  loop->leave();
  if (level + 1 < levels && any_ready()) await_loops(level);
  return true;
}

/// A stream that runs loop after loop wants its helpers again in a moment: they do not begin something less urgent.
void WorkerPool::await_loops(int level) {
  const auto begin = Clock::now();
  auto last_busy = begin;
  while (!ready_.any_before(level + 1) && !loops_.any_before(level + 1) && !stopping()) {
    const auto now = Clock::now();
    if (loops_.busy(level)) last_busy = now;
    if (now - last_busy > until_next_loop || now - begin > until_loop_ends) return;
    pause(8);
  }
}

void WorkerPool::run_split(ParallelLoop::Body body, void* context, std::size_t count, std::size_t chunk,
                           Runner& runner) {
  // Two workers gain little by half of a small copy each, and what follows it is on another core then. Many gain.
  const std::size_t least = chunk / (wide() ? 16 : 4) + 1;
  if (width_ == 1 || count < 2 * least) {
    body(context, 0, count, runner);
    return;
  }
  const int shares = static_cast<int>(std::min(static_cast<std::size_t>(width_), count));
  // A piece for every worker, if that is not very little: who has none would take part in the next loop alone, on memory that
  // another worker has in its cache.
  chunk = std::clamp(count / static_cast<std::size_t>(shares), least, chunk);
  ParallelLoop loop(body, context, count, shares, 0, 0, {chunk, longest_piece * chunk});
  share(loop, runner, (count + chunk - 1) / chunk);
}

bool WorkerPool::takes_for_tiny(const void* kernel, std::size_t count) {
  KnownCosts::Cost& cost = known_costs.of(kernel);
  if (cost.unmeasured == 0 || cost.nanoseconds * static_cast<double>(count) >= tiny_nanoseconds) return false;
  --cost.unmeasured;
  return true;
}

void WorkerPool::run_parallel(ParallelLoop::Body body, void* context, std::size_t count, Runner& runner,
                              const void* kernel) {
  if (width_ == 1 || count == 1 || takes_for_tiny(kernel, count)) {
    body(context, 0, count, runner);
    return;
  }
  // Begin alone with the worker's own share, in growing steps, to learn what an element costs. It is one step where the whole loop is
  // likely to be finished alone; if that is wrong, the others' shares are left.
  KnownCosts& costs = known_costs;
  KnownCosts::Cost& cost = costs.of(kernel);
  double& known = cost.nanoseconds;
  const bool likely_short = known > 0 && known * static_cast<double>(count) < alone_nanoseconds;
  const auto start = Clock::now();
  if (likely_short && known * static_cast<double>(count) < tiny_nanoseconds) {
    body(context, 0, count, runner);
    const double spent = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    known = KnownCosts::after(known, std::max(spent / static_cast<double>(count), 0.01));
    cost.unmeasured = costs.until_next();
    return;
  }
  const int shares = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(width_), count));
  const int own = runner.place % shares;
  const std::size_t first = ParallelLoop::share_begin(count, shares, own);
  const std::size_t own_end = ParallelLoop::share_begin(count, shares, own + 1);
  double spent = 0;
  std::size_t done = 0;
  std::size_t step = likely_short ? own_end - first : 1;
  while (first + done < own_end && spent < probe_nanoseconds) {
    const std::size_t end = std::min(done + step, own_end - first);
    body(context, first + done, first + end, runner);
    done = end;
    spent = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
    // Not far beyond what is wanted: the others are called when this is over, and where there are many the share is small.
    const double wanted = (probe_nanoseconds - spent) * static_cast<double>(done) / std::max(spent, 1.0);
    step = std::clamp(static_cast<std::size_t>(std::max(wanted, 1.0)), std::size_t{1}, 16 * step);
  }
  const std::size_t left = count - done;
  if (left == 0) return;
  const double each = std::max(spent / static_cast<double>(done), 0.01);
  known = KnownCosts::after(known, each);
  if (each * static_cast<double>(left) < alone_nanoseconds) {
    if (first != 0) body(context, 0, first, runner);
    if (first + done != count) body(context, first + done, count, runner);
    return;
  }
  const auto even = left / (4 * static_cast<std::size_t>(shares)) + 1;
  const auto least = std::min(static_cast<std::size_t>(least_nanoseconds / each) + 1, even);
  const auto most = std::max(static_cast<std::size_t>(most_nanoseconds / each) + 1, least);
  ParallelLoop loop(body, context, count, shares, own, done, {least, most});
  share(loop, runner, (left + least - 1) / least);
}

}  // namespace weir::cpu
