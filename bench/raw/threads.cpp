// Two threads that take turns, and busy tasks on all cores.
#include <atomic>
#include <thread>
#include <vector>

#include "raw.hpp"
#include "ring.hpp"
#include "support/busy.hpp"
#include "support/measure.hpp"

namespace bench::raw {

namespace {

void nothing(const void*) {}

struct Turns {
  alignas(64) std::atomic<std::size_t> next{0};
  void (*volatile task)(const void*) = nothing;

  /// Runs every second task, from the first one on.
  void take(std::size_t first, std::size_t count) {
    for (std::size_t turn = first; turn < count; turn += 2) {
      while (next.load(std::memory_order_acquire) != turn) relax();
      task(nullptr);
      next.store(turn + 1, std::memory_order_release);
    }
  }
};

}  // namespace

double hop(std::size_t count) {
  Turns turns;
  std::thread other([&] { turns.take(1, count + 2); });
  turns.take(0, 2);  // the other thread runs now
  while (turns.next.load(std::memory_order_acquire) != 2) relax();
  const double time = seconds([&] {
    turns.take(2, count + 2);
    while (turns.next.load(std::memory_order_acquire) < count + 2) relax();
  });
  other.join();
  return time / static_cast<double>(count) * 1e6;
}

double busy_tasks(std::size_t count, std::size_t steps) {
  const std::size_t threads = std::thread::hardware_concurrency();
  std::atomic<std::size_t> ready{0};
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    while (next.fetch_add(1, std::memory_order_relaxed) < count) busy(steps);
  };
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) {
    others.emplace_back([&] {
      ready.fetch_add(1, std::memory_order_relaxed);
      while (ready.load(std::memory_order_acquire) != threads) relax();
      work();
    });
  }
  while (ready.load(std::memory_order_relaxed) != threads - 1) relax();
  return seconds([&] {
    ready.store(threads, std::memory_order_release);
    work();
    for (std::thread& other : others) other.join();
  });
}

}  // namespace bench::raw
