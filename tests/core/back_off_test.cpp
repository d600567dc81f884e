// How threads wait between two looks at what others are about to do.
#include "back_off.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

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
  for (int looks = 63; looks < 640; ++looks) back_off(looks);
  EXPECT_EQ(between - before, 0);
  EXPECT_GE(sleeps() - between, 10);
}

}  // namespace
}  // namespace weir::detail
