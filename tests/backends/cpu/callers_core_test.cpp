// A worker that the system has woken on the core of the thread that called it: that thread is the one who has work for it.
#include <gtest/gtest.h>
#include <sched.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

/// All threads of the process are on one core while this lives.
class OnOneCore {
 public:
  OnOneCore() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(sched_getcpu()), &one);
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      Thread thread{std::atoi(task.path().filename().c_str()), {}};
      if (sched_getaffinity(thread.id, sizeof thread.cores, &thread.cores) != 0) continue;
      if (sched_setaffinity(thread.id, sizeof one, &one) == 0) threads_.push_back(thread);
    }
  }
  ~OnOneCore() {
    for (const Thread& thread : threads_) sched_setaffinity(thread.id, sizeof thread.cores, &thread.cores);
  }
  OnOneCore(const OnOneCore&) = delete;
  OnOneCore& operator=(const OnOneCore&) = delete;

 private:
  struct Thread {
    int id;
    cpu_set_t cores;
  };
  std::vector<Thread> threads_;
};

double cpu_seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

TEST(CallersCore, is_left_to_the_caller) {
  const weir::Stream s(weir::device("cpu"));
  for (int i = 0; i < 1'000; ++i) weir::launch(s, 1, [](std::size_t) {});
  s.synchronize();
  const OnOneCore on_one_core;
  double all = 0;
  double own = 0;
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // who has slept for long is given the core at once
    all -= cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    own -= cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < 200'000; ++i) {
      weir::launch(s, 1, [](std::size_t) {});
      s.synchronize();
    }
    all += cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    own += cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
  }
  // A worker that looks for work for its usual 50 us, each time that it is called, has a third of the core or more.
  // Under ThreadSanitizer the others take about a twentieth as it is.
  EXPECT_LT(all - own, own / (under_thread_sanitizer ? 10 : 20));
}

}  // namespace
}  // namespace weir_test
