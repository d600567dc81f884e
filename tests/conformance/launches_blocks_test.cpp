// Cooperative kernels: blocks of threads with shared memory, phases with a barrier between them, variables of a thread.
#include <cstdint>
#include <exception>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class LaunchBlocks : public AnyDevice {};
ON_EVERY_DEVICE(LaunchBlocks);

struct CountThreads {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int, 2> visits) const {
    block.each([&](std::size_t thread) { add_to_word(&visits(block.index(), thread), 1); });
  }
};

TEST_P(LaunchBlocks, every_thread_of_every_block_runs_once) {
  weir::Stream s(device());
  const std::size_t sizes[][2] = {{1, 1}, {1, 1024}, {1000, 1}, {77, 33}, {256, 256}};
  for (const auto& [blocks, threads] : sizes) {
    auto visits = weir::zeros<int>(s, {blocks, threads});
    weir::launch_blocks(s, {.blocks = blocks, .threads = static_cast<std::uint32_t>(threads)}, CountThreads{},
                        weir::inout(visits));
    EXPECT_EQ(visits.to_host(), std::vector<int>(blocks * threads, 1)) << blocks << " x " << threads;
  }
}

struct WriteSizes {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> wrong) const {
    block.each([&](std::size_t thread) {
      if (block.count() != 10 || block.threads() != 20 || block.index() >= 10 || thread >= 20)
        add_to_word(&wrong[0], 1);
    });
  }
};

TEST_P(LaunchBlocks, a_block_knows_its_sizes) {
  weir::Stream s(device());
  auto wrong = weir::zeros<int>(s, 1);
  weir::launch_blocks(s, {.blocks = 10, .threads = 20}, WriteSizes{}, weir::inout(wrong));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

/// The sum of each block's part of x, by a tree in shared memory: the textbook's first cooperative kernel.
struct BlockSum {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const std::int64_t> x,
                              weir::View<std::int64_t> sums) const {
    auto shared = block.shared<std::int64_t>(block.threads());
    block.each([&](std::size_t t) {
      const std::size_t i = block.index() * block.threads() + t;
      shared[t] = i < x.size() ? x[i] : 0;
    });
    for (std::size_t half = block.threads() / 2; half > 0; half /= 2) {
      block.each([&](std::size_t t) {
        if (t < half) shared[t] += shared[t + half];
      });
    }
    block.each([&](std::size_t t) {
      if (t == 0) sums[block.index()] = shared[0];
    });
  }
};

TEST_P(LaunchBlocks, N3_phases_share_memory_and_wait_for_each_other) {
  weir::Stream s(device());
  for (const std::size_t n : {1u, 255u, 256u, 257u, 100'000u}) {
    std::vector<std::int64_t> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::int64_t>(i * i % 1000);
    std::int64_t expected = 0;
    for (const std::int64_t v : values) expected += v;
    const std::size_t blocks = (n + 255) / 256;
    auto x = weir::from(s, values);
    auto sums = weir::zeros<std::int64_t>(s, blocks);
    weir::launch_blocks(s, {.blocks = blocks, .threads = 256, .shared_bytes = 256 * sizeof(std::int64_t)}, BlockSum{},
                        weir::in(x), weir::out(sums));
    std::int64_t total = 0;
    for (const std::int64_t v : sums.to_host()) total += v;
    EXPECT_EQ(total, expected) << n;
  }
}

TEST_P(LaunchBlocks, phases_see_dense_and_strided_slices_alike) {
  weir::Stream s(device());
  constexpr std::size_t n = 1024;
  std::vector<std::int64_t> values(2 * n);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i);
  auto all = weir::from(s, values);
  const auto sum_of = [&](const weir::Slice<std::int64_t>& x) {
    auto sums = weir::zeros<std::int64_t>(s, n / 256);
    weir::launch_blocks(s, {.blocks = n / 256, .threads = 256, .shared_bytes = 256 * sizeof(std::int64_t)}, BlockSum{},
                        weir::in(x), weir::out(sums));
    std::int64_t total = 0;
    for (const std::int64_t v : sums.to_host()) total += v;
    return total;
  };
  EXPECT_EQ(sum_of(all.slice(0, n)), 1023 * 512);
  EXPECT_EQ(sum_of(all.slice({{0, 2 * n, 2}})), 2 * 1023 * 512);
}

