// Blocks and threads of two and three dimensions, shared planes, and launches by the size of what they cover.
#include <cstdint>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class LaunchPlanes : public AnyDevice {};
ON_EVERY_DEVICE(LaunchPlanes);

struct Transpose {
  static constexpr std::size_t tile = 16;
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const int, 2> from, weir::View<int, 2> to) const {
    // One more column than is used: on a GPU neighbours in a column then lie in different banks.
    const weir::View<int, 2> kept = block.shared<int>({tile, tile + 1});
    block.each([&](weir::Index<2> t) {
      const auto [row, column] = block.global_index(t);
      if (row < from.size(0) && column < from.size(1)) kept[t] = from(row, column);
    });
    const weir::Index<2> place = block.index<2>();
    block.each([&](weir::Index<2> t) {
      const std::size_t row = place[1] * tile + t[0];
      const std::size_t column = place[0] * tile + t[1];
      if (row < to.size(0) && column < to.size(1)) to(row, column) = kept(t[1], t[0]);
    });
  }
};

TEST_P(LaunchPlanes, a_transpose_by_tiles_covers_ragged_planes) {
  weir::Stream s(device());
  const std::size_t sizes[][2] = {{1, 1}, {16, 16}, {17, 33}, {100, 3}, {64, 129}};
  for (const auto& [rows, columns] : sizes) {
    std::vector<int> values(rows * columns), expected(rows * columns);
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) {
        values[r * columns + c] = static_cast<int>(r * 1000 + c);
        expected[c * rows + r] = static_cast<int>(r * 1000 + c);
      }
    }
    auto from = weir::from(s, values, {rows, columns});
    auto to = weir::zeros<int>(s, {columns, rows});
    const auto extent = weir::BlockExtent::over({rows, columns}, {Transpose::tile, Transpose::tile},
                                                Transpose::tile * (Transpose::tile + 1) * sizeof(int));
    weir::launch_blocks(s, extent, Transpose{}, weir::in(from), weir::out(to));
    EXPECT_EQ(to.to_host(), expected) << rows << " x " << columns;
  }
}

/// Every thread of three dimensions leaves what it knows of itself in its place.
struct WritePlaces {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int, 3> visits, weir::View<int> wrong) const {
    const auto size = block.threads<3>();
    const auto blocks = block.count<3>();
    const auto own = block.each_own<std::size_t>(0);
    block.each([&](weir::Index<3> t) {
      own[t] = (t[0] * size[1] + t[1]) * size[2] + t[2];
      add_to_word(&visits[block.global_index(t)], 1);
    });
    const auto at = block.index<3>();
    const auto flat = block.index<2>();
    block.each([&](std::size_t t) {
      bool right = own[t] == t && block.threads() == 2 * 3 * 4 && block.count() == 5 * 6 * 7;
      right = right && size == weir::Index<3>{{2, 3, 4}} && blocks == weir::Index<3>{{5, 6, 7}};
      right = right && block.index() == (at[0] * 6 + at[1]) * 7 + at[2];
      // Fewer dimensions than there are: the first stands for several.
      right = right && flat == weir::Index<2>{{at[0] * 6 + at[1], at[2]}};
      right = right && block.threads<2>() == weir::Index<2>{{6, 4}} && block.count<1>() == weir::Index<1>{{210}};
      right = right && block.global_index(t) == block.index() * 24 + t;
      if (!right) add_to_word(&wrong[0], 1);
    });
    block.each([&](weir::Index<2> t) {
      if (own[t] != t[0] * 4 + t[1]) add_to_word(&wrong[0], 1);
    });
  }
};

TEST_P(LaunchPlanes, blocks_and_threads_know_their_places_in_three_dimensions) {
  weir::Stream s(device());
  auto visits = weir::zeros<int>(s, {5 * 2, 6 * 3, 7 * 4});
  auto wrong = weir::zeros<int>(s, 1);
  weir::launch_blocks(s, {.blocks = {5, 6, 7}, .threads = {2, 3, 4}}, WritePlaces{}, weir::inout(visits),
                      weir::inout(wrong));
  EXPECT_EQ(visits.to_host(), std::vector<int>(5 * 6 * 7 * 24, 1));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

struct AskOfMissing {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> wrong) const {
    bool right = block.index<3>() == weir::Index<3>{{0, 0, block.index()}};
    right = right && block.count<2>() == weir::Index<2>{{1, 6}} && block.threads<3>() == weir::Index<3>{{1, 1, 10}};
    block.each([&](weir::Index<2> t) {
      if (!right || t[0] != 0 || t[1] >= 10) add_to_word(&wrong[0], 1);
    });
  }
};

TEST_P(LaunchPlanes, dimensions_that_a_launch_does_not_have_are_1) {
  weir::Stream s(device());
  auto wrong = weir::zeros<int>(s, 1);
  weir::launch_blocks(s, {.blocks = 6, .threads = 10}, AskOfMissing{}, weir::inout(wrong));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

struct Together {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int, 2> x, weir::View<int, 2> sums,
                              weir::View<int> found) const {
    const auto value = [&](weir::Index<2> t) { return x[block.global_index(t)]; };
    const int sum = block.reduce(value);
    const auto before = block.exclusive_scan(value);
    const std::size_t even = block.count([&](weir::Index<2> t) { return x[block.global_index(t)] % 2 == 0; });
    const int corner = block.broadcast(value, weir::Index<2>{{3, 0}});
    block.each([&](weir::Index<2> t) {
      sums[block.global_index(t)] = before[t];
      if (t[0] + t[1] != 0) return;
      found[3 * block.index()] = sum;
      found[3 * block.index() + 1] = static_cast<int>(even);
      found[3 * block.index() + 2] = corner;
    });
  }
};

