// What the threads of a block do together: reduce, scans, broadcast, any, all and count.
#include <cstdint>
#include <exception>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

class LaunchTogether : public AnyDevice {};
ON_EVERY_DEVICE(LaunchTogether);

// Whole warps of a GPU, parts of one, and one of one thread behind whole ones.
constexpr std::uint32_t sizes[] = {1, 2, 5, 31, 32, 33, 64, 100, 255, 256, 993, 1024};

/// x -> a x + b, in 12 bytes: one after the other is associative, and not commutative.
struct Affine {
  std::uint32_t a, b, steps;
  friend bool operator==(const Affine&, const Affine&) = default;
};
struct Then {
  WEIR_KERNEL Affine operator()(const Affine& first, const Affine& second) const {
    return {second.a * first.a, second.a * first.b + second.b, first.steps + second.steps};
  }
};
WEIR_KERNEL inline Affine step_of(std::size_t i) {
  const auto number = static_cast<std::uint32_t>(i);
  return {2 * number + 3, number * number + 1, 1};
}

struct Fold {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<Affine, 2> all, weir::View<Affine, 2> sums,
                              weir::View<Affine, 2> before) const {
    const std::size_t first = block.index() * block.threads();
    const auto step = [&](std::size_t t) { return step_of(first + t); };
    const Affine total = block.reduce(step, Then{});
    const auto sum = block.inclusive_scan(step, Then{});
    const auto previous = block.exclusive_scan(step, Affine{7, 5, 0}, Then{});
    block.each([&](std::size_t t) {
      all(block.index(), t) = total;
      sums(block.index(), t) = sum[t];
      before(block.index(), t) = previous[t];
    });
  }
};

TEST_P(LaunchTogether, reduce_and_scans_keep_the_order_of_the_threads) {
  weir::Stream s(device());
  constexpr std::size_t blocks = 3;
  for (const std::uint32_t threads : sizes) {
    auto all = weir::empty<Affine>(s, {blocks, threads});
    auto sums = weir::empty<Affine>(s, {blocks, threads});
    auto before = weir::empty<Affine>(s, {blocks, threads});
    weir::launch_blocks(s, {.blocks = blocks, .threads = threads}, Fold{}, weir::out(all), weir::out(sums),
                        weir::out(before));
    const std::vector<Affine> totals = all.to_host(), inclusive = sums.to_host(), exclusive = before.to_host();
    for (std::size_t b = 0; b < blocks; ++b) {
      Affine expected = step_of(b * threads);
      Affine expected_before{7, 5, 0};
      for (std::size_t i = b * threads; i < (b + 1) * threads; ++i) {
        if (i != b * threads) expected = Then{}(expected, step_of(i));
        ASSERT_EQ(inclusive[i], expected) << threads << " threads, " << i;
        ASSERT_EQ(exclusive[i], expected_before) << threads << " threads, " << i;
        expected_before = Then{}(expected_before, step_of(i));
      }
      for (std::size_t i = b * threads; i < (b + 1) * threads; ++i) {
        ASSERT_EQ(totals[i], expected) << threads << " threads, " << i;
      }
    }
  }
}

struct SumFloats {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> result) const {
    const float sum = block.reduce([&](std::size_t t) { return x[t]; });
    block.each([&](std::size_t t) { result[t] = sum; });
  }
};

TEST_P(LaunchTogether, reduce_adds_floats_in_the_same_tree_everywhere) {
  weir::Stream s(device());
  for (const std::uint32_t threads : sizes) {
    std::vector<float> values(threads);
    for (std::size_t i = 0; i < threads; ++i) values[i] = 1.0f / static_cast<float>(3 * i + 1);
    auto x = weir::from(s, values);
    auto result = weir::empty<float>(s, threads);
    weir::launch_blocks(s, {.blocks = 1, .threads = threads}, SumFloats{}, weir::in(x), weir::out(result));
    for (std::size_t distance = 1; distance < threads; distance *= 2) {
      for (std::size_t i = 0; i + distance < threads; i += 2 * distance) values[i] += values[i + distance];
    }
    EXPECT_EQ(result.to_host(), std::vector<float>(threads, values[0])) << threads;
  }
}

