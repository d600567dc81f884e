// select_if, partition, histogram, reduce_segments and reduce_by_key against serial references, at the sizes where their parts
// begin and end; for_each and exclusive_scan likewise.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using Values = std::vector<std::int64_t>;

struct IsOdd {
  WEIR_KERNEL bool operator()(std::int64_t v) const { return v % 2 != 0; }
};
struct IsThird {
  WEIR_KERNEL bool operator()(std::int64_t v) const { return v % 3 == 0; }
};
struct Always {
  bool answer;
  WEIR_KERNEL bool operator()(std::int64_t) const { return answer; }
};
struct Double {
  WEIR_KERNEL void operator()(std::int64_t& v) const { v *= 2; }
};
struct SumInto {
  weir::View<unsigned> sum;
  WEIR_KERNEL void operator()(const std::int64_t& v) const { weir::atomic_add(sum[0], static_cast<unsigned>(v)); }
};
/// Associative, and does not commute.
struct LastOf {
  template <class T>
  WEIR_KERNEL T operator()(const T&, const T& b) const {
    return b;
  }
};

class PartsOfArrays : public AnyDevice {
 protected:
  weir::Stream s{device()};

  static std::vector<std::size_t> sizes() { return {0, 1, 2, 4095, 4096, 4097, 8192, 12'289, 300'000}; }
  static Values values(std::size_t n, std::uint64_t range) {
    Values all(n);
    std::uint64_t state = 12345 + n;
    for (std::int64_t& v : all) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<std::int64_t>((state >> 33) % range);
    }
    return all;
  }
};
ON_EVERY_DEVICE(PartsOfArrays);

TEST_P(PartsOfArrays, for_each_changes_or_reads_every_element) {
  for (const std::size_t n : sizes()) {
    Values from = values(n, 1000);
    const auto x = weir::from(s, from);
    weir::for_each(s, x, Double{});
    const auto sum = weir::zeros<unsigned>(s, 1);
    weir::for_each(s, x, SumInto{sum.view<1>()});
    unsigned expected = 0;
    for (std::int64_t& v : from) expected += static_cast<unsigned>(v *= 2);
    EXPECT_TRUE(x.to_host() == from) << n;
    EXPECT_EQ(sum.to_host()[0], expected) << n;
  }
}

TEST_P(PartsOfArrays, exclusive_scan_equals_the_serial_one) {
  for (const std::size_t n : sizes()) {
    const Values from = values(n, 1000);
    const auto x = weir::from(s, from);
    const auto y = weir::empty<std::int64_t>(s, n);
    Values expected(n);
    std::exclusive_scan(from.begin(), from.end(), expected.begin(), std::int64_t{0});
    weir::exclusive_scan(s, x, y);
    EXPECT_TRUE(y.to_host() == expected) << n;
    std::exclusive_scan(from.begin(), from.end(), expected.begin(), std::int64_t{500}, weir::Maximum{});
    weir::exclusive_scan(s, x, y, 500, weir::Maximum{});
    EXPECT_TRUE(y.to_host() == expected) << n;
    std::exclusive_scan(from.begin(), from.end(), expected.begin(), std::int64_t{-7}, LastOf{});
    weir::exclusive_scan(s, x, x, -7, LastOf{});
    EXPECT_TRUE(x.to_host() == expected) << n << ", in place";
  }
}

TEST_P(PartsOfArrays, select_if_keeps_the_order_and_the_rest) {
  for (const std::size_t n : sizes()) {
    const Values from = values(n, 1000);
    const auto x = weir::from(s, from);
    const auto count = weir::full<std::int32_t>(s, 1, -1);
    const auto check = [&](auto chosen) {
      const auto y = weir::full<std::int64_t>(s, n, -5);
      weir::select_if(s, x, y, count, chosen);
      Values expected;
      std::copy_if(from.begin(), from.end(), std::back_inserter(expected), chosen);
      EXPECT_EQ(count.to_host()[0], static_cast<std::int32_t>(expected.size())) << n;
      expected.resize(n, -5);
      EXPECT_TRUE(y.to_host() == expected) << n;
    };
    check(IsOdd{});
    check(Always{true});
    check(Always{false});
  }
}

TEST_P(PartsOfArrays, partition_is_stable_on_both_sides) {
  for (const std::size_t n : sizes()) {
    const Values from = values(n, 1000);
    const auto x = weir::from(s, from);
    const auto count = weir::full<std::int64_t>(s, 1, -1);
    const auto check = [&](auto chosen) {
      const auto y = weir::zeros<std::int64_t>(s, n);
      weir::partition(s, x, y, count, chosen);
      Values expected = from;
      const auto others = std::stable_partition(expected.begin(), expected.end(), chosen);
      EXPECT_EQ(count.to_host()[0], others - expected.begin()) << n;
      EXPECT_TRUE(y.to_host() == expected) << n;
    };
    check(IsOdd{});
    check(Always{true});
    check(Always{false});
  }
}

