// Programs of NVIDIA's samples that compute, written anew with Weir and checked as the samples check themselves.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

using namespace weir_test;

namespace port_algorithms {

constexpr std::uint32_t tile = 16;

/// A tile goes through the shared memory of a block, so that rows are read and rows are written.
struct Transpose {
  std::size_t rows, columns;

  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> from, weir::View<float> to) const {
    const weir::View<float> shared = block.shared<float>(tile * (tile + 1));
    const std::size_t across = (columns + tile - 1) / tile;
    const std::size_t top = block.index() / across * tile, left = block.index() % across * tile;
    block.each([&](std::size_t thread) {
      const std::size_t row = thread / tile, column = thread % tile;
      if (top + row < rows && left + column < columns)
        shared[column * (tile + 1) + row] = from[(top + row) * columns + left + column];
    });
    block.each([&](std::size_t thread) {
      const std::size_t row = thread / tile, column = thread % tile;
      if (left + row < columns && top + column < rows)
        to[(left + row) * rows + top + column] = shared[row * (tile + 1) + column];
    });
  }
};

/// C = A B, tile by tile.
struct MatrixMultiply {
  std::size_t width_a, width_b;

  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> a, weir::View<const float> b,
                              weir::View<float> c) const {
    const weir::View<float> tile_a = block.shared<float>(tile * tile), tile_b = block.shared<float>(tile * tile);
    const std::size_t across = width_b / tile;
    const std::size_t top = block.index() / across * tile, left = block.index() % across * tile;
    auto sums = block.each_own<float>(0.0f);
    for (std::size_t at = 0; at < width_a; at += tile) {
      block.each([&](std::size_t thread) {
        const std::size_t row = thread / tile, column = thread % tile;
        tile_a[thread] = a[(top + row) * width_a + at + column];
        tile_b[thread] = b[(at + row) * width_b + left + column];
      });
      block.each([&](std::size_t thread) {
        const std::size_t row = thread / tile, column = thread % tile;
        for (std::size_t k = 0; k < tile; ++k) sums[thread] += tile_a[row * tile + k] * tile_b[k * tile + column];
      });
    }
    block.each([&](std::size_t thread) { c[(top + thread / tile) * width_b + left + thread % tile] = sums[thread]; });
  }
};

constexpr std::size_t bins = 256;

/// A histogram of each block's own, added to all others' at its end.
struct Histogram {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const std::uint8_t> data,
                              weir::View<std::uint32_t> counts) const {
    const weir::View<std::uint32_t> own = block.shared<std::uint32_t>(bins);
    block.each([&](std::size_t thread) { own[thread] = 0; });
    const std::size_t length = (data.size() + block.count() - 1) / block.count();
    const std::size_t begin = block.index() * length;
    const std::size_t end = begin + length < data.size() ? begin + length : data.size();
    block.each([&](std::size_t thread) {
      for (std::size_t i = begin + thread; i < end; i += block.threads()) weir::atomic_add(own[data[i]], 1);
    });
    block.each([&](std::size_t thread) { weir::atomic_add(counts[thread], own[thread]); });
  }
};

WEIR_KERNEL inline double normal_distribution(double d) { return 0.5 * erfc(-d * 0.70710678118654752440); }

/// Prices of European options.
struct BlackScholes {
  double rate, volatility;

  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> price, weir::View<const float> strike,
                              weir::View<const float> years, weir::View<float> call, weir::View<float> put) const {
    const double s = static_cast<double>(price[i]), x = static_cast<double>(strike[i]),
                 t = static_cast<double>(years[i]);
    const double root = sqrt(t);
    const double d1 = (log(s / x) + (rate + 0.5 * volatility * volatility) * t) / (volatility * root);
    const double d2 = d1 - volatility * root;
    const double discount = exp(-rate * t);
    call[i] = static_cast<float>(s * normal_distribution(d1) - x * discount * normal_distribution(d2));
    put[i] = static_cast<float>(x * discount * normal_distribution(-d2) - s * normal_distribution(-d1));
  }
};

constexpr int radius = 8;

