// What each call gives, against plain loops.
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::in;
using weir::inout;
using weir::out;

/// Small, so that no type overflows in a sum of seven, and different for each rank.
std::size_t value(std::size_t rank, std::size_t i) { return (3 * rank + i) % 5 + 1; }

template <class T, class F>
std::vector<T> plain(std::size_t count, F&& element) {
  std::vector<T> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = element(i);
  return made;
}

template <class T, class Op>
std::vector<T> folded(std::size_t ranks, std::size_t count, Op op) {
  return plain<T>(count, [&](std::size_t i) {
    auto sum = static_cast<T>(value(0, i));
    for (std::size_t r = 1; r < ranks; ++r) sum = op(sum, static_cast<T>(value(r, i)));
    return sum;
  });
}

template <class T, class Op>
void expect_reduced(const Ranks& ranks, std::size_t count, Op op, const std::vector<T>& expected) {
  const auto x = ranks.arrays<T>(count, value);
  const auto y = ranks.zeros<T>(count);
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    weir::all_reduce(ranks.streams[r], ranks.comms[r], in(x[r]), out(y[r]), op);
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<T> got = y[r].to_host();
    if (std::is_floating_point_v<T> && std::is_same_v<Op, weir::Average> && !on_cpu()) {
      // NCCL multiplies by the inverse of their number.
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto wanted = static_cast<double>(expected[i]);
        ASSERT_NEAR(static_cast<double>(got[i]), wanted, 4 * std::numeric_limits<T>::epsilon() * wanted) << i;
      }
      continue;
    }
    ASSERT_EQ(got, expected) << "rank " << r;
  }
}

template <class T>
void expect_every_reduction(std::size_t n, std::size_t count) {
  n = std::min(n, most_ranks());
  const Ranks ranks(n);
  expect_reduced<T>(ranks, count, weir::Plus{}, folded<T>(n, count, weir::Plus{}));
  expect_reduced<T>(ranks, count, weir::Multiplies{}, folded<T>(n, count, weir::Multiplies{}));
  expect_reduced<T>(ranks, count, weir::Minimum{}, folded<T>(n, count, weir::Minimum{}));
  expect_reduced<T>(ranks, count, weir::Maximum{}, folded<T>(n, count, weir::Maximum{}));
  auto average = folded<T>(n, count, weir::Plus{});
  for (T& one : average) one = static_cast<T>(one / static_cast<T>(n));
  expect_reduced<T>(ranks, count, weir::Average{}, average);
}

TEST(CollectivesValues, all_reduce_has_every_operation_for_every_type) {
  expect_every_reduction<std::int8_t>(3, 1000);
  expect_every_reduction<std::uint8_t>(3, 1000);
  expect_every_reduction<std::int16_t>(3, 1000);
  expect_every_reduction<std::uint16_t>(3, 1000);
  expect_every_reduction<std::int32_t>(7, 1000);
  expect_every_reduction<std::uint32_t>(3, 1000);
  expect_every_reduction<std::int64_t>(3, 1000);
  expect_every_reduction<std::uint64_t>(3, 1000);
  expect_every_reduction<float>(3, 1000);
  expect_every_reduction<double>(4, 1000);
}

