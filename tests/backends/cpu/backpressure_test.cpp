// A producer stays near its stream: how far it is ahead, seen by the commands themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>

#include <weir/weir.hpp>

namespace weir_test {
namespace {

/// The most commands that were pending, where each takes longer than to enqueue it.
int most_pending(int commands) {
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  std::atomic<int> ran{0};
  int most = 0;
  for (int i = 0; i < commands; ++i) {
    weir::launch(s, 1, [&ran](std::size_t) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(2);
      while (std::chrono::steady_clock::now() < end) {
      }
      ran.fetch_add(1, std::memory_order_relaxed);
    });
    most = std::max(most, i - ran.load(std::memory_order_relaxed));
  }
  s.synchronize();
  return most;
}

// Where the stream's thread loses its core, the stream stands still, and the producer goes on. So one try of several counts.
TEST(Backpressure, a_producer_that_is_faster_than_its_stream_stays_near_it) {
  constexpr int commands = 60'000;
  int least = commands;
  for (int tries = 0; tries < 10 && least > commands / 3; ++tries) least = std::min(least, most_pending(commands));
  EXPECT_LE(least, commands / 3);
}

}  // namespace
}  // namespace weir_test
