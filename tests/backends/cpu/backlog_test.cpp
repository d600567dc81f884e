// Producers that are faster than their stream are held back, whatever they submit: memory stays flat.
#include <gtest/gtest.h>

#include <algorithm>
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

/// Submits 4,000,000 times to a stream that runs, and expects the process to grow by less than a third of what they would take,
/// were they all pending.
template <typename Submit>
void expect_little_growth(const weir::Stream& s, Submit submit) {
  constexpr int pending = 200'000;
  constexpr int all = 4'000'000;
  Gate gate;
  double before = resident_mib();
  gate.hold(s);
  for (int i = 0; i < pending; ++i) submit();
  const double of_all = (resident_mib() - before) * all / pending;
  gate.open();
  s.synchronize();
  before = resident_mib();
  double most = 0;
  for (int i = 0; i < all; ++i) {
    submit();
    if (i % 50'000 == 0) most = std::max(most, resident_mib() - before);
  }
  EXPECT_LT(most, of_all / 3 + 20);  // what an earlier test left for use again did not grow
  s.synchronize();
}

constexpr bool sanitized = under_thread_sanitizer || under_address_sanitizer;
constexpr const char* why_skipped = "sanitizers keep freed and watched memory";

TEST(Backlog, four_million_launches_of_a_graph_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  const weir::Graph graph = weir::capture(s, [&] {
    for (int i = 0; i < 4; ++i) weir::launch(s, 1, [](std::size_t) {});
  });
  expect_little_growth(s, [&] { graph.launch(s); });
}

// The kernel takes longer than its launch.
TEST(Backlog, four_million_launches_of_a_kernel_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  double result = 0;
  expect_little_growth(s, [&] { weir::launch(s, 1, Compute{}, &result, 100); });
}

}  // namespace
}  // namespace weir_test
