// sort and sort_by_key against the standard library's stable sort, at the sizes where their parts begin and end.
#include <algorithm>
#include <cmath>
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

/// A key that is no number, with what tells equal ones apart.
struct Card {
  std::int32_t rank;
  std::int32_t place;
  friend bool operator==(const Card&, const Card&) = default;
};
struct LowerRank {
  WEIR_KERNEL bool operator()(const Card& a, const Card& b) const { return a.rank < b.rank; }
};
struct ByLastDigit {
  WEIR_KERNEL bool operator()(std::int32_t a, std::int32_t b) const { return a % 10 < b % 10; }
};

class Sorting : public AnyDevice {
 protected:
  static std::vector<std::size_t> sizes() {
    return {0, 1, 2, 15, 16, 17, 33, 4095, 4096, 4097, 8191, 8192, 8193, 16'385, 100'003};
  }
  static std::uint64_t next(std::uint64_t& state) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 24;
  }
  template <class T>
  static std::vector<T> values(std::size_t n, std::uint64_t range) {
    std::vector<T> all(n);
    std::uint64_t state = n;
    for (T& v : all)
      v = static_cast<T>(static_cast<std::int64_t>(next(state) % range) - static_cast<std::int64_t>(range / 2));
    return all;
  }

  template <class T, class Compare>
  void expect_sorted(const std::vector<T>& from, Compare less) {
    const weir::Stream s(device());
    const auto x = weir::from(s, from);
    weir::sort(s, x, less);
    std::vector<T> expected = from;
    std::stable_sort(expected.begin(), expected.end(), less);
    EXPECT_TRUE(x.to_host() == expected) << from.size();
  }
  template <class T>
  void expect_sorted_both_ways(std::uint64_t range) {
    for (const std::size_t n : sizes()) {
      expect_sorted(values<T>(n, range), weir::Less{});
      expect_sorted(values<T>(n, range), weir::Greater{});
    }
  }
  template <class K, class Compare>
  void expect_sorted_by_key(const std::vector<K>& keys, Compare less) {
    std::vector<double> places(keys.size());
    std::iota(places.begin(), places.end(), 0.0);
    const weir::Stream s(device());
    const auto k = weir::from(s, keys);
    const auto v = weir::from(s, places);
    weir::sort_by_key(s, k, v, less);
    std::stable_sort(places.begin(), places.end(), [&](double a, double b) {
      return less(keys[static_cast<std::size_t>(a)], keys[static_cast<std::size_t>(b)]);
    });
    std::vector<K> expected;
    for (const double place : places) expected.push_back(keys[static_cast<std::size_t>(place)]);
    EXPECT_TRUE(k.to_host() == expected) << keys.size();
    EXPECT_TRUE(v.to_host() == places) << keys.size();
  }
};
ON_EVERY_DEVICE(Sorting);