/// Every call over `count` elements a rank.
void expect_every_call(std::size_t n, std::size_t count) {
  SCOPED_TRACE(std::to_string(n) + " ranks, " + std::to_string(count) + " elements");
  const Ranks ranks(n);
  const int root = static_cast<int>(n / 2);
  const auto r_of = [](std::size_t r) { return static_cast<int>(r); };
  const auto whole = [&](std::size_t r, std::size_t i) { return 1000 * r + i % 997; };  // of n * count elements
  const auto sum = folded<int>(n, count, weir::Plus{});
  const auto all = plain<int>(n * count, [&](std::size_t i) { return static_cast<int>(value(i / count, i % count)); });
  const auto x = ranks.arrays<int>(count, value);
  const auto wide = ranks.arrays<int>(n * count, whole);

  const auto in_place = ranks.arrays<int>(count, value);
  const auto spread = ranks.arrays<int>(count, value);
  const auto reduced = ranks.zeros<int>(count);
  const auto gathered = ranks.zeros<int>(n * count);
  const auto at_root = ranks.zeros<int>(n * count);
  const auto slice = ranks.zeros<int>(count);
  const auto scattered = ranks.zeros<int>(count);
  const auto exchanged = ranks.zeros<int>(n * count);
  for (std::size_t r = 0; r < n; ++r) {
    const weir::Stream& s = ranks.streams[r];
    const weir::Communicator& comm = ranks.comms[r];
    weir::all_reduce(s, comm, inout(in_place[r]));
    weir::broadcast(s, comm, inout(spread[r]), root);
    weir::reduce(s, comm, in(x[r]), out(reduced[r]), weir::Plus{}, root);
    weir::all_gather(s, comm, in(x[r]), out(gathered[r]));
    weir::gather(s, comm, in(x[r]), out(at_root[r]), root);
    weir::barrier(s, comm);
    weir::reduce_scatter(s, comm, in(wide[r]), out(slice[r]), weir::Maximum{});
    weir::scatter(s, comm, in(wide[r]), out(scattered[r]), root);
    weir::all_to_all(s, comm, in(wide[r]), out(exchanged[r]));
  }
  for (std::size_t r = 0; r < n; ++r) {
    SCOPED_TRACE("rank " + std::to_string(r));
    const bool is_root = r_of(r) == root;
    const auto part = [&](std::size_t from, std::size_t at) {
      return plain<int>(count, [&](std::size_t i) { return static_cast<int>(whole(from, at * count + i)); });
    };
    ASSERT_EQ(in_place[r].to_host(), sum);
    const auto root_x = plain<int>(count, [&](std::size_t i) { return static_cast<int>(value(n / 2, i)); });
    ASSERT_EQ(spread[r].to_host(), root_x);
    ASSERT_EQ(reduced[r].to_host(), is_root ? sum : std::vector<int>(count));
    ASSERT_EQ(gathered[r].to_host(), all);
    ASSERT_EQ(at_root[r].to_host(), is_root ? all : std::vector<int>(n * count));
    ASSERT_EQ(slice[r].to_host(), part(n - 1, r));
    ASSERT_EQ(scattered[r].to_host(), part(n / 2, r));
    std::vector<int> parts;
    for (std::size_t from = 0; from < n; ++from) {
      const auto one = part(from, r);
      parts.insert(parts.end(), one.begin(), one.end());
    }
    ASSERT_EQ(exchanged[r].to_host(), parts);
  }
}

TEST(CollectivesValues, every_call_over_1_to_7_ranks) {
  for (const std::size_t n : {1u, 2u, 3u, 4u, 7u}) {
    if (n > most_ranks()) continue;
    for (const std::size_t count : {0u, 1u, 7u, 4099u}) expect_every_call(n, count);
  }
}

