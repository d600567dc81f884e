// What a copy from pageable memory takes at the call is given back, whether the copy runs or is skipped.
#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <weir/weir.hpp>

#include "injector.hpp"

namespace weir_test {
namespace {

/// How many blocks a hundred copies leave allocated.
std::int64_t left_by_copies(bool behind_a_failure) {
  const weir::Stream s(weir::device("cpu"));
  auto a = weir::zeros<int>(s, 1000);
  const std::vector<int> pageable(1000);
  std::int64_t before = 0;
  for (int round = 0; round < 2; ++round) {  // the first is for what the library keeps
    before = live_blocks();
    if (behind_a_failure) weir::host_call(s, [] { throw std::runtime_error("the pipe burst"); });
    for (int i = 0; i < 100; ++i) weir::copy(s, a, pageable);
    try {
      s.synchronize();
      EXPECT_FALSE(behind_a_failure);
    } catch (const weir::Error&) {
      EXPECT_TRUE(behind_a_failure);
    }
  }
  return live_blocks() - before;
}

TEST(StagedCopies, leave_nothing_allocated) { EXPECT_LT(left_by_copies(false), 50); }

TEST(StagedCopies, that_are_skipped_leave_nothing_allocated) { EXPECT_LT(left_by_copies(true), 50); }

}  // namespace
}  // namespace weir_test