TEST_P(PartsOfArrays, choices_that_do_not_fit_are_refused) {
  const auto x = weir::zeros<std::int64_t>(s, 4);
  const auto y = weir::zeros<std::int64_t>(s, 4);
  const auto three = weir::zeros<std::int64_t>(s, 3);
  const auto none = weir::zeros<std::int64_t>(s, 0);
  const auto count = weir::zeros<std::int64_t>(s, 1);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::select_if(s, x, three, count, IsOdd{}); },
                         {"weir::select_if", "4 and 3", "algorithms_select_test"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::wrong_shape, [&] { weir::partition(s, x, y, none, IsOdd{}); }, {"weir::partition"}));
  EXPECT_TRUE(fails_with(weir::Errc::overlapping, [&] { weir::select_if(s, x, x, count, IsOdd{}); },
                         {"weir::select_if", "share memory", "algorithms_select_test"}));
  EXPECT_TRUE(fails_with(weir::Errc::overlapping, [&] { weir::partition(s, x, y, y.slice(2, 3), IsOdd{}); }));
}

template <class T>
std::vector<std::int32_t> counted(const std::vector<T>& x, std::size_t bins, T lower, T upper) {
  std::vector<std::int32_t> counts(bins);
  for (const T v : x) {
    if (v < lower || !(v < upper)) continue;
    // Exact: the values of these tests are small whole numbers.
    const auto wide = static_cast<std::int64_t>(v - lower) * static_cast<std::int64_t>(bins);
    ++counts[static_cast<std::size_t>(wide / static_cast<std::int64_t>(upper - lower))];
  }
  return counts;
}

