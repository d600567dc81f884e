// Which sleeping worker is called: an ordinary one first; of those beyond the pool's width the one that lay down last, so
// that those who are not needed sleep on, and leave. And what a called one does to get up.
#include "backends/cpu/workers/sleepers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>

namespace weir_test {
namespace {

using weir::cpu::Sleepers;

bool is_called(const Sleepers::Bed& bed) { return bed.called.load() != 0; }

TEST(Sleepers, extra_workers_that_sleep_longest_are_called_last) {
  Sleepers sleepers;
  std::array<Sleepers::Bed, 3> beds;
  for (auto& bed : beds) {
    bed.extra = true;
    sleepers.lie_down(bed);
  }
  for (std::size_t i = beds.size(); i-- > 0;) {
    EXPECT_TRUE(sleepers.wake());
    for (std::size_t other = 0; other < beds.size(); ++other) EXPECT_EQ(is_called(beds[other]), other >= i) << other;
  }
  EXPECT_FALSE(sleepers.wake());
}

TEST(Sleepers, ordinary_workers_are_called_before_extra_ones) {
  Sleepers sleepers;
  std::array<Sleepers::Bed, 4> beds;
  for (std::size_t i = 0; i < beds.size(); ++i) {
    beds[i].extra = i % 2 == 1;
    sleepers.lie_down(beds[i]);
  }
  EXPECT_TRUE(sleepers.wake_ordinary());
  EXPECT_TRUE(sleepers.wake_ordinary());
  EXPECT_TRUE(is_called(beds[0]) && is_called(beds[2]));
  EXPECT_FALSE(sleepers.wake_ordinary());
  EXPECT_FALSE(is_called(beds[1]) || is_called(beds[3]));
  EXPECT_EQ(sleepers.count(), 2);
}

/// Without a lock: one thread is enough to count how often it would be taken.
struct CountingParts : weir::cpu::ThreadParts {
  static inline int locked = 0;
  struct Lock {};
  struct Guard {
    explicit Guard(Lock&) { ++locked; }
  };
};

// Many are called at once where a loop begins.
TEST(Sleepers, who_was_called_gets_up_without_the_lock_that_callers_and_sleepers_need) {
  weir::cpu::BasicSleepers<CountingParts> sleepers;
  weir::cpu::BasicSleepers<CountingParts>::Bed bed;
  sleepers.lie_down(bed);
  EXPECT_TRUE(sleepers.wake());
  const int before = CountingParts::locked;
  EXPECT_EQ(before, 2);
  EXPECT_FALSE(sleepers.get_up(bed));
  EXPECT_EQ(CountingParts::locked, before);
}

struct OnCoreSeven : weir::cpu::ThreadParts {
  static int core() { return 7; }
};

TEST(Sleepers, who_was_called_knows_the_core_of_the_caller) {
  weir::cpu::BasicSleepers<OnCoreSeven> sleepers;
  weir::cpu::BasicSleepers<OnCoreSeven>::Bed bed;
  sleepers.lie_down(bed);
  EXPECT_TRUE(sleepers.wake());
  EXPECT_FALSE(sleepers.get_up(bed));
  EXPECT_EQ(bed.caller, 7);
  sleepers.lie_down(bed);
  EXPECT_TRUE(sleepers.get_up(bed));
  EXPECT_EQ(bed.caller, -1);
}

// Else the monitor takes it for held up by its command, and starts another worker.
TEST(Naps, of_a_worker_that_waits_for_a_lock_are_counted_before_and_after) {
  std::atomic<std::uint32_t> naps{0};
  weir::cpu::count_naps_in(&naps);
  weir::cpu::back_off(63);
  weir::cpu::count_naps_in(nullptr);
  EXPECT_EQ(naps, 2u);
  weir::cpu::back_off(63);
  EXPECT_EQ(naps, 2u);
}

}  // namespace
}  // namespace weir_test