/// Along rows (stride 1) or columns (stride width).
struct Convolve {
  std::size_t width, height;
  bool along_rows;

  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> from, weir::View<const float> weights,
                              weir::View<float> to) const {
    const auto row = static_cast<long long>(i / width), column = static_cast<long long>(i % width);
    float sum = 0;
    for (int k = -radius; k <= radius; ++k) {
      const long long r = along_rows ? row : row + k, c = along_rows ? column + k : column;
      if (r < 0 || c < 0 || r >= static_cast<long long>(height) || c >= static_cast<long long>(width)) continue;
      sum += from[static_cast<std::size_t>(r) * width + static_cast<std::size_t>(c)] *
             weights[static_cast<std::size_t>(radius - k)];
    }
    to[i] = sum;
  }
};

inline std::vector<float> some_numbers(std::size_t count, float low, float high) {
  std::vector<float> numbers(count);
  std::uint32_t state = 5347;
  for (float& number : numbers) {
    state = state * 1664525u + 1013904223u;
    number = low + (high - low) * static_cast<float>(state >> 8) / static_cast<float>(1 << 24);
  }
  return numbers;
}

}  // namespace port_algorithms

using namespace port_algorithms;

class PortOfAlgorithms : public AnyDevice {};
ON_EVERY_DEVICE(PortOfAlgorithms);

TEST_P(PortOfAlgorithms, reduction) {
  const std::vector<float> numbers = some_numbers(1 << 20, 0, 1);
  double sum = 0, lost = 0;  // Kahan's
  for (const float number : numbers) {
    const double y = static_cast<double>(number) - lost, t = sum + y;
    lost = (t - sum) - y;
    sum = t;
  }
  const weir::Stream s(device());
  const auto x = weir::from(s, numbers);
  auto result = weir::zeros<float>(s, 1), greatest = weir::zeros<float>(s, 1);
  weir::reduce(s, x, result);
  weir::reduce(s, x, greatest, weir::Maximum{});
  EXPECT_NEAR(static_cast<double>(result.to_host()[0]), sum, 1e-8 * sum * static_cast<double>(numbers.size()));
  EXPECT_NEAR(static_cast<double>(result.to_host()[0]), sum, 1e-4 * sum);
  EXPECT_EQ(greatest.to_host()[0], *std::max_element(numbers.begin(), numbers.end()));
}

TEST_P(PortOfAlgorithms, scan) {
  constexpr std::size_t n = 100'003;
  std::vector<std::uint32_t> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<std::uint32_t>(i * 2654435761u);
  std::vector<std::uint32_t> expected(n);
  std::partial_sum(values.begin(), values.end(), expected.begin());
  const weir::Stream s(device());
  const auto x = weir::from(s, values);
  auto y = weir::empty<std::uint32_t>(s, n);
  weir::inclusive_scan(s, x, y);
  EXPECT_EQ(y.to_host(), expected);
}

TEST_P(PortOfAlgorithms, transpose) {
  constexpr std::size_t rows = 203, columns = 129;
  const std::vector<float> numbers = some_numbers(rows * columns, -1, 1);
  const weir::Stream s(device());
  const auto x = weir::from(s, numbers);
  auto y = weir::empty<float>(s, rows * columns);
  weir::launch_blocks(s,
                      {.blocks = ((rows + tile - 1) / tile) * ((columns + tile - 1) / tile),
                       .threads = tile * tile,
                       .shared_bytes = tile * (tile + 1) * sizeof(float)},
                      Transpose{rows, columns}, weir::in(x), weir::out(y));
  const std::vector<float> found = y.to_host();
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column)
      ASSERT_EQ(found[column * rows + row], numbers[row * columns + column]) << row << ", " << column;
  }
}

TEST_P(PortOfAlgorithms, matrixMul) {
  constexpr std::size_t height = 5 * tile, width_a = 10 * tile, width_b = 8 * tile;
  constexpr float value = 0.01f;
  const weir::Stream s(device());
  const auto a = weir::ones<float>(s, height * width_a);
  const auto b = weir::full<float>(s, width_a * width_b, value);
  auto c = weir::empty<float>(s, height * width_b);
  weir::launch_blocks(s,
                      {.blocks = height / tile * (width_b / tile),
                       .threads = tile * tile,
                       .shared_bytes = 2 * tile * tile * sizeof(float)},
                      MatrixMultiply{width_a, width_b}, weir::in(a), weir::in(b), weir::out(c));
  for (const float found : c.to_host()) ASSERT_NEAR(found / (value * static_cast<float>(width_a)), 1, 1e-5);
}

