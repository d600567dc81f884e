// Parallel loops with several threads and the smallest chunks: each element runs once, and the owner waits for its helpers.
#include "backends/cpu/workers/parallel_loop.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "backends/cpu/workers/runner.hpp"
#include "support/between_looks.hpp"
#include "support/shared_words.hpp"

namespace weir_test {
namespace {

using weir::cpu::OpenLoops;
using weir::cpu::ParallelLoop;
using weir::cpu::Runner;

struct Counts {
  std::vector<std::atomic<int>> runs;
};

void count(void* context, std::size_t begin, std::size_t end, Runner&) {
  auto& counts = *static_cast<Counts*>(context);
  for (std::size_t i = begin; i < end; ++i) counts.runs[i].fetch_add(1, std::memory_order_relaxed);
}

TEST(ParallelLoops, run_each_element_once_whoever_takes_it) {
  constexpr int threads = 4;
  constexpr std::size_t elements = 200'000;
  for (const int shares : {1, threads}) {
    Counts counts{std::vector<std::atomic<int>>(elements)};
    OpenLoops open;
    ParallelLoop loop(&count, &counts, elements, shares, 0, 0, {1, 1});
    open.add(loop, 0);
    std::atomic<int> ready{0};
    std::vector<std::thread> helpers;
    for (int t = 1; t < threads; ++t) {
      int level;
      ASSERT_EQ(open.join(level), &loop);
      helpers.emplace_back([&, t] {
        Runner runner;
        runner.place = t;
        for (ready.fetch_add(1); ready.load() != threads;) std::this_thread::yield();
        loop.participate(open, runner, [] { return false; });
        loop.leave();
      });
    }
    Runner owner;
    for (ready.fetch_add(1); ready.load() != threads;) std::this_thread::yield();
    loop.participate(open, owner, [] { return false; });
    loop.finish(owner);
    for (std::thread& helper : helpers) helper.join();
    int wrong = 0;
    for (const std::atomic<int>& runs : counts.runs) wrong += runs.load() != 1 ? 1 : 0;
    EXPECT_EQ(wrong, 0) << shares << " shares";
    EXPECT_FALSE(open.any());
  }
}

//  helper: [the only chunk: held ......]
//  owner:  finds nothing left             returns only then
TEST(ParallelLoops, end_when_the_last_helper_is_through) {
  struct Held {
    int* gate = make_words(1);
    std::atomic<bool> begun{false};
    std::atomic<bool> over{false};
  } held;
  OpenLoops open;
  const auto wait = [](void* context, std::size_t, std::size_t, Runner&) {
    auto& mine = *static_cast<Held*>(context);
    mine.begun = true;
    wait_for_word(mine.gate);
    mine.over = true;
  };
  ParallelLoop loop(wait, &held, 1, 1, 0, 0, {1, 1});
  open.add(loop, 0);
  int level;
  ASSERT_EQ(open.join(level), &loop);
  std::thread helper([&] {
    Runner runner;
    loop.participate(open, runner, [] { return false; });
    loop.leave();
  });
  for (int looks = 0; !held.begun; ++looks) weir_test::between_looks(looks);
  std::atomic<bool> finished{false};
  std::thread owner([&] {
    Runner runner;
    loop.participate(open, runner, [] { return false; });
    loop.finish(runner);
    EXPECT_TRUE(held.over);
    finished = true;
  });
  for (int i = 0; i < 1000 && !finished; ++i) std::this_thread::yield();
  EXPECT_FALSE(finished);
  store_word(held.gate, 1);
  owner.join();
  helper.join();
}

}  // namespace
}  // namespace weir_test