TEST_P(LaunchPlanes, what_threads_do_together_goes_by_their_places) {
  weir::Stream s(device());
  std::vector<int> values(8 * 20);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i * i % 91);
  auto x = weir::from(s, values, {8, 20});
  auto sums = weir::zeros<int>(s, {8, 20});
  auto found = weir::zeros<int>(s, 3 * 4);
  weir::launch_blocks(s, {.blocks = {2, 2}, .threads = {4, 10}}, Together{}, weir::inout(x), weir::out(sums),
                      weir::out(found));
  const std::vector<int> before = sums.to_host(), told = found.to_host();
  for (std::size_t b = 0; b < 4; ++b) {
    int sum = 0, even = 0;
    for (std::size_t t = 0; t < 40; ++t) {
      const std::size_t i = (b / 2 * 4 + t / 10) * 20 + b % 2 * 10 + t % 10;
      ASSERT_EQ(before[i], sum) << b << ", " << t;
      sum += values[i];
      even += values[i] % 2 == 0 ? 1 : 0;
    }
    EXPECT_EQ(told[3 * b], sum);
    EXPECT_EQ(told[3 * b + 1], even);
    EXPECT_EQ(told[3 * b + 2], values[(b / 2 * 4 + 3) * 20 + b % 2 * 10]);
  }
}

TEST_P(LaunchPlanes, an_extent_over_a_size_has_blocks_for_all_of_it) {
  const auto plane = weir::BlockExtent::over({100, 33}, {16, 16}, 64, "tiles");
  EXPECT_TRUE(plane.blocks == weir::Shape(7, 3) && plane.threads == weir::Shape(16, 16));
  EXPECT_EQ(plane.shared_bytes, 64u);
  EXPECT_STREQ(plane.name, "tiles");
  const auto rows = weir::BlockExtent::over({100, 33}, 32);
  EXPECT_TRUE(rows.blocks == weir::Shape(100, 2) && rows.threads == weir::Shape(1, 32));
  const auto line = weir::BlockExtent::over(1000, {2, 16});
  EXPECT_TRUE(line.blocks == weir::Shape(1, 63) && line.threads == weir::Shape(2, 16));
  weir::Stream s(device());
  auto wrong = weir::zeros<int>(s, 1);
  EXPECT_TRUE(fails_with(
      weir::Errc::invalid_value,
      [&] {
        weir::launch_blocks(s, weir::BlockExtent::over({0, 5}, {16, 16}), AskOfMissing{}, weir::inout(wrong));
      },
      {"0 x 1 blocks"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::invalid_value,
                 [&] {
                   weir::launch_blocks(s, weir::BlockExtent::over({5, 5}, {16, 0}), AskOfMissing{}, weir::inout(wrong));
                 },
                 {"16 x 0 threads"}));
}

TEST_P(LaunchPlanes, R168_sizes_out_of_range_are_refused_in_every_dimension) {
  weir::Stream s(device());
  auto wrong = weir::zeros<int>(s, 1);
  const auto launch = [&](const weir::BlockExtent& extent) {
    weir::launch_blocks(s, extent, AskOfMissing{}, weir::inout(wrong));
  };
  constexpr auto invalid = weir::Errc::invalid_value;
  EXPECT_TRUE(fails_with(invalid, [&] { launch({.blocks = 1, .threads = {33, 32}}); }, {"launch_blocks", "33 x 32"}));
  EXPECT_TRUE(fails_with(invalid, [&] { launch({.blocks = 1, .threads = {1LL << 32, 1LL << 32}}); }, {"threads"}));
  EXPECT_TRUE(fails_with(invalid, [&] { launch({.blocks = {4, 0}, .threads = 4}); }, {"4 x 0 blocks"}));
  EXPECT_TRUE(fails_with(invalid, [&] { launch({.blocks = {4, -3}, .threads = 4}); }, {"4 x -3 blocks"}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape,
                         [&] {
                           launch({.blocks = {2, 2, 2, 2}, .threads = 4});
                         },
                         {"launch_blocks", "1 to 3 dimensions"}));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

class GraphsPlanes : public AnyDevice {};
ON_EVERY_DEVICE(GraphsPlanes);

TEST_P(GraphsPlanes, KeepAllDimensionsAndNewArgumentsDoToo) {
  weir::Stream s(device());
  auto visits = weir::zeros<int>(s, {5 * 2, 6 * 3, 7 * 4});
  auto others = weir::zeros<int>(s, {5 * 2, 6 * 3, 7 * 4});
  auto wrong = weir::zeros<int>(s, 1);
  s.synchronize();
  weir::GraphBuilder builder(device());
  const auto node = builder.launch_blocks({.blocks = {5, 6, 7}, .threads = {2, 3, 4}}, WritePlaces{},
                                          weir::inout(visits), weir::inout(wrong));
  weir::Graph graph = builder.build();
  graph.launch(s);
  graph.launch(s);
  s.synchronize();
  graph.update(node, weir::inout(others), weir::inout(wrong));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(visits.to_host(), std::vector<int>(5 * 6 * 7 * 24, 2));
  EXPECT_EQ(others.to_host(), std::vector<int>(5 * 6 * 7 * 24, 1));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

}  // namespace
}  // namespace weir_test
