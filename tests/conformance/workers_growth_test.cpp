// The CPU's pool of workers grows while commands are held up, and only then: work that computes gets a thread for each core.
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/child.hpp"
#include "support/compute.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

weir::Device cpu() { return weir::device("cpu"); }
int cores() { return cpu().properties().multiprocessors; }

int threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<int>(std::distance(begin(tasks), end(tasks)));
}
/// Those that were there before Weir's: the test's own, and a sanitizer's.
const int threads_at_start = threads();
/// Threads of this process that Weir started, but for the monitor.
int workers() { return threads() - threads_at_start - 1; }

/// The most workers seen until all streams are done. This thread gives no help.
int most_workers_until_done(const std::vector<weir::Stream>& streams) {
  int most = 0;
  for (const weir::Stream& stream : streams) {
    while (!stream.done()) {
      most = std::max(most, workers());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return std::max(most, workers());
}

struct Triple {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> a) const { a[i] = 3 * a[i] + 1; }
};
struct BlockSum {
  WEIR_KERNEL void operator()(std::size_t block, weir::View<const double> a, weir::View<double> sums) const {
    const std::size_t chunk = (a.size() + sums.size() - 1) / sums.size();
    double sum = 0;
    for (std::size_t i = block * chunk; i < a.size() && i < (block + 1) * chunk; ++i) sum += a[i];
    sums[block] = sum;
  }
};

/// N3's commands over one array: copied in, worked on, summed, copied out.
struct Pipeline {
  explicit Pipeline(weir::StreamRef stream)
      : pinned(weir::full(weir::pinned, size, 1.0)),
        values(weir::empty<double>(stream, size)),
        sums(weir::empty<double>(stream, 500)) {}
  void enqueue(weir::StreamRef stream) {
    weir::copy(stream, values, pinned);
    weir::launch(stream, sums.size(), BlockSum{}, weir::in(values), weir::out(sums));
    weir::launch(stream, size, Triple{}, weir::inout(values));
    weir::copy(stream, pinned, values);
  }

  static constexpr std::size_t size = 1'000'000;
  weir::Array<double> pinned, values, sums;
};

double cpu_seconds(const rusage& use) {
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

WEIR_SCENE(ten_streams_compute) {
  std::vector<weir::Stream> streams;
  std::vector<Pipeline> pipelines;
  for (int i = 0; i < 10; ++i) pipelines.emplace_back(streams.emplace_back(cpu()));
  cpu().synchronize();
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  int most = 0;
  for (int round = 0; round < 10; ++round) {
    const bool one_stream = round % 2 == 0;
    for (std::size_t i = 0; i < 10; ++i) pipelines[i].enqueue(streams[one_stream ? 0 : i]);
    most = std::max(most, most_workers_until_done(streams));
  }
  getrusage(RUSAGE_SELF, &after);
  const double time = cpu_seconds(after) - cpu_seconds(before);
  const long switches = after.ru_nivcsw - before.ru_nivcsw;
  std::fprintf(stderr, "%d workers, %ld involuntary switches in %.2f s of a core\n", most, switches, time);
  insist(most <= cores(), "there were no more workers than cores");
  insist(static_cast<double>(switches) < 3000 * time + 200, "they seldom took each other's cores");
  insist(pipelines[9].pinned[7] == 88573, "the pipeline computed what it should");
}

constexpr bool sanitized = under_address_sanitizer || under_thread_sanitizer;
constexpr const char* why_skipped = "threads stall inside a sanitizer, which looks like waiting";

TEST(WorkersGrowth, work_that_computes_gets_no_more_threads_than_there_are_cores) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const Outcome outcome = play("ten_streams_compute");
  EXPECT_TRUE(ended_well(outcome)) << outcome.output;
}

WEIR_SCENE(held_kernels_resume_while_others_compute) {
  Gate gate;
  std::vector<weir::Stream> held, computing;
  for (int i = 0; i < cores() + 3; ++i) gate.hold(held.emplace_back(cpu(), weir::StreamOptions{.blocking = false}));
  insist(eventually([&] { return gate.begun() == cores() + 3; }), "every held kernel has begun");
  insist(workers() > cores(), "the pool has grown for them");
  // Enough for every core, for longer than the test lasts.
  const int streams = std::max(8, 2 * cores());
  auto results = weir::zeros<double>(weir::pinned, 8 * static_cast<std::size_t>(streams));
  for (int i = 0; i < streams; ++i) {
    const weir::Stream& s = computing.emplace_back(cpu());
    for (int launch = 0; launch < 8000; ++launch) weir::launch(s, 1, Compute{}, results.data() + 8 * i, 100'000);
  }
  gate.open();
  for (const weir::Stream& s : held) insist(eventually([&] { return s.done(); }), "held kernels end");
  const bool left = eventually([&] { return workers() == cores(); });
  if (!left) std::fprintf(stderr, "%d workers on %d cores\n", workers(), cores());
  insist(left, "workers that are not needed any more leave");
  insist(!computing.back().done(), "while others compute");
  std::_Exit(0);
}

TEST(WorkersGrowth, extra_workers_leave_when_held_kernels_resume_though_others_compute) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  EXPECT_TRUE(ended_well(play("held_kernels_resume_while_others_compute")));
}

//  an extra worker computes while an ordinary one rests: it gives its work to that
TEST(WorkersGrowth, extra_workers_leave_too_where_there_are_more_workers_than_cores) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const std::string workers = "WEIR_CPU_WORKERS=" + std::to_string(std::min(2 * cores(), 64));
  EXPECT_TRUE(ended_well(play("held_kernels_resume_while_others_compute", {workers})));
}

