// Two threads that hand each other a task, and busy tasks on all cores.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "raw.hpp"
#include "ring.hpp"
#include "support/busy.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench::raw {

namespace {

/// One side: the ring that it spins over, the other side's, and the turns that are left.
struct Side {
  Ring ring;
  Side* other = nullptr;
  std::size_t turns = 0;

  static void take_turn(void* argument) {
    Side& side = *static_cast<Side*>(argument);
    tally();
    --side.turns;
    side.other->ring.push(take_turn, side.other);
  }
  void play() {
    while (turns != 0) {
      if (!ring.drain()) relax();
    }
  }
};

}  // namespace

double hop(std::size_t count) {
  const auto sides = std::make_unique<Side[]>(2);
  for (const std::size_t i : {0, 1}) {
    sides[i].other = &sides[1 - i];
    sides[i].turns = count / 2 + 1;
  }
  std::atomic<bool> ready{false};
  std::thread other([&] {
    ready.store(true, std::memory_order_release);
    sides[1].play();
  });
  while (!ready.load(std::memory_order_acquire)) relax();
  const double time = seconds([&] {
    sides[0].ring.push(Side::take_turn, &sides[0]);
    sides[0].play();
    other.join();
  });
  return time / static_cast<double>(count) * 1e6;
}

double busy_tasks(std::size_t count, std::size_t steps) {
  const std::size_t threads = std::thread::hardware_concurrency();
  std::atomic<std::size_t> ready{0};
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    while (next.fetch_add(1, std::memory_order_relaxed) < count) {
      busy(steps);
      tally();
    }
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
