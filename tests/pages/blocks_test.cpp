// The snippets of docs/blocks.md, each as that page has it: scripts/check_claims compares the two.
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

namespace {

struct Sums {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> sums) const {
    const float sum = block.reduce([&](std::size_t t) { return x[block.global_index(t)]; });
    block.each([&](std::size_t t) {
      if (t == 0) sums[block.index()] = sum;
    });
  }
};

/// Each block adds up a part of its own, whose steps are phases.
struct SumsOfParts {
  WEIR_KERNEL void operator()(weir::Block& block, std::size_t steps, weir::View<const float> x,
                              weir::View<float> sums) const {
    const std::size_t begin = block.index() * steps * block.threads();
    auto sum = block.each_own<float>(0.0f);
    block.each([&](std::size_t t) { sum[t] = x[begin + t]; });
    for (std::size_t step = 1; step < steps; ++step) {
      block.each([&](std::size_t t) { sum[t] += x[begin + step * block.threads() + t]; });
    }
    const float whole = block.reduce(sum);
    block.each([&](std::size_t t) {
      if (t == 0) sums[block.index()] = whole;
    });
  }
};

TEST(PageOfBlocks, sums) {
  constexpr std::size_t n = 4096;
  const weir::Stream stream(weir::device("cpu"));
  std::vector<float> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(i / 1024);
  const auto x = weir::from(stream, numbers);
  auto sums = weir::empty<float>(stream, n / 256);
  weir::launch_blocks(stream, {.blocks = n / 256, .threads = 256}, Sums{}, weir::in(x), weir::out(sums));
  std::vector<float> expected(n / 256);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = 256 * static_cast<float>(i / 4);
  EXPECT_EQ(sums.to_host(), expected);

  auto parts = weir::empty<float>(stream, 4);
  weir::launch_blocks(stream, {.blocks = 4, .threads = 64}, SumsOfParts{}, std::size_t{16}, weir::in(x),
                      weir::out(parts));
  EXPECT_EQ(parts.to_host(), (std::vector<float>{0, 1024, 2048, 3072}));
}

}  // namespace