TEST_P(PartsOfArrays, histogram_counts_into_bins_of_one_width) {
  for (const std::size_t n : sizes()) {
    for (const std::size_t bins : {std::size_t{1}, std::size_t{10}, std::size_t{256}, std::size_t{3'000}}) {
      const Values from = values(n, 1000);
      const auto x = weir::from(s, from);
      const auto counts = weir::full<std::int32_t>(s, bins, -1);
      weir::histogram(s, x, counts, 100, 900);
      EXPECT_TRUE(counts.to_host() == counted<std::int64_t>(from, bins, 100, 900)) << n << ", " << bins;
      const std::vector<float> parts(from.begin(), from.end());
      weir::histogram(s, weir::from(s, parts), counts, 0.0f, 1000.0f);
      if (1000 % bins != 0) continue;  // the edges are no whole numbers
      EXPECT_TRUE(counts.to_host() == counted<float>(parts, bins, 0, 1000)) << n << ", " << bins;
    }
  }
}

TEST_P(PartsOfArrays, histogram_of_the_widest_range_is_exact) {
  using Limits = std::numeric_limits<std::int64_t>;
  const auto x = weir::from(s, Values{Limits::min(), -1, 0, 1, Limits::max() - 1, Limits::max()});
  const auto halves = weir::zeros<std::int64_t>(s, 2);
  weir::histogram(s, x, halves, Limits::min(), Limits::max());
  EXPECT_EQ(halves.to_host(), (Values{2, 3}));  // the middle is half a step below 0, and the last is outside
  const std::vector<float> odd{std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0.5f,
                               1.0f};
  weir::histogram(s, weir::from(s, odd), halves, 0.0f, 1.0f);
  EXPECT_EQ(halves.to_host(), (Values{0, 1}));
}

TEST_P(PartsOfArrays, histogram_of_short_integers_can_count_their_greatest_value) {
  std::vector<std::uint8_t> bytes(512);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(i);
  const auto counts = weir::zeros<std::int32_t>(s, 256);
  weir::histogram(s, weir::from(s, bytes), counts, 0, 256);
  EXPECT_EQ(counts.to_host(), std::vector<std::int32_t>(256, 2));

  using Limits = std::numeric_limits<std::int32_t>;
  const std::vector<std::int32_t> ends{Limits::min(), -1, 0, Limits::max()};
  const auto halves = weir::zeros<std::int32_t>(s, 2);
  weir::histogram(s, weir::from(s, ends), halves, Limits::min(), std::int64_t{Limits::max()} + 1);
  EXPECT_EQ(halves.to_host(), (std::vector<std::int32_t>{2, 2}));
}

TEST_P(PartsOfArrays, histogram_far_from_zero_is_exact) {
  constexpr std::int64_t now = 1'700'000'000'000'000'000;
  constexpr std::uint64_t high = std::uint64_t{1} << 60;
  for (const std::int64_t width : {std::int64_t{10}, std::int64_t{1000}}) {
    Values times;
    std::vector<std::uint64_t> numbers;
    for (std::int64_t i = 0; i < 5 * width; ++i) {
      times.push_back(now + i % width);
      numbers.push_back(high + static_cast<std::uint64_t>(i % width));
    }
    const auto counts = weir::zeros<std::int32_t>(s, static_cast<std::size_t>(width));
    const std::vector<std::int32_t> expected(static_cast<std::size_t>(width), 5);
    weir::histogram(s, weir::from(s, times), counts, now, now + width);
    EXPECT_EQ(counts.to_host(), expected);
    weir::histogram(s, weir::from(s, numbers), counts, high, high + static_cast<std::uint64_t>(width));
    EXPECT_EQ(counts.to_host(), expected);
  }
}

TEST_P(PartsOfArrays, histogram_of_wide_ranges_is_exact_at_its_edges) {
  for (const std::int64_t width : {std::int64_t{1} << 33, std::int64_t{1} << 32, (std::int64_t{1} << 32) - 1,
                                   std::int64_t{999'999'937}, std::int64_t{65'537}, std::int64_t{1'000}}) {
    for (const std::int64_t bins : {1, 3, 255, 256, 999}) {
      constexpr std::int64_t lower = -1'000'000'007;
      Values from{lower - 1, lower + width};
      std::vector<std::int32_t> expected(static_cast<std::size_t>(bins));
      for (std::int64_t bin = 0; bin < bins; ++bin) {
        const std::int64_t first = (bin * width + bins - 1) / bins;
        const std::int64_t end = ((bin + 1) * width + bins - 1) / bins;
        from.insert(from.end(), {lower + first, lower + end - 1});
        expected[static_cast<std::size_t>(bin)] = 2;
      }
      const auto counts = weir::zeros<std::int32_t>(s, expected.size());
      weir::histogram(s, weir::from(s, from), counts, lower, lower + width);
      EXPECT_EQ(counts.to_host(), expected) << width << ", " << bins;
    }
  }
}

TEST_P(PartsOfArrays, histograms_without_bins_or_range_are_refused) {
  const auto x = weir::zeros<float>(s, 4);
  const auto counts = weir::zeros<std::int32_t>(s, 4);
  const auto none = weir::zeros<std::int32_t>(s, 0);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::histogram(s, x, none, 0, 1); }, {"weir::histogram"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { weir::histogram(s, x, counts, 1, 1); },
                         {"weir::histogram", "lower is not below upper", "algorithms_select_test"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value,
                         [&] { weir::histogram(s, x, counts, 0, std::numeric_limits<float>::quiet_NaN()); }));
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { weir::histogram(s, x, counts, -infinity, infinity); },
                         {"weir::histogram", "not a finite double"}));
}

