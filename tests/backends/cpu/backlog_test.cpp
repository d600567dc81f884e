// Producers that are faster than their stream are held back, whatever they submit: memory stays flat.
#include <gtest/gtest.h>

#include <cstdio>

#include <unistd.h>

#include <weir/weir.hpp>

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

// A launch takes some 100 bytes of a queue's memory: 200 MiB, were they all pending.
TEST(Backlog, two_million_launches_of_a_graph_grow_the_process_little) {
  if (under_thread_sanitizer || under_address_sanitizer) GTEST_SKIP() << "sanitizers keep freed and watched memory";
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  const weir::Graph graph = weir::capture(s, [&] {
    for (int i = 0; i < 4; ++i) weir::launch(s, 1, [](std::size_t) {});
  });
  for (int i = 0; i < 20'000; ++i) graph.launch(s);
  s.synchronize();
  const double before = resident_mib();
  double most = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    graph.launch(s);
    if (i % 50'000 == 0) most = std::max(most, resident_mib() - before);
  }
  most = std::max(most, resident_mib() - before);
  s.synchronize();
  EXPECT_LT(most, 60);
  RecordProperty("MiB", std::to_string(most));
}

}  // namespace
}  // namespace weir_test
