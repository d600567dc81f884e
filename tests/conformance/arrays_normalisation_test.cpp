// The normalisation pipeline a <- a / sum(a): ten arrays on ten streams give what they give on one (N3).
#include <cmath>
#include <random>

#include "arrays_support.hpp"

using namespace weir_test;

class Normalisation : public AnyDevice {
 protected:
  static constexpr std::size_t threads = 128;
  static constexpr std::size_t blocks = 32;

  static std::vector<float> random_values(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(0.0f, 1.0f);
    std::vector<float> values(n);
    for (float& value : values) value = uniform(random);
    return values;
  }
};
ON_EVERY_DEVICE(Normalisation);

namespace {

/// Every thread sums every (blocks * threads)-th element; the block adds its threads' sums in shared memory.
struct PartialSums {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> partial) const {
    const auto sums = block.shared<float>(block.threads());
    block.each([&](std::size_t thread) {
      float sum = 0.0f;
      for (std::size_t i = block.index() * block.threads() + thread; i < x.size();
           i += block.count() * block.threads()) {
        sum += x[i];
      }
      sums[thread] = sum;
    });
    for (std::size_t half = block.threads() / 2; half > 0; half /= 2) {
      block.each([&](std::size_t thread) {
        if (thread < half) sums[thread] += sums[thread + half];
      });
    }
    block.each([&](std::size_t thread) {
      if (thread == 0) partial[block.index()] = sums[0];
    });
  }
};
struct FinalSum {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float> partial, weir::View<float> sum) const {
    float total = 0.0f;
    for (std::size_t i = 0; i < partial.size(); ++i) total += partial[i];
    sum[0] = total;
  }
};
struct Divide {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x, weir::View<const float> sum) const { x[i] /= sum[0]; }
};

/// Three kernels, and a copy each way, in the order of one stream. The host waits nowhere.
void normalise(weir::StreamRef stream, const weir::Array<float>& host_array, std::size_t blocks, std::size_t threads) {
  const std::size_t n = host_array.size();
  auto x = weir::empty<float>(stream, n);
  auto partial = weir::empty<float>(stream, blocks);
  auto sum = weir::empty<float>(stream, 1);
  weir::copy(stream, x, host_array);
  weir::launch_blocks(
      stream,
      {.blocks = blocks, .threads = static_cast<std::uint32_t>(threads), .shared_bytes = threads * sizeof(float)},
      PartialSums{}, weir::in(x), weir::out(partial));
  weir::launch(stream, 1, FinalSum{}, weir::in(partial), weir::out(sum));
  weir::launch(stream, n, Divide{}, weir::inout(x), weir::in(sum));
  weir::copy(stream, host_array, x);
}

}  // namespace

// One stream:   [h2d][partial][sum][divide][d2h]  [h2d][partial][sum][divide][d2h]  ...
// Ten streams:  [h2d][partial][sum][divide][d2h]
//               [h2d][partial][sum][divide][d2h]
//               ...
TEST_P(Normalisation, of_ten_arrays_on_ten_streams_equals_that_on_one) {
  constexpr std::size_t n = 100003;
  constexpr unsigned count = 10;
  const auto run = [&](std::size_t stream_count) {
    std::vector<weir::Stream> streams;
    for (std::size_t s = 0; s < stream_count; ++s) streams.emplace_back(device());
    std::vector<weir::Array<float>> arrays;
    for (unsigned k = 0; k < count; ++k) arrays.push_back(weir::from(weir::pinned, random_values(n, k)));
    for (unsigned k = 0; k < count; ++k) normalise(streams[k % stream_count], arrays[k], blocks, threads);
    for (const weir::Stream& stream : streams) stream.synchronize();
    std::vector<std::vector<float>> results;
    for (const auto& array : arrays) results.push_back(host_values(array));
    return results;
  };
  const auto one = run(1);
  const auto ten = run(10);
  EXPECT_EQ(one, ten);
  for (unsigned k = 0; k < count; ++k) {
    double sum = 0.0, total = 0.0;
    const std::vector<float> values = random_values(n, k);
    for (float value : values) sum += value;
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_NEAR(one[k][i], values[i] / sum, 1e-5 * values[i] / sum + 1e-12);
      total += one[k][i];
    }
    EXPECT_NEAR(total, 1.0, 1e-4);
  }
}

// s: [hold]--[h2d][partial][sum][divide][d2h]     all of it enqueued while the gate is shut
TEST_P(Normalisation, is_enqueued_without_waiting) {
  weir::Stream stream(device());
  const auto values = weir::full<float>(weir::pinned, 4096, 2.0f);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { normalise(stream, values, blocks, threads); }));
  EXPECT_EQ(values[0], 2.0f);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(values), std::vector<float>(4096, 1.0f / 4096.0f));
}

// The same with the library's own reduction.
TEST_P(Normalisation, by_the_reduction_of_the_library) {
  weir::Stream stream(device());
  const std::vector<float> values = random_values(50000, 3);
  auto x = weir::from(stream, values);
  auto sum = weir::empty<float>(stream, 1);
  weir::reduce(stream, x, sum);
  weir::launch(stream, x.size(), Divide{}, weir::inout(x), weir::in(sum));
  double total = 0.0;
  for (float value : x.to_host()) total += value;
  EXPECT_NEAR(total, 1.0, 1e-4);
}
