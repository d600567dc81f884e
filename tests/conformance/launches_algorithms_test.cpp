// transform, reduce and inclusive_scan against a serial reference, at the sizes where their parts begin and end.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class Algorithms : public AnyDevice {
 protected:
  static std::vector<std::size_t> sizes() { return {1, 2, 4095, 4096, 4097, 8192, 12'289, 1'000'000}; }
  static std::vector<std::int64_t> values(std::size_t n) {
    std::vector<std::int64_t> all(n);
    std::uint64_t state = 12345;
    for (std::int64_t& v : all) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      v = static_cast<std::int64_t>(state >> 40) - 8'000'000;
    }
    return all;
  }
};
ON_EVERY_DEVICE(Algorithms);

struct Twofold {
  WEIR_KERNEL std::int64_t operator()(std::int64_t v) const { return 2 * v; }
};

template <class Op>
void expect_reduced(weir::Device device, const std::vector<std::int64_t>& values, Op op) {
  weir::Stream s(device);
  const auto x = weir::from(s, values);
  auto result = weir::zeros<std::int64_t>(s, 1);
  weir::reduce(s, x, result, op);
  EXPECT_EQ(result.to_host()[0], std::accumulate(values.begin() + 1, values.end(), values[0], op)) << values.size();
}

TEST_P(Algorithms, N3_reduce_equals_the_serial_sum) {
  for (const std::size_t n : sizes()) expect_reduced(device(), values(n), weir::Plus{});
}
TEST_P(Algorithms, reduce_takes_any_associative_operator) {
  for (const std::size_t n : sizes()) {
    expect_reduced(device(), values(n), weir::Minimum{});
    expect_reduced(device(), values(n), weir::Maximum{});
  }
  expect_reduced(device(), std::vector<std::int64_t>(20, 3), weir::Multiplies{});
}

struct First {
  template <class T>
  WEIR_KERNEL T operator()(const T& a, const T&) const {
    return a;
  }
};
struct Last {
  template <class T>
  WEIR_KERNEL T operator()(const T&, const T& b) const {
    return b;
  }
};
TEST_P(Algorithms, reduce_keeps_the_order_of_an_operator_that_does_not_commute) {
  for (const std::size_t n : sizes()) {
    expect_reduced(device(), values(n), First{});
    expect_reduced(device(), values(n), Last{});
  }
}

TEST_P(Algorithms, reduce_in_floating_point_is_the_same_each_time) {
  weir::Stream s(device());
  std::vector<float> parts(1'000'000);
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = 1.0f / static_cast<float>(i + 1);
  const auto x = weir::from(s, parts);
  auto result = weir::zeros<float>(s, 1);
  weir::reduce(s, x, result);
  const float first = result.to_host()[0];
  EXPECT_NEAR(first, 14.39f, 0.01f);
  for (int round = 0; round < 10; ++round) {
    weir::reduce(s, x, result);
    EXPECT_EQ(result.to_host()[0], first);
  }
}

TEST_P(Algorithms, inclusive_scan_equals_the_serial_one) {
  for (const std::size_t n : sizes()) {
    weir::Stream s(device());
    const std::vector<std::int64_t> from = values(n);
    std::vector<std::int64_t> expected(n);
    std::partial_sum(from.begin(), from.end(), expected.begin());
    auto x = weir::from(s, from);
    auto y = weir::empty<std::int64_t>(s, n);
    weir::inclusive_scan(s, x, y);
    EXPECT_TRUE(y.to_host() == expected) << n;
    weir::inclusive_scan(s, x, x);
    EXPECT_TRUE(x.to_host() == expected) << n << ", in place";
  }
}

TEST_P(Algorithms, inclusive_scan_takes_any_associative_operator) {
  for (const std::size_t n : sizes()) {
    weir::Stream s(device());
    const std::vector<std::int64_t> from = values(n);
    std::vector<std::int64_t> expected(n);
    std::partial_sum(from.begin(), from.end(), expected.begin(), weir::Maximum{});
    auto x = weir::from(s, from);
    auto y = weir::empty<std::int64_t>(s, n);
    weir::inclusive_scan(s, x, y, weir::Maximum{});
    EXPECT_TRUE(y.to_host() == expected) << n;
  }
}

