// Two of a pool's threads on one core: one of them leaves it.
#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cpu/workers/cores.hpp"
#include "own_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

std::vector<std::size_t> usable_cores() {
  cpu_set_t set;
  std::vector<std::size_t> all;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return all;
  for (std::size_t i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(i, &set)) all.push_back(i);
  }
  return all;
}

cpu_set_t set_of(const std::vector<std::size_t>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const std::size_t core : cores) CPU_SET(core, &set);
  return set;
}

/// Of all threads that there are.
void put_on(const std::vector<std::size_t>& cores) {
  const cpu_set_t set = set_of(cores);
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    sched_setaffinity(std::atoi(task.path().filename().c_str()), sizeof set, &set);
  }
}

void compute(long nanoseconds) {
  const auto used = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec * 1'000'000'000L + time.tv_nsec;
  };
  for (const long begin = used(); used() - begin < nanoseconds;) {
  }
}

TEST(Cores, that_are_taken_are_left_for_others) {
  const std::vector<std::size_t> all = usable_cores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  const cpu_set_t before = set_of(all);
  for (int i = 0; i < 20; ++i) {
    const int core = sched_getcpu();
    weir::cpu::move_off(set_of({static_cast<std::size_t>(core)}));
    cpu_set_t after;
    ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
    EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "it may run where it might before";
  }
  weir::cpu::move_off(before);
  cpu_set_t after;
  ASSERT_EQ(sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after)) << "there is no other core";
}

/// The calling thread stays where it is, and may go on anywhere.
void may_run_on(const std::vector<std::size_t>& cores) {
  const cpu_set_t set = set_of(cores);
  sched_setaffinity(0, sizeof set, &set);
}

class SharedCore : public OwnDevice {
 protected:
  void SetUp() override {
    if (all_.size() < 2) GTEST_SKIP() << "needs two cores";
  }
  void TearDown() override { put_on(all_); }

  /// Devices live as long as the program.
  static weir::cpu::CpuDevice& device(int workers) {
    return *new weir::cpu::CpuDevice(weir::cpu::backend(), 0, workers, std::size_t{1} << 30);
  }
  static weir::cpu::CpuQueue& open_on(weir::cpu::CpuDevice& device) {
    weir::QueueOptions options;
    options.label = "a queue of the test";
    return device.open_queue(options);
  }
  template <class F>
  static void submit(weir::cpu::CpuQueue& queue, F function) {
    queue.submit(command_of(std::move(function)));
  }
  /// In a queue that a worker takes up next: where it is then. Its turn before has lasted for a while, on the core of everybody.
  int core_behind_a_long_turn(weir::cpu::CpuQueue& before, weir::cpu::CpuQueue& next) {
    std::atomic<bool> begun{false}, listed{false};
    std::atomic<int> core{-1};
    submit(before, [&] {
      begun = true;
      while (!listed) std::this_thread::yield();
      compute(1'000'000);
      may_run_on(all_);
    });
    EXPECT_TRUE(eventually([&] { return begun.load(); }));
    submit(next, [&] { core = sched_getcpu(); });
    listed = true;
    EXPECT_TRUE(eventually([&] { return core.load() >= 0; }));
    return core;
  }

  const std::vector<std::size_t> all_ = usable_cores();
  const int first_ = all_.empty() ? -1 : static_cast<int>(all_[0]);
};

TEST_F(SharedCore, is_left_by_a_worker_where_another_one_is_at_work) {
  for (int round = 0; round < 3; ++round) {
    weir::cpu::CpuDevice& own = device(2);  // a pool moves a worker once in a while
    weir::cpu::CpuQueue &held = open_on(own), &before = open_on(own), &next = open_on(own);
    put_on({all_[0]});
    std::atomic<bool> begun{false}, ends{false};
    submit(held, [&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    });
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    EXPECT_NE(core_behind_a_long_turn(before, next), first_);
    ends = true;
    held.synchronize("the test", {});
  }
}

TEST_F(SharedCore, is_left_by_a_worker_where_a_host_thread_is_at_work) {
  for (int round = 0; round < 3; ++round) {
    weir::cpu::CpuDevice& own = device(1);
    weir::cpu::CpuQueue &held = open_on(own), &before = open_on(own), &next = open_on(own);
    put_on({all_[0]});
    std::atomic<bool> occupied{false}, begun{false}, ends{false};
    submit(next, [&] {
      occupied = true;
      while (!begun) std::this_thread::yield();
    });
    ASSERT_TRUE(eventually([&] { return occupied.load(); }));
    submit(held, [&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    });
    std::thread host([&] { held.synchronize("the test", {}); });
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    EXPECT_NE(core_behind_a_long_turn(before, next), first_);
    ends = true;
    host.join();
  }
}

}  // namespace
}  // namespace weir_test