TEST_P(PortOfAlgorithms, histogram) {
  constexpr std::size_t n = 1'000'003;
  std::vector<std::uint8_t> data(n);
  std::vector<std::uint32_t> expected(bins);
  std::uint32_t state = 2009;
  for (std::uint8_t& one : data) {
    state = state * 1664525u + 1013904223u;
    one = static_cast<std::uint8_t>(state >> 24);
    ++expected[one];
  }
  const weir::Stream s(device());
  const auto x = weir::from(s, data);
  auto counts = weir::zeros<std::uint32_t>(s, bins);
  weir::launch_blocks(s, {.blocks = 64, .threads = bins, .shared_bytes = bins * sizeof(std::uint32_t)}, Histogram{},
                      weir::in(x), weir::inout(counts));
  const std::vector<std::uint32_t> found = counts.to_host();
  EXPECT_EQ(found, expected);
  EXPECT_EQ(std::accumulate(found.begin(), found.end(), std::size_t{0}), n);
}

TEST_P(PortOfAlgorithms, BlackScholes) {
  constexpr std::size_t n = 40'000;
  constexpr double rate = 0.02, volatility = 0.30;
  const std::vector<float> price = some_numbers(n, 5, 30), strike = some_numbers(n, 1, 100),
                           years = some_numbers(n, 0.25f, 10);
  const weir::Stream s(device());
  const auto p = weir::from(s, price), k = weir::from(s, strike), t = weir::from(s, years);
  auto call = weir::empty<float>(s, n), put = weir::empty<float>(s, n);
  weir::launch(s, n, port_algorithms::BlackScholes{rate, volatility}, weir::in(p), weir::in(k), weir::in(t),
               weir::out(call), weir::out(put));
  const std::vector<float> calls = call.to_host(), puts = put.to_host();
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double x = static_cast<double>(strike[i]), price_of = static_cast<double>(price[i]),
                 time = static_cast<double>(years[i]);
    const double d1 =
        (std::log(price_of / x) + (rate + 0.5 * volatility * volatility) * time) / (volatility * std::sqrt(time));
    const double d2 = d1 - volatility * std::sqrt(time);
    const double expected = price_of * normal_distribution(d1) - x * std::exp(-rate * time) * normal_distribution(d2);
    difference += std::abs(static_cast<double>(calls[i]) - expected);
    all += std::abs(expected);
    // Who has the call, owes the put and the discounted strike has the share.
    ASSERT_NEAR(static_cast<double>(calls[i]) - static_cast<double>(puts[i]), price_of - x * std::exp(-rate * time),
                1e-4);
  }
  EXPECT_LT(difference / all, 1e-6);
}

TEST_P(PortOfAlgorithms, convolutionSeparable) {
  constexpr std::size_t width = 192, height = 128;
  const std::vector<float> image = some_numbers(width * height, 0, 16), weights = some_numbers(2 * radius + 1, 0, 16);
  const weir::Stream s(device());
  const auto from = weir::from(s, image), w = weir::from(s, weights);
  auto rows = weir::empty<float>(s, width * height), both = weir::empty<float>(s, width * height);
  weir::launch(s, width * height, Convolve{width, height, true}, weir::in(from), weir::in(w), weir::out(rows));
  weir::launch(s, width * height, Convolve{width, height, false}, weir::in(rows), weir::in(w), weir::out(both));
  const auto convolved = [&](const std::vector<double>& values, bool along_rows) {
    std::vector<double> made(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (int k = -radius; k <= radius; ++k) {
        const long row = static_cast<long>(i / width) + (along_rows ? 0 : k);
        const long column = static_cast<long>(i % width) + (along_rows ? k : 0);
        if (row < 0 || column < 0 || row >= static_cast<long>(height) || column >= static_cast<long>(width)) continue;
        made[i] += values[static_cast<std::size_t>(row) * width + static_cast<std::size_t>(column)] *
                   static_cast<double>(weights[static_cast<std::size_t>(radius - k)]);
      }
    }
    return made;
  };
  const std::vector<double> expected = convolved(convolved({image.begin(), image.end()}, true), false);
  const std::vector<float> found = both.to_host();
  double difference = 0, all = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    difference += (static_cast<double>(found[i]) - expected[i]) * (static_cast<double>(found[i]) - expected[i]);
    all += expected[i] * expected[i];
  }
  EXPECT_LT(std::sqrt(difference / all), 1e-6);
}