struct Square {
  WEIR_KERNEL double operator()(std::int64_t v) const { return static_cast<double>(v) * static_cast<double>(v); }
};
TEST_P(Algorithms, transform_converts_element_by_element) {
  for (const std::size_t n : sizes()) {
    weir::Stream s(device());
    const std::vector<std::int64_t> from = values(n);
    const auto x = weir::from(s, from);
    auto y = weir::empty<double>(s, n);
    weir::transform(s, x, y, Square{});
    std::vector<double> expected(n);
    std::transform(from.begin(), from.end(), expected.begin(), Square{});
    EXPECT_TRUE(y.to_host() == expected) << n;
  }
}

TEST_P(Algorithms, transform_of_two_inputs_and_in_place) {
  for (const std::size_t n : sizes()) {
    weir::Stream s(device());
    const std::vector<std::int64_t> from = values(n);
    const auto a = weir::from(s, from);
    auto b = weir::from(s, from);
    weir::transform(s, a, b, b, weir::Plus{});
    std::vector<std::int64_t> expected = from;
    for (std::int64_t& v : expected) v *= 2;
    EXPECT_TRUE(b.to_host() == expected) << n;
  }
}

TEST_P(Algorithms, results_in_other_places_of_an_operand_are_refused) {
  weir::Stream s(device());
  const auto x = weir::full<std::int64_t>(s, 100, 1);
  const auto from = x.slice(0, 50);
  const auto to = x.slice(1, 51);
  const auto refused = [&](std::string_view call, auto&& f) {
    return fails_with(weir::Errc::overlapping, f, {call, "launches_algorithms_test"});
  };
  EXPECT_TRUE(refused("weir::transform", [&] { weir::transform(s, from, to, Twofold{}); }));
  EXPECT_TRUE(refused("weir::transform", [&] { weir::transform(s, to, from, to, weir::Plus{}); }));
  EXPECT_TRUE(refused("weir::inclusive_scan", [&] { weir::inclusive_scan(s, from, to); }));
  EXPECT_TRUE(refused("weir::exclusive_scan", [&] { weir::exclusive_scan(s, from, x.slice({{0, 100, 2}})); }));
  weir::inclusive_scan(s, from, from);
  weir::transform(s, from, x.slice(50, 100), Twofold{});
  EXPECT_EQ(x.to_host()[99], 100);
}

TEST_P(Algorithms, nothing_to_do_is_no_error_but_nothing_to_reduce_is) {
  weir::Stream s(device());
  auto none = weir::empty<std::int64_t>(s, 0);
  auto result = weir::full<std::int64_t>(s, 1, 42);
  weir::transform(s, none, none, Square{});
  weir::inclusive_scan(s, none, none);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::reduce(s, none, result); }, {"reduce"}));
  EXPECT_EQ(result.to_host()[0], 42);
}

TEST_P(Algorithms, sizes_that_do_not_fit_are_refused) {
  weir::Stream s(device());
  auto three = weir::zeros<std::int64_t>(s, 3);
  auto four = weir::zeros<std::int64_t>(s, 4);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::transform(s, three, four, Square{}); }, {"transform"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::wrong_shape, [&] { weir::transform(s, three, four, four, weir::Plus{}); }, {"transform"}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::inclusive_scan(s, three, four); }, {"inclusive_scan"}));
}

TEST_P(Algorithms, slices_are_inputs_and_outputs) {
  weir::Stream s(device());
  auto x = weir::full<std::int64_t>(s, 10'000, 1);
  auto sums = weir::zeros<std::int64_t>(s, 2);
  weir::reduce(s, x.slice(0, 3000), sums.slice(0, 1));
  weir::reduce(s, x.slice({{0, 10'000, 2}}), sums.slice(1, 2));
  EXPECT_EQ(sums.to_host(), (std::vector<std::int64_t>{3000, 5000}));
}

//  s: [hold ......][transform][scan][reduce]
TEST_P(Algorithms, N1_algorithms_are_asynchronous_and_in_stream_order) {
  Gate gate;
  weir::Stream s(device());
  auto x = weir::full<std::int64_t>(s, 10'000, 1);
  auto result = weir::zeros<std::int64_t>(weir::pinned, 1);
  s.synchronize();
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::transform(s, x, x, x, weir::Plus{});
    weir::inclusive_scan(s, x, x);
    weir::reduce(s, x, result, weir::Maximum{});
  }));
  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(result[0], 20'000);
}

}  // namespace
}  // namespace weir_test
