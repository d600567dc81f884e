// Kernels over 1 to 4 dimensions: every index exactly once, whatever the sizes and however the arguments are passed.
#include <cstdint>
#include <string>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class LaunchIndices : public AnyDevice {
 protected:
  /// All elements of `visits` are 1.
  static void expect_ones(const weir::Array<int>& visits, const std::string& what) {
    const std::vector<int> values = visits.to_host();
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i] == 1) continue;
      if (wrong++ == 0) ADD_FAILURE() << what << ": index " << i << " was visited " << values[i] << " times";
    }
    EXPECT_EQ(wrong, 0u) << what;
  }
};
ON_EVERY_DEVICE(LaunchIndices);

struct Visit1 {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> visits) const { add_to_word(&visits[i], 1); }
};
struct Visit2 {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<int, 2> visits) const { add_to_word(&visits[at], 1); }
};
struct Visit3 {
  WEIR_KERNEL void operator()(weir::Index<3> at, weir::View<int, 3> visits) const { add_to_word(&visits[at], 1); }
};
struct Visit4 {
  WEIR_KERNEL void operator()(weir::Index<4> at, weir::View<int, 4> visits) const { add_to_word(&visits[at], 1); }
};

TEST_P(LaunchIndices, one_dimension) {
  weir::Stream s(device());
  for (const std::size_t n : {1u, 2u, 3u, 31u, 255u, 256u, 257u, 1000u, 4095u, 4096u, 4097u, 65'537u, 1'000'003u}) {
    auto visits = weir::zeros<int>(s, n);
    weir::launch(s, n, Visit1{}, weir::inout(visits));
    expect_ones(visits, "n = " + std::to_string(n));
  }
}

template <class I>
struct VisitBy {
  WEIR_KERNEL void operator()(I i, weir::View<int> visits) const { add_to_word(&visits[i], 1); }
};
TEST_P(LaunchIndices, of_any_integer_type) {
  weir::Stream s(device());
  for (const int n : {1, 255, 1000, 32'767}) {
    auto visits = weir::zeros<int>(s, n);
    weir::launch(s, n, VisitBy<int>{}, weir::inout(visits));
    expect_ones(visits, "int, n = " + std::to_string(n));
    weir::fill(s, visits, 0);
    weir::launch(s, n, VisitBy<std::uint32_t>{}, weir::inout(visits));
    expect_ones(visits, "std::uint32_t, n = " + std::to_string(n));
    weir::fill(s, visits, 0);
    weir::launch(s, n, VisitBy<std::int64_t>{}, weir::inout(visits));
    expect_ones(visits, "std::int64_t, n = " + std::to_string(n));
    weir::fill(s, visits, 0);
    weir::launch(s, weir::Extent{.size = n, .name = "visit"}, VisitBy<short>{}, weir::inout(visits));
    expect_ones(visits, "short, n = " + std::to_string(n));
  }
}
TEST_P(LaunchIndices, that_their_type_does_not_hold_are_refused) {
  weir::Stream s(device());
  auto visits = weir::zeros<int>(s, 32'769);
  const auto into = visits.slice(0, 32'768);
  weir::launch(s, 32'768, VisitBy<short>{}, weir::inout(into));
  EXPECT_TRUE(fails_with(weir::Errc::size_overflow,
                         [&] { weir::launch(s, 32'769, VisitBy<short>{}, weir::inout(visits)); },
                         {"weir::launch", "32769", "32768", "VisitBy", "std::size_t", "launches_index_test.cpp"}));
  EXPECT_TRUE(fails_with(weir::Errc::size_overflow, [&] {
    weir::launch(s, weir::Extent{.size = std::size_t{1} << 31 | 1, .name = "visit"}, VisitBy<int>{},
                 weir::inout(visits));
  }));
  expect_ones(weir::from(s, into.to_host()), "short");
  EXPECT_EQ(visits.to_host()[32'768], 0);
}

TEST_P(LaunchIndices, two_dimensions) {
  weir::Stream s(device());
  const std::size_t sizes[][2] = {{1, 1},   {1, 1000},  {1000, 1},    {7, 13},
                                  {64, 64}, {333, 777}, {3, 100'003}, {100'003, 3}};
  for (const auto& [rows, columns] : sizes) {
    auto visits = weir::zeros<int>(s, {rows, columns});
    weir::launch(s, {rows, columns}, Visit2{}, weir::inout(visits));
    expect_ones(visits, std::to_string(rows) + " x " + std::to_string(columns));
  }
}

TEST_P(LaunchIndices, three_and_four_dimensions) {
  weir::Stream s(device());
  auto three = weir::zeros<int>(s, {5, 77, 131});
  weir::launch(s, {5, 77, 131}, Visit3{}, weir::inout(three));
  expect_ones(three, "5 x 77 x 131");
  auto four = weir::zeros<int>(s, {3, 1, 41, 53});
  weir::launch(s, {3, 1, 41, 53}, Visit4{}, weir::inout(four));
  expect_ones(four, "3 x 1 x 41 x 53");
  auto thin = weir::zeros<int>(s, {2, 3, 4, 5});
  weir::launch(s, thin.shape(), Visit4{}, weir::inout(thin));
  expect_ones(thin, "2 x 3 x 4 x 5");
}

struct WriteIndex {
  WEIR_KERNEL void operator()(weir::Index<3> index, weir::View<int, 3> x) const {
    const auto [i, j, k] = index;
    x(i, j, k) = static_cast<int>(10'000 * i + 100 * j + k);
  }
};

TEST_P(LaunchIndices, the_index_names_the_element_in_row_major_order) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, {3, 4, 5});
  weir::launch(s, {3, 4, 5}, WriteIndex{}, weir::out(x));
  const std::vector<int> values = x.to_host();
  std::size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 4; ++j) {
      for (int k = 0; k < 5; ++k) ASSERT_EQ(values[at++], 10'000 * i + 100 * j + k);
    }
  }
}

TEST_P(LaunchIndices, an_extent_of_zero_runs_nothing) {
  Marker count;
  weir::Stream s(device());
  auto empty = weir::zeros<int>(s, {4, 0});
  count_up(s, count, 0);
  weir::launch(s, {4, 0}, Visit2{}, weir::inout(empty));
  weir::launch(s, {0, 4}, Visit2{}, weir::inout(empty));
  s.synchronize();
  EXPECT_EQ(count.value(), 0);
}

TEST_P(LaunchIndices, many_elements) {
  constexpr std::size_t n = 20'000'000 / (patience * patience);
  weir::Stream s(device());
  auto visits = weir::zeros<int>(s, n);
  weir::launch(s, n, Visit1{}, weir::inout(visits));
  auto total = weir::zeros<int>(s, 1);
  auto most = weir::zeros<int>(s, 1);
  weir::reduce(s, visits, total);
  weir::reduce(s, visits, most, weir::Maximum{});
  EXPECT_EQ(total.to_host()[0], static_cast<int>(n));
  EXPECT_EQ(most.to_host()[0], 1);
}

TEST_P(LaunchIndices, the_block_size_does_not_change_what_is_visited) {
  weir::Stream s(device());
  for (const std::uint32_t block : {1u, 33u, 256u, 1024u}) {
    auto visits = weir::zeros<int>(s, 10'007);
    weir::launch(s, weir::Extent{.size = 10'007, .block = block, .name = "visit"}, Visit1{}, weir::inout(visits));
    expect_ones(visits, "block " + std::to_string(block));
  }
}

TEST_P(LaunchIndices, braces_may_name_the_members_of_an_extent) {
  weir::Stream s(device());
  const std::size_t n = 1000;
  auto visits = weir::zeros<int>(s, n);
  weir::launch(s, {.size = n, .block = 64, .name = "visit"}, Visit1{}, weir::inout(visits));
  expect_ones(visits, "on a stream");
  weir::fill(s, visits, 0);
  {
    const weir::ScopedStream current(s);
    weir::launch({.size = n, .name = "visit"}, Visit1{}, weir::inout(visits));
    const int line = __LINE__ + 1;
    const auto error = error_of([&] { weir::launch({.size = n, .block = 5000}, Visit1{}, weir::inout(visits)); });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(static_cast<int>(error->where().line()), line);
  }
  expect_ones(visits, "on the current stream");
  auto plane = weir::zeros<int>(s, {20, 30});
  weir::launch(s, {.size = {20, 30}, .name = "plane"}, Visit2{}, weir::inout(plane));
  expect_ones(plane.reshape(600).clone(s), "in two dimensions");
}

TEST_P(LaunchIndices, braces_may_name_the_members_of_an_extent_in_graphs) {
  weir::Stream s(device());
  auto visits = weir::zeros<int>(s, 8);
  weir::GraphBuilder builder(device());
  builder.launch({.size = 8, .name = "built"}, Visit1{}, weir::inout(visits));
  weir::Graph graph = builder.build();
  const weir::Node node = graph.find("built");
  graph.update(node, {.size = 4, .name = "updated"}, Visit1{}, weir::inout(visits));
  EXPECT_EQ(graph.node(node).name, "updated");
  graph.launch(s);
  EXPECT_EQ(visits.to_host(), (std::vector<int>{1, 1, 1, 1, 0, 0, 0, 0}));
}

TEST_P(LaunchIndices, strided_views_are_visited_where_they_lie) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, {20, 30});
  auto inner = x.slice({{5, 15}, {1, 30, 3}});
  weir::launch(s, inner.shape(), Visit2{}, weir::inout(inner));
  const std::vector<int> values = x.to_host();
  for (std::size_t i = 0; i < 20; ++i) {
    for (std::size_t j = 0; j < 30; ++j) {
      const int expected = i >= 5 && i < 15 && j % 3 == 1 ? 1 : 0;
      ASSERT_EQ(values[30 * i + j], expected) << i << ", " << j;
    }
  }
}

TEST_P(LaunchIndices, launches_of_different_sizes_follow_each_other) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 100'000);
  std::vector<int> expected(100'000, 0);
  for (std::size_t n = 1; n <= 100'000; n = 3 * n + 1) {
    weir::launch(s, n, Visit1{}, weir::inout(x));
    for (std::size_t i = 0; i < n; ++i) ++expected[i];
  }
  EXPECT_EQ(x.to_host(), expected);
}

}  // namespace
}  // namespace weir_test