TEST_P(Sorting, integers) { expect_sorted_both_ways<std::int32_t>(1'000); }

TEST_P(Sorting, floating_point) { expect_sorted_both_ways<float>(1'000'000); }

#if !defined(__CUDACC__)  // each of them is seconds of nvcc's time, for CUB's code
TEST_P(Sorting, numbers_of_every_width) {
  expect_sorted_both_ways<std::int8_t>(256);
  expect_sorted_both_ways<std::uint16_t>(65'536);
  expect_sorted_both_ways<std::uint32_t>(std::uint64_t{1} << 32);
  expect_sorted_both_ways<std::int64_t>(std::uint64_t{1} << 40);
  expect_sorted_both_ways<double>(std::uint64_t{1} << 40);
}
#endif

TEST_P(Sorting, infinities_zeros_and_what_is_no_number) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::size_t n : {std::size_t{9}, std::size_t{4'096}, std::size_t{20'000}, std::size_t{50'000}}) {
    std::vector<float> all = values<float>(n, 1000);
    all[3] = infinity;
    all[4] = -infinity;
    all[5] = -0.0f;
    all[n - 1] = std::numeric_limits<float>::denorm_min();
    expect_sorted(all, weir::Less{});
    all[7] = std::copysign(nan, 1.0f);
    const weir::Stream s(device());
    const auto x = weir::from(s, all);
    weir::sort(s, x);
    const std::vector<float> sorted = x.to_host();
    EXPECT_TRUE(std::isnan(sorted.back()));
    EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end() - 1)) << n;
    const auto places = weir::zeros<std::int32_t>(s, n);
    weir::copy(s, x, all);
    weir::sort_by_key(s, x, places, weir::Greater{});
    const std::vector<float> down = x.to_host();
    EXPECT_TRUE(std::isnan(down.front()));
    EXPECT_TRUE(std::is_sorted(down.begin() + 1, down.end(), weir::Greater{})) << n;
  }
}

TEST_P(Sorting, by_any_order_and_of_any_type) {
  for (const std::size_t n : sizes()) {
    expect_sorted(values<std::int32_t>(n, 1'000'000), ByLastDigit{});
    std::vector<Card> cards;
    std::uint64_t state = 1;
    for (std::size_t i = 0; i < n; ++i) {
      cards.push_back({static_cast<std::int32_t>(next(state) % 13), static_cast<std::int32_t>(i)});
    }
    expect_sorted(cards, LowerRank{});
  }
}

TEST_P(Sorting, moves_values_with_their_keys_and_keeps_equal_keys_in_order) {
  for (const std::size_t n : sizes()) {
    expect_sorted_by_key(values<std::int32_t>(n, 100), weir::Less{});
    expect_sorted_by_key(values<float>(n, 50), weir::Greater{});
    expect_sorted_by_key(values<std::int32_t>(n, 1'000), ByLastDigit{});
  }
}

TEST_P(Sorting, sorted_reversed_and_equal_elements) {
  for (const std::size_t n : {std::size_t{5'000}, std::size_t{40'000}}) {
    std::vector<std::int32_t> up(n);
    std::iota(up.begin(), up.end(), -100);
    expect_sorted(up, weir::Less{});
    expect_sorted(up, weir::Greater{});
    expect_sorted(up, ByLastDigit{});
    expect_sorted(std::vector<std::int32_t>(n, 7), weir::Less{});
  }
}

TEST_P(Sorting, slices_with_strides) {
  const weir::Stream s(device());
  std::vector<std::int32_t> from = values<std::int32_t>(20'001, 100'000);
  const auto x = weir::from(s, from);
  weir::sort(s, x.slice({{0, 20'001, 2}}));
  std::vector<std::int32_t> every_second;
  for (std::size_t i = 0; i < from.size(); i += 2) every_second.push_back(from[i]);
  std::sort(every_second.begin(), every_second.end());
  for (std::size_t i = 0; i < from.size(); i += 2) from[i] = every_second[i / 2];
  EXPECT_TRUE(x.to_host() == from);
}

TEST_P(Sorting, keys_and_values_may_stand_between_each_other) {
  const weir::Stream s(device());
  const auto x = weir::from(s, {3.0f, 30.0f, 1.0f, 10.0f, 2.0f, 20.0f});
  weir::sort_by_key(s, x.slice({{0, 6, 2}}), x.slice({{1, 6, 2}}));
  EXPECT_EQ(x.to_host(), (std::vector<float>{1, 10, 2, 20, 3, 30}));
}

TEST_P(Sorting, what_does_not_fit_is_refused_and_changes_nothing) {
  const weir::Stream s(device());
  const auto plane = weir::zeros<float>(s, {3, 4});
  const auto three = weir::from(s, {3.0f, 2.0f, 1.0f});
  const auto four = weir::zeros<float>(s, 4);
  EXPECT_TRUE(
      fails_with(weir::Errc::wrong_shape, [&] { weir::sort(s, plane); }, {"weir::sort", "algorithms_sort_test"}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::sort_by_key(s, three, four); },
                         {"weir::sort_by_key", "3 and 4", "algorithms_sort_test"}));
  EXPECT_TRUE(fails_with(weir::Errc::overlapping, [&] { weir::sort_by_key(s, three, three); },
                         {"weir::sort_by_key", "share memory", "algorithms_sort_test"}));
  EXPECT_EQ(three.to_host(), (std::vector<float>{3, 2, 1}));
}

//  s: [hold ......][sort by bits][sort by merges][sort by key]
TEST_P(Sorting, is_asynchronous_and_in_stream_order) {
  Gate gate;
  const weir::Stream s(device());
  const std::vector<std::int32_t> from = values<std::int32_t>(50'000, 1'000'000);
  const auto x = weir::from(s, from);
  const auto y = weir::from(s, from);
  s.synchronize();
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::sort(s, x);
    weir::sort(s, y, ByLastDigit{});
    weir::sort_by_key(s, y, x, weir::Greater{});
  }));
  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  gate.open();
  std::vector<std::int32_t> keys = from, expected = from;
  std::sort(keys.begin(), keys.end(), weir::Greater{});
  EXPECT_TRUE(y.to_host() == keys);
  std::vector<std::int32_t> first = x.to_host();
  std::sort(first.begin(), first.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_TRUE(first == expected);
}

}  // namespace
}  // namespace weir_test
