// The watchdog over tests: of a test of many programs, each has the whole time.
#include "support/watchdog.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "support/gate.hpp"

namespace weir_test {
namespace {

TEST(Watchdog, gives_the_whole_time_to_what_begins_anew) {
  Limit::Clock::duration used_up = test_limit();
  while (used_up == test_limit()) used_up = test_time_left();
  // This thread may be held up in between.
  EXPECT_TRUE(eventually([&] {
    watch_anew();
    return test_time_left() > used_up;
  }));
}

TEST(Limit, is_over_when_its_time_has_passed) {
  const Limit::Clock::time_point begin;
  Limit limit(std::chrono::milliseconds(900), begin);
  EXPECT_FALSE(limit.is_over(begin + std::chrono::milliseconds(450)));
  EXPECT_FALSE(limit.is_over(begin + std::chrono::milliseconds(899)));
  EXPECT_TRUE(limit.is_over(begin + std::chrono::milliseconds(900)));
}

TEST(Limit, is_not_over_while_the_machine_stands_still) {
  const Limit::Clock::time_point begin;
  Limit limit(std::chrono::seconds(1), begin);
  EXPECT_FALSE(limit.is_over(begin + std::chrono::hours(1)));
  EXPECT_EQ(limit.left(), std::chrono::milliseconds(500));
  EXPECT_TRUE(limit.is_over(begin + std::chrono::hours(2)));
}

}  // namespace
}  // namespace weir_test