TEST(CollectivesValues, every_call_over_a_million_elements) {
  WEIR_NEEDS_RANKS(2u);
  expect_every_call(2, under_thread_sanitizer ? 50'003 : 1'000'003);
  expect_every_call(std::min<std::size_t>(7, most_ranks()), 10'003);
}

TEST(CollectivesValues, in_place_on_the_root_alone_and_by_parts) {
  const std::size_t n = std::min<std::size_t>(3, most_ranks());
  WEIR_NEEDS_RANKS(2u);
  constexpr std::size_t count = 1000;
  const Ranks ranks(n);
  const auto x = ranks.arrays<double>(count, value);
  const auto y = ranks.arrays<double>(n * count, [](std::size_t r, std::size_t i) { return value(r, i % count); });
  const auto z = ranks.arrays<double>(n * count, [](std::size_t r, std::size_t i) { return value(r, i % count); });
  for (std::size_t r = 0; r < n; ++r) {
    const weir::Stream& s = ranks.streams[r];
    const auto own = y[r].slice(r * count, (r + 1) * count);
    const auto sum = z[r].slice(r * count, (r + 1) * count);
    weir::all_gather(s, ranks.comms[r], in(own), out(y[r]));
    weir::reduce_scatter(s, ranks.comms[r], in(z[r]), out(sum));
    if (r == 1) {
      weir::reduce(s, ranks.comms[r], inout(x[r]), weir::Plus{}, 1);
    } else {
      weir::reduce(s, ranks.comms[r], in(x[r]), weir::Plus{}, 1);
    }
  }
  const auto sum = folded<double>(n, count, weir::Plus{});
  EXPECT_EQ(x[1].to_host(), sum);
  for (std::size_t r = 0; r < n; ++r) {
    const auto all =
        plain<double>(n * count, [&](std::size_t i) { return static_cast<double>(value(i / count, i % count)); });
    EXPECT_EQ(y[r].to_host(), all);
    EXPECT_EQ(z[r].slice(r * count, (r + 1) * count).to_host(), sum);
  }
}

TEST(CollectivesValues, the_root_alone_gives_what_is_scattered_and_where_all_is_gathered) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto parts = ranks.zeros<int>(4);
  const auto whole = ranks.arrays<int>(8, [](std::size_t, std::size_t i) { return i; });
  weir::scatter(ranks.streams[0], ranks.comms[0], in(whole[0]), out(parts[0]), 0);
  weir::scatter(ranks.streams[1], ranks.comms[1], out(parts[1]), 0);
  weir::gather(ranks.streams[0], ranks.comms[0], in(parts[0]), 1);
  weir::gather(ranks.streams[1], ranks.comms[1], in(parts[1]), out(whole[1]), 1);
  EXPECT_EQ(parts[1].to_host(), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(whole[1].to_host(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(CollectivesValues, all_to_all_with_counts) {
  WEIR_NEEDS_RANKS(3u);
  const Ranks ranks(3);
  // Rank r sends r + to elements to each.
  std::vector<weir::Array<int>> x;
  std::vector<weir::Array<int>> y;
  std::vector<std::vector<std::size_t>> counts;
  for (std::size_t r = 0; r < 3; ++r) {
    counts.push_back({r, r + 1, r + 2});
    std::vector<int> values;
    for (std::size_t to = 0; to < 3; ++to) values.insert(values.end(), r + to, static_cast<int>(10 * r + to));
    x.push_back(weir::empty<int>(ranks.streams[r], values.size()));
    weir::copy(ranks.streams[r], x.back(), values);
    y.push_back(weir::zeros<int>(ranks.streams[r], values.size()));
  }
  for (std::size_t r = 0; r < 3; ++r) {
    weir::all_to_all(ranks.streams[r], ranks.comms[r], in(x[r]), std::span<const std::size_t>(counts[r]), out(y[r]),
                     std::span<const std::size_t>(counts[r]));
  }
  EXPECT_EQ(y[0].to_host(), (std::vector<int>{10, 20, 20}));
  EXPECT_EQ(y[2].to_host(), (std::vector<int>{2, 2, 12, 12, 12, 22, 22, 22, 22}));
}

TEST(CollectivesValues, strided_slices_and_planes) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  std::vector<weir::Array<float>> x;
  std::vector<weir::Array<float>> y;
  for (const weir::Stream& s : ranks.streams) {
    x.push_back(weir::empty<float>(s, {6, 5}));
    std::vector<float> values = plain<float>(30, [](std::size_t i) { return static_cast<float>(i); });
    weir::copy(s, x.back().reshape(30), values);
    y.push_back(weir::zeros<float>(s, 18));
  }
  for (std::size_t r = 0; r < 2; ++r) {
    // Three columns of each row; every second element of the result is written in the second call.
    weir::all_reduce(ranks.streams[r], ranks.comms[r], in(x[r].slice({{0, 6}, {1, 4}})), out(y[r]));
    weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r].slice({{0, 6, 2}, {0, 5}})));
    weir::broadcast(ranks.streams[r], ranks.comms[r], inout(y[r].slice({weir::Range{1, 18, 2}})), 1);
  }
  const auto columns = plain<float>(18, [](std::size_t i) { return 2 * static_cast<float>(i / 3 * 5 + i % 3 + 1); });
  EXPECT_EQ(y[0].to_host(), columns);
  const auto rows = plain<float>(30, [](std::size_t i) { return static_cast<float>(i) * (i / 5 % 2 == 0 ? 2 : 1); });
  EXPECT_EQ(x[1].reshape(30).to_host(), rows);
}

TEST(CollectivesValues, results_are_bitwise_equal_on_all_ranks_and_in_every_run) {
  constexpr std::size_t count = 100'001;
  const std::size_t n = std::min<std::size_t>(3, most_ranks());
  const Ranks ranks(n);
  const auto x =
      ranks.arrays<float>(count, [](std::size_t r, std::size_t i) { return 1.0 / static_cast<double>(r + i + 1); });
  const auto y = ranks.zeros<float>(count);
  std::vector<float> first;
  for (int run = 0; run < 5; ++run) {
    for (std::size_t r = 0; r < n; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], in(x[r]), out(y[r]));
    for (std::size_t r = 0; r < n; ++r) {
      if (first.empty()) first = y[r].to_host();
      ASSERT_EQ(y[r].to_host(), first);
    }
  }
}

}  // namespace
}  // namespace weir_test
