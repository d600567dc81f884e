// The lists of ready queues: priorities over all shards, no queue lost, none left for ever.
#include "backends/cpu/workers/ready_lists.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuQueue;
using weir::cpu::ReadyLists;

constexpr int usual = ReadyLists::usual_level;

/// Queues that nobody runs, of a device that lives as long as the program, as devices do.
std::vector<CpuQueue*> make_queues(std::size_t count) {
  static auto& device = *new weir::cpu::CpuDevice(weir::cpu::backend(), 0, 1, std::size_t{1} << 20);
  static auto& immortal = *new std::vector<CpuQueue*>;  // as queues are
  for (std::size_t i = 0; i < count; ++i) immortal.push_back(new CpuQueue(device));
  return {immortal.end() - static_cast<std::ptrdiff_t>(count), immortal.end()};
}

class ReadyListsOf : public testing::TestWithParam<int> {
 protected:
  void push(CpuQueue* queue, int level, int worker) { lists.push(queue, queue, 1, level, lists.home_of(worker)); }
  CpuQueue* pop(int worker) { return lists.pop(lists.home_of(worker), turn++); }

  ReadyLists lists{GetParam()};
  std::uint32_t turn = 1;
};

TEST_P(ReadyListsOf, the_most_urgent_queue_comes_first_wherever_it_was_listed) {
  const std::vector<CpuQueue*> q = make_queues(4);
  const int last = GetParam() - 1;
  push(q[0], usual, last);
  push(q[1], usual, 0);
  push(q[2], 3, 0);
  push(q[3], 1, last);
  EXPECT_TRUE(lists.any_before(2));
  EXPECT_FALSE(lists.any_before(1));
  EXPECT_EQ(pop(last), q[3]);
  EXPECT_EQ(pop(last), q[2]);
  EXPECT_FALSE(lists.any_before(usual));
  EXPECT_TRUE(lists.any());
  EXPECT_NE(pop(last), nullptr);
  EXPECT_NE(pop(last), nullptr);
  EXPECT_EQ(pop(last), nullptr);
  EXPECT_FALSE(lists.any_for_certain());
  EXPECT_EQ(lists.count(), 0);
}

TEST_P(ReadyListsOf, what_one_worker_lists_runs_in_order_and_every_other_worker_finds_it) {
  const std::vector<CpuQueue*> q = make_queues(3);
  for (int pusher = 0; pusher < GetParam(); ++pusher) {
    const int taker = (pusher + GetParam() / 2) % GetParam();
    for (CpuQueue* queue : q) push(queue, usual, pusher);
    EXPECT_EQ(lists.count(), 3);
    for (CpuQueue* queue : q) EXPECT_EQ(pop(taker), queue);
    EXPECT_EQ(pop(taker), nullptr);
  }
}

TEST_P(ReadyListsOf, what_no_worker_listed_is_found_by_all) {
  const std::vector<CpuQueue*> q = make_queues(64);
  for (CpuQueue* queue : q) lists.push(queue, queue, 1, usual, ReadyLists::anywhere);
  EXPECT_EQ(lists.count(), 64);
  for (std::size_t i = 0; i < q.size(); ++i) EXPECT_NE(pop(static_cast<int>(i) % GetParam()), nullptr);
  EXPECT_FALSE(lists.any());
}

TEST_P(ReadyListsOf, a_worker_that_always_has_work_of_its_own_takes_others_too) {
  const std::vector<CpuQueue*> q = make_queues(2);
  push(q[0], usual, GetParam() - 1);
  push(q[1], usual, 0);
  int pops = 0;
  for (CpuQueue* got = pop(0); got != q[0]; got = pop(0)) {
    ASSERT_EQ(got, q[1]);
    ASSERT_LT(++pops, 1000) << "the other worker's queue starves";
    push(q[1], usual, 0);
  }
}

TEST_P(ReadyListsOf, threads_that_push_and_pop_at_once_lose_and_double_nothing) {
  constexpr int threads = 4;
  constexpr int rounds = 5'000;
  const std::vector<CpuQueue*> q = make_queues(24);
  std::atomic<int> left{threads * rounds};
  std::atomic<int> ready{0};
  for (std::size_t i = 0; i < q.size(); ++i) push(q[i], i % 8 == 7 ? 2 : usual, static_cast<int>(i) % GetParam());
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.emplace_back([&, t] {
      const int home = lists.home_of(t * GetParam() / threads);
      std::uint32_t mine = 0;
      for (ready.fetch_add(1); ready.load() != threads;) std::this_thread::yield();
      while (left.load() > 0) {
        CpuQueue* queue = lists.pop(home, mine++);
        if (queue == nullptr) continue;
        lists.push(queue, queue, 1, mine % 5 == 0 ? 4 : usual, mine % 3 == 0 ? ReadyLists::anywhere : home);
        left.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_EQ(lists.count(), static_cast<int>(q.size()));
  std::vector<CpuQueue*> found;
  while (CpuQueue* queue = pop(0)) found.push_back(queue);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(std::unique(found.begin(), found.end()), found.end());
  EXPECT_EQ(found.size(), q.size());
}

INSTANTIATE_TEST_SUITE_P(Workers, ReadyListsOf, testing::Values(2, 4, 16, 64, 128));

}  // namespace
}  // namespace weir_test
