// Tests of programs that check each of their tests.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <weir/check_gtest.hpp>
#include <weir/weir.hpp>

namespace {

struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float>) const {}
};

void launch(bool waits) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream own{device, {.blocking = false}}, other{device, {.blocking = false}};
  auto x = weir::zeros<float>(own, 16);
  if (waits) other.wait(own);
  weir::launch(other, 16, Touch{}, weir::inout(x));
}

TEST(CheckEveryTest, fails_tests_that_have_a_hazard_and_no_others) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  weir::detail::CheckerOfTests listener({});
  listener.OnTestStart(test);
  launch(false);
  EXPECT_NONFATAL_FAILURE(listener.OnTestEnd(test), "hazard: use_before_alloc");
  listener.OnTestStart(test);
  launch(true);
  listener.OnTestEnd(test);
}

}  // namespace
