// Parallel loops on the CPU's workers: who helps, where, and what the others do meanwhile.
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/compute.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

weir::Device cpu() { return weir::device("cpu"); }
int cores() { return cpu().properties().multiprocessors; }

double process_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Work, until one thread of two kinds holds its element: the one that began the loop, or one that came to help. The other one waits
/// for that, so that it does, and then takes all that is left.
struct ComputeThenHold {
  struct Words {
    const bool owner_holds;
    std::thread::id owner{};  ///< of who runs the first elements, alone
    std::atomic<int> ran_by_owner{0};
    std::atomic<bool> begun{false}, opened{false}, given_up{false};
  };

  void operator()(std::size_t i, double* results, Words* words) const {
    Compute{}(i, results, 2'000);
    if (words->ran_by_owner == 0) words->owner = std::this_thread::get_id();
    const bool owner = words->owner == std::this_thread::get_id();
    // The first few say what an element costs: others are called behind them.
    if (owner && ++words->ran_by_owner < 10) return;
    if (owner == words->owner_holds && !words->begun.exchange(true)) {
      await(words->opened, *words);
    } else {
      await(words->begun, *words);
    }
  }

  static void await(const std::atomic<bool>& word, Words& words) {
    for (int naps = 0; !word; ++naps) {
      if (naps > 2000) return words.given_up.store(true);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
};

//  s: [a loop ...... one element held]      for half a second: nobody computes, and nobody looks for work
TEST(WorkersLoops, workers_sleep_beside_a_loop_with_nothing_left_to_take) {
  if (under_address_sanitizer || under_thread_sanitizer) GTEST_SKIP() << "a sanitizer's own time is measured along";
  if (cores() == 1) GTEST_SKIP() << "one worker shares no loop";
  const std::size_t count = 200 * static_cast<std::size_t>(cores());
  auto results = weir::zeros<double>(weir::pinned, count);
  const weir::Stream s(cpu());
  for (const bool owner_holds : {true, false}) {
    ComputeThenHold::Words words{.owner_holds = owner_holds};
    weir::launch(s, count, ComputeThenHold{}, results.data(), &words);
    EXPECT_TRUE(eventually([&] { return words.begun.load(); }));
    // The others finish their chunks, which takes a while on a busy machine.
    EXPECT_TRUE(eventually([] {
      const double before = process_cpu_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return process_cpu_seconds() - before < 0.005;
    })) << (owner_holds ? "the owner holds" : "a helper holds");
    EXPECT_TRUE(eventually([] {
      const double before = process_cpu_seconds();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      return process_cpu_seconds() - before < 0.05;
    })) << "CPU seconds in half a second of waiting";
    words.opened = true;
    s.synchronize();
    EXPECT_FALSE(words.given_up);
  }
}

//  low[0..3]: wait, 10 loops each        urgent: wait, 10 loops [how many of the low ones are done?]
int done_before_an_urgent_stream() {
  const int launches = std::max(10, cores());  // so many that the bound below leaves most of them to be done
  constexpr std::size_t count = 400;
  const weir::PriorityRange range = cpu().properties().stream_priorities;
  Marker low_done, low_done_at_the_end;
  auto results = weir::zeros<double>(weir::pinned, 5 * count);
  std::vector<weir::Stream> low;
  const weir::Stream urgent(cpu(), {.priority = range.greatest, .blocking = false});
  for (int i = 0; i < 4; ++i) low.emplace_back(cpu(), weir::StreamOptions{.priority = range.least, .blocking = false});
  // None begins before all are there, however late the host is.
  Gate gate;
  const weir::Stream held(cpu(), {.blocking = false});
  gate.hold(held);
  const weir::Event opened = held.record();
  urgent.wait(opened);
  for (const weir::Stream& s : low) s.wait(opened);
  for (int launch = 0; launch < launches; ++launch) {
    for (std::size_t i = 0; i < 4; ++i) {
      weir::launch(low[i], count, Compute{}, results.data() + i * count, 4'000);
      count_up(low[i], low_done);
    }
    weir::launch(urgent, count, Compute{}, results.data() + 4 * count, 4'000);
  }
  weir::host_call(urgent,
                  [from = low_done.word(), to = low_done_at_the_end.word()] { store_word(to, load_word(from)); });
  gate.open();
  EXPECT_TRUE(eventually([&] { return urgent.done(); }));
  for (const weir::Stream& s : low) s.synchronize();
  EXPECT_EQ(low_done.value(), 4 * launches);
  return low_done_at_the_end.value();
}

// A neighbour that takes cores lets a few slip in, and many where it takes that of an urgent loop's last element for long: one try of
// some has to do. Without priorities it would be nearly all each time.
TEST(WorkersLoops, loops_of_an_urgent_stream_get_all_workers) {
  const int few = 3 * cores() + 6;
  int least = done_before_an_urgent_stream();
  for (int tries = 1; tries < 10 && least > few; ++tries) least = std::min(least, done_before_an_urgent_stream());
  EXPECT_LE(least, few) << "of " << 4 * std::max(10, cores()) << " launches of less urgent streams";
}

/// Each element counts itself: none may be lost or run twice.
struct CountElement {
  WEIR_KERNEL void operator()(std::size_t i, int* counts, int steps) const {
    double x = 1;
    Compute{}(0, &x, steps);
    counts[i] += x > 0 ? 1 : 0;
  }
};

TEST(WorkersLoops, every_element_runs_once_whatever_the_size_and_cost) {
  const weir::Stream s(cpu());
  for (const int steps : {0, 100, 4'000}) {
    for (const std::size_t count : {2, 3, 5, 17, 63, 100, 1000, 10'007}) {
      if (static_cast<double>(count) * steps > 3e7) continue;
      auto counts = weir::zeros<int>(weir::pinned, count);
      for (int round = 1; round <= 3; ++round) {
        weir::launch(s, count, CountElement{}, counts.data(), steps);
        ASSERT_TRUE(eventually([&] { return s.done(); }));
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(counts[i], round) << i << " of " << count;
      }
    }
  }
}

}  // namespace
}  // namespace weir_test
