// How threads wait between two looks at what others are about to do.
#include "back_off.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>

namespace weir::detail {
namespace {

long sleeps() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nvcsw;  // yields count among those that are not voluntary
}

TEST(BackOff, sleeps_one_in_64_times) {
  for (int looks = 0; looks < 64; ++looks) back_off(looks);  // its first calls may wait for the file of the program
  const long before = sleeps();
  for (int looks = 0; looks < 63; ++looks) back_off(looks);
  const long between = sleeps();
  EXPECT_EQ(between - before, 0);
  // By the clock: a sleep that is over before its thread has left the core counts as none of the kernel's.
  for (int looks = 63; looks < 640; looks += 64) {
    const auto began = std::chrono::steady_clock::now();
    back_off(looks);
    EXPECT_GE(std::chrono::steady_clock::now() - began, std::chrono::microseconds(20));
  }
}

}  // namespace
}  // namespace weir::detail
