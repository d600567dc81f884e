// How a loop is shared in a pool: by how many, and when they are called.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "backends/cpu/workers/worker_pool.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

using weir::cpu::Runner;
using weir::cpu::WorkerPool;

constexpr std::size_t piece = 1 << 20;

struct Meeting {
  int all;
  std::atomic<int> here{0};
  std::atomic<int> gave_up{0};
};
void meet(void* context, std::size_t, std::size_t, Runner&) {
  auto& meeting = *static_cast<Meeting*>(context);
  ++meeting.here;
  if (!eventually([&] { return meeting.here == meeting.all; })) ++meeting.gave_up;
}

/// All of a pool's workers have a part of a loop of so many elements.
void expect_shared_by_all(int workers, std::size_t count) {
  auto& pool = *new WorkerPool(workers);  // the monitor knows it until the process ends
  Meeting meeting{workers};
  Runner runner;
  pool.run_split(&meet, &meeting, count, piece, runner);
  EXPECT_EQ(meeting.here, workers);
  EXPECT_EQ(meeting.gave_up, 0);
  pool.stop();
}

TEST(SharedLoops, half_a_piece_for_each_worker_is_shared_by_all_of_them) { expect_shared_by_all(8, 8 * piece / 2); }
TEST(SharedLoops, one_piece_is_shared_by_many_workers) { expect_shared_by_all(8, piece); }
TEST(SharedLoops, one_piece_is_shared_by_two_workers) { expect_shared_by_all(2, piece); }

TEST(SharedLoops, half_a_piece_is_run_alone_where_there_are_two_workers) {
  auto& pool = *new WorkerPool(2);
  Meeting meeting{1};
  Runner runner;
  pool.run_split(&meet, &meeting, piece / 2, piece, runner);
  EXPECT_EQ(meeting.here, 1);
  pool.stop();
}

/// The lengths of what a loop is run in, each of whose elements takes a microsecond.
void note_and_compute(void* context, std::size_t begin, std::size_t end, Runner&) {
  static_cast<std::vector<std::size_t>*>(context)->push_back(end - begin);
  const auto until = std::chrono::steady_clock::now() + (end - begin) * std::chrono::microseconds(1);
  while (std::chrono::steady_clock::now() < until) {
  }
}

// The cost is known after three microseconds. Where the thread loses its core meanwhile it is so after one element, and the
// second length is that of a shared part: one try of some has to do.
TEST(SharedLoops, others_are_called_once_the_cost_is_known_and_not_a_long_step_later) {
  if (weir_test::under_address_sanitizer || weir_test::under_thread_sanitizer) {
    GTEST_SKIP() << "the sanitizer's own calls take as long as the elements";
  }
  auto& pool = *new WorkerPool(2);
  pool.stop();  // nobody comes: all lengths are this thread's
  std::size_t second_step = piece;
  for (int tries = 0; tries < 100 && second_step > 2; ++tries) {
    std::vector<std::size_t> lengths;
    Runner runner;
    pool.run_parallel(&note_and_compute, &lengths, 512, runner, &pool);
    ASSERT_GT(lengths.size(), 2u);
    EXPECT_EQ(lengths[0], 1u);
    second_step = std::min(second_step, lengths[1]);
  }
  EXPECT_LE(second_step, 2u);
}

struct Changing {
  bool dear = false;
  std::vector<std::size_t> lengths;
};
void note_and_change(void* context, std::size_t begin, std::size_t end, Runner& runner) {
  auto& changing = *static_cast<Changing*>(context);
  changing.lengths.push_back(end - begin);
  std::vector<std::size_t> of_dear;
  if (changing.dear) note_and_compute(&of_dear, begin, end, runner);
}

constexpr std::size_t tiny_count = 512;
void run_once(WorkerPool& pool, Changing& changing, bool dear) {
  Runner runner;
  changing.dear = dear;
  changing.lengths.clear();
  pool.run_parallel(&note_and_change, &changing, tiny_count, runner, &changing);
}
/// Until the loop is known as tiny. One that lost its core is not, for a while.
bool becomes_tiny(WorkerPool& pool, Changing& changing) {
  constexpr int in_a_row = 50;
  int tiny = 0;
  for (int i = 0; i < 100'000 && tiny < in_a_row; ++i) {
    run_once(pool, changing, false);
    tiny = changing.lengths.size() == 1 ? tiny + 1 : 0;
  }
  return tiny == in_a_row;
}

// A loop known as tiny is run in one piece, most times without a look at the clock.
TEST(SharedLoops, one_that_was_tiny_and_is_dear_now_is_shared_again_after_eight_launches_at_most) {
  auto& pool = *new WorkerPool(2);
  pool.stop();  // nobody comes: all lengths are this thread's
  for (int round = 0; round < 20; ++round) {
    Changing changing;
    ASSERT_TRUE(becomes_tiny(pool, changing));
    int launches = 0;
    do {
      ++launches;
      run_once(pool, changing, true);
    } while (changing.lengths.size() == 1 && launches < 100);
    EXPECT_LE(launches, 9);
  }
}

TEST(SharedLoops, one_that_is_dear_at_every_other_launch_is_noticed_whichever_it_is) {
  auto& pool = *new WorkerPool(2);
  pool.stop();
  for (const int phase : {0, 1}) {
    Changing changing;
    ASSERT_TRUE(becomes_tiny(pool, changing));
    bool noticed = false;
    for (int i = 0; i < 400 && !noticed; ++i) {
      const bool dear = (i + phase) % 2 == 1;
      run_once(pool, changing, dear);
      noticed = dear && changing.lengths.size() > 1;
    }
    EXPECT_TRUE(noticed) << phase;
  }
}

}  // namespace
}  // namespace weir_test
