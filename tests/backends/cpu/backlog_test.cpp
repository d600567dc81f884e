// Producers that are faster than their stream are held back, whatever they submit: memory stays flat.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

#include <unistd.h>

#include <weir/weir.hpp>

#include "support/compute.hpp"
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

/// By how many MiB the process grows at most while `submit` is called two million times in a row.
template <typename Submit>
double growth(const weir::Stream& s, Submit submit) {
  for (int i = 0; i < 20'000; ++i) submit();
  s.synchronize();
  const double before = resident_mib();
  double most = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    submit();
    if (i % 50'000 == 0) most = std::max(most, resident_mib() - before);
  }
  most = std::max(most, resident_mib() - before);
  s.synchronize();
  return most;
}

constexpr bool sanitized = under_thread_sanitizer || under_address_sanitizer;
constexpr const char* why_skipped = "sanitizers keep freed and watched memory";

// A launch takes some 100 bytes of a queue's memory: 200 MiB, were they all pending.
TEST(Backlog, two_million_launches_of_a_graph_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  const weir::Graph graph = weir::capture(s, [&] {
    for (int i = 0; i < 4; ++i) weir::launch(s, 1, [](std::size_t) {});
  });
  EXPECT_LT(growth(s, [&] { graph.launch(s); }), 60);
}

// The kernel takes longer than its launch.
TEST(Backlog, two_million_launches_of_a_kernel_grow_the_process_little) {
  if (sanitized) GTEST_SKIP() << why_skipped;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  double result = 0;
  EXPECT_LT(growth(s, [&] { weir::launch(s, 1, Compute{}, &result, 100); }), 60);
}

}  // namespace
}  // namespace weir_test
