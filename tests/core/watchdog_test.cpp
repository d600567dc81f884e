// The watchdog over tests: of a test of many programs, each has the whole time.
#include "support/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace weir_test {
namespace {

TEST(Watchdog, gives_the_whole_time_to_what_begins_anew) {
  const auto began = std::chrono::steady_clock::now();
  const auto first = test_deadline();
  while (std::chrono::steady_clock::now() == began) {
  }
  watch_anew();
  EXPECT_GT(test_deadline(), first);
  EXPECT_GE(test_deadline(), began + test_limit());
}

}  // namespace
}  // namespace weir_test