struct AskThreads {
  WEIR_KERNEL void operator()(weir::Block& block, std::size_t limit, weir::View<int, 2> answers) const {
    const auto below = [=](std::size_t t) { return t < limit; };
    const bool any = block.any(below);
    const bool all = block.all(below);
    const std::size_t count = block.count(below);
    const auto own = block.each_own<int>(0);
    block.each([&](std::size_t t) { own[t] = t < limit ? 0 : 1; });
    const std::size_t rest = block.count(own);
    block.each([&](std::size_t t) {
      answers(t, 0) = any ? 1 : 0;
      answers(t, 1) = all ? 1 : 0;
      answers(t, 2) = static_cast<int>(count);
      answers(t, 3) = static_cast<int>(rest);
    });
  }
};

TEST_P(LaunchTogether, any_all_and_count_tell_every_thread) {
  weir::Stream s(device());
  for (const std::uint32_t threads : sizes) {
    for (const std::size_t limit : {std::size_t{0}, std::size_t{1}, std::size_t{threads} - 1, std::size_t{threads}}) {
      auto answers = weir::empty<int>(s, {threads, 4});
      weir::launch_blocks(s, {.blocks = 1, .threads = threads}, AskThreads{}, limit, weir::out(answers));
      const std::vector<int> found = answers.to_host();
      for (std::size_t t = 0; t < threads; ++t) {
        ASSERT_EQ(found[4 * t], limit > 0 ? 1 : 0) << limit << " of " << threads;
        ASSERT_EQ(found[4 * t + 1], limit == threads ? 1 : 0) << limit << " of " << threads;
        ASSERT_EQ(found[4 * t + 2], static_cast<int>(limit)) << limit << " of " << threads;
        ASSERT_EQ(found[4 * t + 3], static_cast<int>(threads - limit)) << limit << " of " << threads;
      }
    }
  }
}

/// Operations of two types right behind one another, with nothing else between them, more often than there is memory for.
struct ManyInARow {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<std::int64_t> result) const {
    const auto own = block.each_own<std::int64_t>(1);
    for (int round = 0; round < 200; ++round) {
      const std::int64_t sum = block.reduce(own);
      const auto before = block.exclusive_scan(own);
      const auto largest = block.reduce(
          [&](std::size_t t) { return static_cast<std::uint8_t>((t + static_cast<std::size_t>(round)) % 200); },
          weir::Maximum{});
      const std::int64_t last = block.broadcast(before, block.threads() - 1);
      const std::int64_t first = block.broadcast([&](std::size_t t) { return own[t]; }, 0);
      block.each([&](std::size_t t) {
        // 1 in every thread stays 1.
        own[t] = sum - last - before[t] + static_cast<std::int64_t>(t) * first + (largest < 200 ? 0 : 1);
      });
    }
    block.each([&](std::size_t t) { result[block.index() * block.threads() + t] = own[t]; });
  }
};

TEST_P(LaunchTogether, operations_follow_each_other_without_phases_between) {
  weir::Stream s(device());
  for (const std::uint32_t threads : sizes) {
    auto result = weir::empty<std::int64_t>(s, 4 * threads);
    weir::launch_blocks(s, {.blocks = 4, .threads = threads}, ManyInARow{}, weir::out(result));
    EXPECT_EQ(result.to_host(), std::vector<std::int64_t>(4 * threads, 1)) << threads;
  }
}

struct AskTooFar {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    x[0] = block.broadcast([](std::size_t) { return 1; }, block.threads());
  }
};

TEST_P(LaunchTogether, a_broadcast_from_a_thread_that_is_not_there_fails) {
  if (on("cuda")) GTEST_SKIP() << "a device function cannot throw";
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 1);
  weir::launch_blocks(s, {.blocks = 1, .threads = 8}, AskTooFar{}, weir::inout(x));
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->errc(), weir::Errc::kernel_failed);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { std::rethrow_exception(error->cause()); },
                         {"weir::Block::broadcast", "thread 8", "8 threads"}));
}

}  // namespace
}  // namespace weir_test