struct SpinUntilSet {
  WEIR_KERNEL void operator()(std::size_t, int* word, int* gave_up) const {
#if !defined(__CUDA_ARCH__)
    const auto limit = std::chrono::steady_clock::now() + 2 * liveness_limit;
    while (load_word(word) == 0) {
      if (std::chrono::steady_clock::now() < limit) continue;
      add_to_word(gave_up, 1);
      return;
    }
#endif
  }
};

//  as many streams as cores, and far more: [spins until set]
//  last:                                   [set]
TEST(WorkersGrowth, kernels_that_spin_for_another_stream_get_help) {
  for (const int times : {1, 4}) {
    Marker set, gave_up;
    std::vector<weir::Stream> streams;
    for (int i = 0; i < times * cores() && i < cores() + 16; ++i) {
      weir::launch(streams.emplace_back(cpu(), weir::StreamOptions{.blocking = false}), 1, SpinUntilSet{}, set.word(),
                   gave_up.word());
    }
    const weir::Stream last(cpu(), {.blocking = false});
    mark(last, set);
    EXPECT_TRUE(eventually([&] { return set.value() == 1; })) << times;
    for (const weir::Stream& s : streams) EXPECT_TRUE(eventually([&] { return s.done(); }));
    EXPECT_EQ(gave_up.value(), 0);
  }
}

/// Work at first, wherever a worker begins, and then a wait.
struct ComputeThenSpin {
  WEIR_KERNEL void operator()(std::size_t i, double* results, int* begun, int* word, int* gave_up) const {
    Compute{}(i, results, 2'000);
    if (i % 100 < 50) return;
    add_to_word(begun, 1);
    SpinUntilSet{}(i, word, gave_up);
  }
};

//  a: [a loop on all cores ...... all spin until set]
//  b: [set]
TEST(WorkersGrowth, a_loop_that_waits_for_another_stream_on_all_cores_gets_help) {
  const std::size_t count = 100 * static_cast<std::size_t>(cores());
  Marker begun, set, gave_up;
  auto results = weir::zeros<double>(weir::pinned, count);
  const weir::Stream a(cpu(), {.blocking = false}), b(cpu(), {.blocking = false});
  weir::launch(a, count, ComputeThenSpin{}, results.data(), begun.word(), set.word(), gave_up.word());
  ASSERT_TRUE(eventually([&] { return begun.value() == cores(); }));
  mark(b, set);
  EXPECT_TRUE(eventually([&] { return set.value() == 1; }));
  EXPECT_TRUE(eventually([&] { return a.done(); }));
  EXPECT_EQ(gave_up.value(), 0);
}

}  // namespace
}  // namespace weir_test
