// Producers that are faster than their stream are held back, whatever they submit: memory stays flat.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include <unistd.h>

#include <weir/weir.hpp>

#include "support/compute.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

namespace weir_test {
namespace {

double resident_mib() {
  long pages = 0, resident = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  EXPECT_EQ(std::fscanf(file, "%ld %ld", &pages, &resident), 2);
  std::fclose(file);
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

struct Backlog {
  int peak = 0;          ///< of what was pending: memory that it took stays, for later commands
  int most_pending = 0;  ///< at some moments
  double grown_mib = 0;  ///< of the process
};

/// Submits so often to a stream that runs, where each submission adds one to `done` when it runs.
template <typename Submit>
Backlog backlog_of(int all, const std::atomic<int>& done, Submit submit) {
  Backlog backlog;
  const double before = resident_mib();
  const int done_before = done;
  for (int i = 1; i <= all; ++i) {
    submit();
    if (i % 1'000 != 0) continue;
    const int pending = i - (done - done_before);
    backlog.peak = std::max(backlog.peak, pending);
    if (i % 50'000 != 0) continue;
    backlog.most_pending = std::max(backlog.most_pending, pending);
    backlog.grown_mib = std::max(backlog.grown_mib, resident_mib() - before);
  }
  return backlog;
}

/// Of 4,000,000 submissions less than a third is ever pending, and the process grows by no more than what is pending takes. A
/// consumer that other programs keep from its core for milliseconds looks held up, and its producer goes on: one try of a few
/// has to do.
template <typename Submit>
void expect_a_small_backlog(const weir::Stream& s, const std::atomic<int>& done, Submit submit) {
  constexpr int some = 200'000;
  constexpr int all = 4'000'000;
  constexpr int tries = 6;
  Gate gate;
  gate.hold(s);
  const double of_some = backlog_of(some, done, submit).grown_mib;
  gate.open();
  s.synchronize();
  const Backlog first = backlog_of(all, done, submit);  // later ones find the memory of earlier ones
  s.synchronize();
  EXPECT_LT(first.grown_mib, of_some * first.peak / some + 40);
  int least = first.most_pending;
  for (int i = 1; i < tries && least >= all / 3; ++i) {
    least = std::min(least, backlog_of(all, done, submit).most_pending);
    s.synchronize();
  }
  EXPECT_LT(least, all / 3);
}

constexpr bool sanitized = under_thread_sanitizer || under_address_sanitizer;
constexpr const char* why_skipped = "sanitizers keep freed and watched memory";

TEST(Backlog, four_million_launches_of_a_graph_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  std::atomic<int> done{0};
  const weir::Graph graph = weir::capture(s, [&] {
    for (int i = 0; i < 3; ++i) weir::launch(s, 1, [](std::size_t) {});
    weir::launch(s, 1, [&done](std::size_t) { ++done; });
  });
  expect_a_small_backlog(s, done, [&] { graph.launch(s); });
}

// The kernel takes longer than its launch.
TEST(Backlog, four_million_launches_of_a_kernel_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  std::atomic<int> done{0};
  double result = 0;
  expect_a_small_backlog(s, done, [&] {
    weir::launch(s, 1, [&done, &result](std::size_t i) {
      Compute{}(i, &result, 100);
      ++done;
    });
  });
}

}  // namespace
}  // namespace weir_test
