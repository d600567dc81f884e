// Programs of NVIDIA's samples about atomic operations, votes and clocks of kernels, written anew with Weir and checked as the
// samples check themselves.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

using namespace weir_test;

namespace port_atomics {

/// One element for each operation; every thread takes part in all of them.
struct AllOperations {
  WEIR_KERNEL void operator()(int i, weir::View<int> data) const {
    weir::atomic_add(data[0], 10);
    weir::atomic_add(data[1], -10);
    weir::atomic_exchange(data[2], i);
    weir::atomic_max(data[3], i);
    weir::atomic_min(data[4], i);
    weir::atomic_compare_exchange(data[5], i - 1, i);
  }
};

/// A vote in each block of whether all, any and how many of its threads have a number.
struct Vote {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const int> x, weir::View<int> all, weir::View<int> any,
                              weir::View<std::uint32_t> counts) const {
    const auto has_number = [&](std::size_t thread) { return x[block.global_index(thread)] != 0; };
    const bool every_one = block.all(has_number), one = block.any(has_number);
    const auto count = static_cast<std::uint32_t>(block.count(has_number));
    block.each([&](std::size_t thread) {
      if (thread != 0) return;
      all[block.index()] = every_one;
      any[block.index()] = one;
      counts[block.index()] = count;
    });
  }
};

/// The least element of each block, and the time that finding it took.
struct TimedMinimum {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> least,
                              weir::View<std::int64_t> begins, weir::View<std::int64_t> ends) const {
    block.each([&](std::size_t thread) {
      if (thread == 0) begins[block.index()] = weir::device_clock();
    });
    const float found =
        block.reduce([&](std::size_t thread) { return x[block.global_index(thread)]; }, weir::Minimum{});
    block.each([&](std::size_t thread) {
      if (thread != 0) return;
      least[block.index()] = found;
      ends[block.index()] = weir::device_clock();
    });
  }
};

}  // namespace port_atomics

using namespace port_atomics;

class PortOfAtomics : public AnyDevice {};
ON_EVERY_DEVICE(PortOfAtomics);

TEST_P(PortOfAtomics, simpleAtomicIntrinsics) {
  constexpr int n = 64 * 256;
  const weir::Stream s(device());
  auto data = weir::from(s, {0, 0, -1, -(1 << 8), 1 << 8, -1});
  weir::launch(s, n, AllOperations{}, weir::inout(data));
  const std::vector<int> found = data.to_host(s);
  EXPECT_EQ(found[0], 10 * n);
  EXPECT_EQ(found[1], -10 * n);
  EXPECT_TRUE(found[2] >= 0 && found[2] < n);  // one of those that were put there
  EXPECT_EQ(found[3], n - 1);
  EXPECT_EQ(found[4], 0);
  EXPECT_TRUE(found[5] >= 0 && found[5] < n);  // thread 0 comes, and who finds its forerunner
}

TEST_P(PortOfAtomics, simpleVoteIntrinsics) {
  constexpr std::size_t threads = 128;
  std::vector<int> numbers(4 * threads);  // none, all, one, half
  std::fill_n(numbers.begin() + threads, threads, 7);
  numbers[2 * threads + 93] = 1;
  for (std::size_t i = 0; i < threads; i += 2) numbers[3 * threads + i] = -1;
  const weir::Stream s(device());
  const auto x = weir::from(s, numbers);
  auto all = weir::empty<int>(s, 4), any = weir::empty<int>(s, 4);
  auto counts = weir::empty<std::uint32_t>(s, 4);
  weir::launch_blocks(s, {.blocks = 4, .threads = threads}, Vote{}, weir::in(x), weir::out(all), weir::out(any),
                      weir::out(counts));
  EXPECT_EQ(all.to_host(), (std::vector<int>{0, 1, 0, 0}));
  EXPECT_EQ(any.to_host(), (std::vector<int>{0, 1, 1, 1}));
  EXPECT_EQ(counts.to_host(), (std::vector<std::uint32_t>{0, threads, 1, threads / 2}));
}

TEST_P(PortOfAtomics, clock) {
  constexpr std::size_t blocks = 64, threads = 256;
  std::vector<float> numbers(blocks * threads);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>((i * 7919) % numbers.size());
  const weir::Stream s(device());
  const auto x = weir::from(s, numbers);
  auto least = weir::empty<float>(s, blocks);
  auto begins = weir::empty<std::int64_t>(s, blocks), ends = weir::empty<std::int64_t>(s, blocks);
  weir::launch_blocks(s, {.blocks = blocks, .threads = threads}, TimedMinimum{}, weir::in(x), weir::out(least),
                      weir::out(begins), weir::out(ends));
  const std::vector<float> found = least.to_host();
  const std::vector<std::int64_t> began = begins.to_host(), ended = ends.to_host();
  for (std::size_t b = 0; b < blocks; ++b) {
    EXPECT_EQ(found[b], *std::min_element(numbers.begin() + static_cast<std::ptrdiff_t>(b * threads),
                                          numbers.begin() + static_cast<std::ptrdiff_t>((b + 1) * threads)));
    EXPECT_LE(began[b], ended[b]) << b;
  }
}