TEST_P(PartsOfArrays, reduce_segments_reduces_each_by_its_offsets) {
  const Values from = values(10'000, 1000);
  const auto x = weir::from(s, from);
  const auto sum = [&](std::size_t begin, std::size_t end) {
    return std::accumulate(from.begin() + static_cast<std::ptrdiff_t>(begin),
                           from.begin() + static_cast<std::ptrdiff_t>(end), std::int64_t{0});
  };
  const auto offsets = weir::from(s, std::vector<std::int32_t>{0, 3, 3, 9'000, 10'000});
  const auto result = weir::empty<std::int64_t>(s, 4);
  weir::reduce_segments(s, x, offsets, result);
  EXPECT_EQ(result.to_host(), (Values{sum(0, 3), 0, sum(3, 9'000), sum(9'000, 10'000)}));
  weir::reduce_segments(s, x, offsets, result, -1, LastOf{});
  EXPECT_EQ(result.to_host(), (Values{from[2], -1, from[8'999], from[9'999]}));
  // What lies outside is cut off, and a segment that ends before it begins is empty.
  weir::copy(s, offsets, std::vector<std::int32_t>{-5, 2, 1, 9'999, 20'000});
  weir::reduce_segments(s, x, offsets, result);
  EXPECT_EQ(result.to_host(), (Values{sum(0, 2), 0, sum(1, 9'999), from[9'999]}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::reduce_segments(s, x, offsets, result.slice(0, 3)); },
                         {"weir::reduce_segments", "algorithms_select_test"}));
}

template <class Op>
void expect_reduced_by_key(weir::StreamRef s, const std::vector<std::int32_t>& keys, const Values& values, Op op) {
  std::vector<std::int32_t> unique;
  Values sums;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (i != 0 && keys[i] == keys[i - 1]) {
      sums.back() = op(sums.back(), values[i]);
    } else {
      unique.push_back(keys[i]);
      sums.push_back(values[i]);
    }
  }
  const std::size_t n = keys.size();
  const auto of_keys = weir::full<std::int32_t>(s, n, -1);
  const auto of_values = weir::full<std::int64_t>(s, n, -1);
  const auto count = weir::full<std::int32_t>(s, 1, -1);
  weir::reduce_by_key(s, weir::from(s, keys), weir::from(s, values), of_keys, of_values, count, op);
  EXPECT_EQ(count.to_host()[0], static_cast<std::int32_t>(unique.size())) << n;
  unique.resize(n, -1);
  sums.resize(n, -1);
  EXPECT_TRUE(of_keys.to_host() == unique) << n;
  EXPECT_TRUE(of_values.to_host() == sums) << n;
}

TEST_P(PartsOfArrays, reduce_by_key_reduces_runs_that_end_anywhere) {
  for (const std::size_t n : sizes()) {
    const Values from = values(n, 1000);
    for (const std::size_t run :
         {std::size_t{1}, std::size_t{2}, std::size_t{100}, std::size_t{4096}, std::size_t{9'999}, n + 1}) {
      std::vector<std::int32_t> keys(n);
      for (std::size_t i = 0; i < n; ++i) keys[i] = static_cast<std::int32_t>(i / run % 2);
      expect_reduced_by_key(s, keys, from, weir::Plus{});
      expect_reduced_by_key(s, keys, from, LastOf{});
    }
  }
}

TEST_P(PartsOfArrays, reduce_by_key_refuses_what_does_not_fit) {
  const auto keys = weir::zeros<std::int32_t>(s, 4);
  const auto unique = weir::zeros<std::int32_t>(s, 4);
  const auto values = weir::zeros<std::int64_t>(s, 4);
  const auto sums = weir::zeros<std::int64_t>(s, 4);
  const auto count = weir::zeros<std::int32_t>(s, 1);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape,
                         [&] { weir::reduce_by_key(s, keys, values.slice(0, 3), unique, sums, count); },
                         {"weir::reduce_by_key", "4 and 3", "algorithms_select_test"}));
  EXPECT_TRUE(fails_with(weir::Errc::overlapping, [&] { weir::reduce_by_key(s, keys, values, keys, sums, count); },
                         {"weir::reduce_by_key", "share memory"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::overlapping, [&] { weir::reduce_by_key(s, keys, values, unique, values, count); }));
}

//  s: [hold ......][for_each][scan][partition][histogram][select]
TEST_P(PartsOfArrays, are_worked_on_asynchronously_and_in_stream_order) {
  constexpr std::size_t n = 50'000;
  constexpr std::int64_t most = 200'000'000;
  Gate gate;
  Values sums = values(n, 1000);
  const auto x = weir::from(s, sums);
  const auto y = weir::zeros<std::int64_t>(s, n);
  const auto z = weir::zeros<std::int64_t>(s, n);
  const auto count = weir::zeros<std::int64_t>(s, 1);
  const auto bins = weir::zeros<std::int64_t>(s, 10);
  s.synchronize();
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::for_each(s, x, Double{});
    weir::exclusive_scan(s, x, y, 1);
    weir::partition(s, y, z, count, IsThird{});
    weir::histogram(s, z, bins, 0, most);
    weir::select_if(s, z, x, count, IsThird{});
  }));
  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  gate.open();
  for (std::int64_t& v : sums) v *= 2;
  std::exclusive_scan(sums.begin(), sums.end(), sums.begin(), std::int64_t{1});
  const std::vector<std::int32_t> in_bins = counted<std::int64_t>(sums, 10, 0, most);
  const auto others = std::stable_partition(sums.begin(), sums.end(), IsThird{});
  const auto chosen = static_cast<std::size_t>(others - sums.begin());
  EXPECT_TRUE(chosen > 0 && chosen < n);
  EXPECT_EQ(count.to_host(s)[0], others - sums.begin());
  EXPECT_TRUE(z.to_host(s) == sums);
  EXPECT_EQ(bins.to_host(s), Values(in_bins.begin(), in_bins.end()));
  EXPECT_TRUE(x.slice(0, chosen).to_host(s) == Values(sums.begin(), others));
}

}  // namespace
}  // namespace weir_test