/// Reverses each block's part, so that every thread reads what another one wrote.
struct ReverseBlocks {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    auto kept = block.shared<int>(block.threads());
    auto flags = block.shared<char>(block.threads());
    auto own = block.each_own<int>(-1);
    block.each([&](std::size_t t) {
      own[t] = x[block.index() * block.threads() + t];
      kept[t] = own[t];
      flags[t] = 1;
    });
    block.each([&](std::size_t t) {
      const std::size_t mirror = block.threads() - 1 - t;
      x[block.index() * block.threads() + t] = flags[mirror] == 1 ? kept[mirror] : -2;
    });
    block.each([&](std::size_t t) {
      if (own[t] != kept[t]) x[block.index() * block.threads() + t] = -3;
    });
  }
};

TEST_P(LaunchBlocks, several_shared_arrays_and_own_variables_live_through_all_phases) {
  constexpr std::size_t blocks = 50, threads = 100;
  weir::Stream s(device());
  std::vector<int> values(blocks * threads), expected(blocks * threads);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  for (std::size_t i = 0; i < values.size(); ++i) {
    expected[i] = static_cast<int>(i / threads * threads + (threads - 1 - i % threads));
  }
  auto x = weir::from(s, values);
  weir::launch_blocks(s, {.blocks = blocks, .threads = threads, .shared_bytes = threads * (sizeof(int) + 1)},
                      ReverseBlocks{}, weir::inout(x));
  EXPECT_EQ(x.to_host(), expected);
}

struct OwnPrefix {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    auto sum = block.each_own<int>(100);
    for (int round = 0; round < 10; ++round) {
      block.each([&](std::size_t t) { sum[t] += static_cast<int>(t) * round; });
    }
    block.each([&](std::size_t t) { x[block.index() * block.threads() + t] = sum[t]; });
  }
};

TEST_P(LaunchBlocks, own_variables_begin_with_their_value_in_every_block) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 640);
  weir::launch_blocks(s, {.blocks = 10, .threads = 64}, OwnPrefix{}, weir::out(x));
  const std::vector<int> values = x.to_host();
  for (std::size_t i = 0; i < 640; ++i) ASSERT_EQ(values[i], 100 + static_cast<int>(i % 64) * 45) << i;
}

//  s: [hold ......][blocks][mark]
TEST_P(LaunchBlocks, cooperative_launches_are_asynchronous_and_in_order) {
  Gate gate;
  weir::Stream s(device());
  auto visits = weir::zeros<int>(weir::pinned, {4, 5});
  Marker marker;
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::launch_blocks(s, {.blocks = 4, .threads = 5, .name = "blocks"}, CountThreads{}, weir::inout(visits));
    mark(s, marker);
  }));
  EXPECT_TRUE(stays(device(), [&] { return load_word(visits.data()) == 0 && marker.value() == 0; }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(visits.to_host(), std::vector<int>(20, 1));
}

TEST_P(LaunchBlocks, R168_sizes_out_of_range_are_refused_and_nothing_runs) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, {4, 4});
  const std::size_t too_much = device().properties().max_shared_bytes_per_block + 1;
  const weir::BlockExtent wrong[] = {{.blocks = 0, .threads = 4},
                                     {.blocks = 4, .threads = 0},
                                     {.blocks = 4, .threads = 1025},
                                     {.blocks = 4, .threads = 4, .shared_bytes = too_much}};
  for (const weir::BlockExtent& extent : wrong) {
    EXPECT_TRUE(fails_with(weir::Errc::invalid_value,
                           [&] { weir::launch_blocks(s, extent, CountThreads{}, weir::inout(x)); }, {"launch_blocks"}))
        << extent.blocks.count() << " x " << extent.threads.count();
  }
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 0));
}

TEST_P(LaunchBlocks, a_block_that_takes_more_shared_memory_than_its_launch_said_fails) {
  if (!on("cpu")) GTEST_SKIP() << "a device function cannot throw";
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 1000);
  weir::launch_blocks(s, {.blocks = 10, .threads = 100, .shared_bytes = 100}, ReverseBlocks{}, weir::inout(x));
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->errc(), weir::Errc::kernel_failed);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { std::rethrow_exception(error->cause()); }));
}

}  // namespace
}  // namespace weir_test
