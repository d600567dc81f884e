// What a checker takes for the launches of a loop.
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include <weir/check.hpp>
#include <weir/weir.hpp>

#include "injector.hpp"

namespace weir_test {
namespace {

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] += x[i]; }
};

/// It knows each stream, line and array already.
TEST(CheckedLaunches, of_a_loop_allocate_nothing) {
  const weir::Device device = weir::device("cpu");
  weir::Checker checker({.mode = weir::CheckMode::collect});
  std::vector<weir::Stream> streams;
  std::vector<weir::Array<float>> own;
  for (int i = 0; i < 4; ++i) streams.emplace_back(device, weir::StreamOptions{.blocking = false});
  const auto shared = weir::zeros<float>(streams[0], 16);
  for (const weir::Stream& stream : streams) own.push_back(weir::zeros<float>(stream, 16));
  weir::synchronize();
  const auto turn = [&] {
    for (std::size_t i = 0; i < 4; ++i) weir::launch(streams[i], 16, Add{}, weir::in(shared), weir::inout(own[i]));
  };
  for (int i = 0; i < 8; ++i) turn();
  weir::synchronize();
  turn();
  fail_allocation(Whose::this_thread, 0);
  for (int i = 0; i < 4; ++i) turn();
  EXPECT_FALSE(stop_failing()) << "a launch allocates";
  weir::synchronize();
  EXPECT_TRUE(checker.findings().empty()) << to_text(checker.report());
  EXPECT_TRUE(checker.report().unchecked.empty()) << to_text(checker.report());
}

}  // namespace
}  // namespace weir_test
