// Two of a pool's threads on one core: one of them leaves it.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cpu/workers/cores.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "own_device.hpp"
#include "support/gate.hpp"
#include "support/thread_state.hpp"

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

cpu_set_t cores_of(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(thread, sizeof set, &set), 0);
  return set;
}

TEST(Cores, that_a_sleeper_is_kept_off_are_not_where_it_wakes) {
  const std::vector<std::size_t> all = usable_cores();
  if (all.size() < 2) GTEST_SKIP() << "needs two cores";
  const cpu_set_t everywhere = set_of(all);
  std::atomic<pid_t> thread{0};
  std::atomic<std::uint32_t> called{0};
  std::atomic<int> core{-1};
  weir::cpu::KeptOff kept_off;
  std::thread sleeper([&] {
    thread = static_cast<pid_t>(syscall(SYS_gettid));
    while (called == 0) weir::cpu::futex_wait(called, 0);
    core = sched_getcpu();
    kept_off.end();
    while (called == 1) weir::cpu::futex_wait(called, 1);
  });
  EXPECT_TRUE(eventually([&] { return thread != 0 && state_of_thread(thread) == 'S'; }));
  kept_off.begin(thread, everywhere);
  cpu_set_t now = cores_of(thread);
  EXPECT_TRUE(CPU_EQUAL(&now, &everywhere)) << "there is no other core";
  kept_off.begin(thread, set_of({all[0]}));
  now = cores_of(thread);
  EXPECT_FALSE(CPU_ISSET(all[0], &now));
  called = 1;
  weir::cpu::futex_wake(called, 1);
  EXPECT_TRUE(eventually([&] { return core >= 0 && state_of_thread(thread) == 'S'; }));
  EXPECT_NE(core, static_cast<int>(all[0]));
  now = cores_of(thread);
  EXPECT_TRUE(CPU_EQUAL(&now, &everywhere)) << "it may run where it might before";
  called = 2;
  weir::cpu::futex_wake(called, 1);
  sleeper.join();
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

  /// The same with a host thread on that core, which runs what it waits for.
  int core_beside_a_host(weir::cpu::CpuQueue& held, weir::cpu::CpuQueue& before, weir::cpu::CpuQueue& next) {
    put_on({all_[0]});
    std::atomic<bool> occupied{false}, begun{false}, ends{false};
    submit(next, [&] {
      occupied = true;
      while (!begun) std::this_thread::yield();
    });
    EXPECT_TRUE(eventually([&] { return occupied.load(); }));
    submit(held, [&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    });
    std::thread host([&] { held.synchronize("the test", {}); });
    EXPECT_TRUE(eventually([&] { return begun.load(); }));
    const int core = core_behind_a_long_turn(before, next);
    ends = true;
    host.join();
    return core;
  }

  // On a busy machine the system moves a worker once more now and then.
  static constexpr int rounds = 10;
  static constexpr int most_of_them = 6;
  const std::vector<std::size_t> all_ = usable_cores();
  const int first_ = all_.empty() ? -1 : static_cast<int>(all_[0]);
};

TEST_F(SharedCore, is_left_by_a_worker_where_another_one_is_at_work) {
  int left = 0;
  for (int round = 0; round < rounds; ++round) {
    weir::cpu::CpuDevice& own = device(2);  // a pool moves a worker once in a while
    weir::cpu::CpuQueue &held = open_on(own), &before = open_on(own), &next = open_on(own);
    put_on({all_[0]});
    std::atomic<bool> begun{false}, ends{false};
    submit(held, [&] {
      begun = true;
      while (!ends) std::this_thread::yield();
    });
    ASSERT_TRUE(eventually([&] { return begun.load(); }));
    if (core_behind_a_long_turn(before, next) != first_) ++left;
    ends = true;
    held.synchronize("the test", {});
  }
  EXPECT_GE(left, most_of_them);
}

TEST_F(SharedCore, is_left_by_a_worker_where_a_host_thread_is_at_work) {
  int left = 0;
  for (int round = 0; round < rounds; ++round) {
    weir::cpu::CpuDevice& own = device(1);
    if (core_beside_a_host(open_on(own), open_on(own), open_on(own)) != first_) ++left;
  }
  EXPECT_GE(left, most_of_them);
}

/// A program of its own, so to speak, that keeps one core busy.
class Busy {
 public:
  explicit Busy(std::size_t core)
      : thread_([this, core] {
          may_run_on({core});
          while (!ends_) compute(100'000);
        }) {}
  ~Busy() {
    ends_ = true;
    thread_.join();
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

TEST_F(SharedCore, is_not_where_a_worker_wakes_for_a_while) {
  const std::size_t here = all_[0], there = all_[1];
  int elsewhere = 0;
  for (int round = 0; round < rounds; ++round) {
    weir::cpu::CpuDevice& own = device(1);
    weir::cpu::CpuQueue &held = open_on(own), &before = open_on(own), &next = open_on(own);
    if (core_beside_a_host(held, before, next) == first_) continue;
    std::atomic<pid_t> worker{0};
    submit(next, [&] {
      may_run_on({here});
      worker = static_cast<pid_t>(syscall(SYS_gettid));
    });
    ASSERT_TRUE(eventually([&] { return worker != 0 && state_of_thread(worker) == 'S'; }));
    const Busy busy(there);
    may_run_on({here});
    const cpu_set_t both = set_of({here, there});
    sched_setaffinity(worker, sizeof both, &both);
    std::atomic<int> core{-1};
    submit(next, [&] { core = sched_getcpu(); });
    while (core < 0) compute(1'000);  // this core is taken, too
    const cpu_set_t now = cores_of(worker);
    EXPECT_TRUE(CPU_EQUAL(&now, &both)) << "it may run where it might before";
    if (core != static_cast<int>(here)) ++elsewhere;
    may_run_on(all_);
  }
  EXPECT_GE(elsewhere, most_of_them);
}

}  // namespace
}  // namespace weir_test
