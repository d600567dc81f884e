// Views and slices: steps, transposition, new shapes, and the same elements seen by host and kernels.
#include <limits>

#include "arrays_support.hpp"

using namespace weir_test;

class ArrayViews : public AnyDevice {};
ON_EVERY_DEVICE(ArrayViews);

namespace {

struct WritePlace {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<int, 2> x) const {
    x[at] = static_cast<int>(10 * at[0] + at[1]);
  }
};
struct AddToPlane {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<int, 2> x, int value) const { x[at] += value; }
};
struct CopyPlane {
  WEIR_KERNEL void operator()(weir::Index<2> at, weir::View<const int, 2> x, weir::View<int, 2> y) const {
    y[at] = x[at];
  }
};
struct WriteFour {
  WEIR_KERNEL void operator()(weir::Index<4> at, weir::View<int, 4> x) const {
    x[at] = static_cast<int>(1000 * at[0] + 100 * at[1] + 10 * at[2] + at[3]);
  }
};

}  // namespace

TEST_P(ArrayViews, ranges_take_signed_indices_and_refuse_negative_ones) {
  const auto a = weir::from(device(), counted(10));
  const int first = 2, last = 5;
  EXPECT_EQ(a.slice(first, last).to_host(), counted(3, 2));
  EXPECT_EQ(a.slice({{first, last, first}}).to_host(), (std::vector<int>{2, 4}));
  EXPECT_TRUE(
      fails_with(weir::Errc::wrong_shape, [&] { a.slice(-3, last); }, {"weir::Array::slice", "-3..5", "negative"}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { a.slice(0, -1); }, {"0..-1", "negative"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { a.slice({{0, 5, -1}}); }, {"step"}));
}

TEST_P(ArrayViews, host_loops_go_over_contiguous_elements_alone) {
  const auto a = weir::zeros<int>(weir::host, {2, 3});
  std::size_t seen = 0;
  for (const int x : a.slice(1, 2)) seen += static_cast<std::size_t>(x == 0);
  EXPECT_EQ(seen, 3u);
  const auto column = a.slice({{0, 2}, {0, 1}});
  const std::initializer_list<std::string_view> words{"weir::Array: begin, end, span", "not contiguous",
                                                      "arrays_views_test"};
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_shape,
      [&] {
        for (const int x : column) seen += static_cast<std::size_t>(x);
      },
      words));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_shape, [&] { seen += column.span().size(); }, words));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_shape, [&] { seen += a.transposed().span().size(); }, words));
}

TEST_P(ArrayViews, of_truth_values_are_read_back) {
  const weir::Stream s(device());
  const auto a = weir::full(s, 3, true);
  weir::fill(s, a.slice(1, 2), false);
  EXPECT_EQ(a.to_host(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(a.slice({{0, 3, 2}}).to_host(s), (std::vector<bool>{true, true}));
}

TEST_P(ArrayViews, with_names_are_called_by_them) {
  const weir::Stream s(device());
  auto a = weir::zeros<int>(s, 4);
  a.set_name("vel");
  s.synchronize();
  a.free();
  EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { weir::sort(s, a); }, {"weir::sort", "array 'vel'"}));
  EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { static_cast<void>(a.to_host()); },
                         {"weir::Array::to_host", "array 'vel'"}));
}

TEST_P(ArrayViews, a_slice_is_the_same_memory) {
  weir::Stream stream(device());
  auto a = weir::from(stream, counted(10));
  const weir::Slice<int> middle = a.slice(3, 7);
  EXPECT_EQ(middle.size(), 4u);
  EXPECT_EQ(middle.data(), a.data() + 3);
  weir::launch(stream, 4, AddValue{}, weir::inout(middle), 100);
  EXPECT_EQ(a.to_host(), (std::vector<int>{0, 1, 2, 103, 104, 105, 106, 7, 8, 9}));
  EXPECT_EQ(middle.to_host(), (std::vector<int>{103, 104, 105, 106}));
}

TEST_P(ArrayViews, a_slice_of_a_slice_counts_from_its_own_start) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(20));
  EXPECT_EQ(a.slice(4, 16).slice(2, 5).to_host(), (std::vector<int>{6, 7, 8}));
  EXPECT_EQ(a.slice({{1, 20, 3}}).slice({{0, 6, 2}}).to_host(), (std::vector<int>{1, 7, 13}));
}

TEST_P(ArrayViews, steps_round_up_to_the_last_element) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(10));
  EXPECT_EQ(a.slice({{0, 10, 3}}).to_host(), (std::vector<int>{0, 3, 6, 9}));
  EXPECT_EQ(a.slice({{0, 9, 3}}).to_host(), (std::vector<int>{0, 3, 6}));
  EXPECT_EQ(a.slice({{2, 3, 100}}).to_host(), (std::vector<int>{2}));
  EXPECT_TRUE(a.slice({{5, 5, 2}}).to_host().empty());
  EXPECT_TRUE(a.slice(10, 10).empty());
}

TEST_P(ArrayViews, kernels_write_through_steps_and_nothing_between) {
  weir::Stream stream(device());
  auto a = weir::zeros<int>(stream, {4, 6});
  const auto part = a.slice({{1, 4, 2}, {0, 6, 3}});
  EXPECT_FALSE(part.contiguous());
  weir::launch(stream, {2, 2}, WritePlace{}, weir::out(part));
  EXPECT_EQ(a.to_host(), (std::vector<int>{0,  0, 0, 0,  0, 0,  //
                                           0,  0, 0, 1,  0, 0,  //
                                           0,  0, 0, 0,  0, 0,  //
                                           10, 0, 0, 11, 0, 0}));
}

TEST_P(ArrayViews, dimensions_without_a_range_stay_whole) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(12)).reshape({3, 4}).clone(stream);
  EXPECT_EQ(a.slice(1, 2).to_host(), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(a.slice(1, 2).shape(), weir::Shape(1, 4));
}

TEST_P(ArrayViews, transposed_turns_the_dimensions_around) {
  weir::Stream stream(device());
  auto a = weir::zeros<int>(stream, {2, 3});
  const auto turned = a.transposed();
  EXPECT_EQ(turned.shape(), weir::Shape(3, 2));
  weir::launch(stream, {3, 2}, WritePlace{}, weir::out(turned));
  EXPECT_EQ(a.to_host(), (std::vector<int>{0, 10, 20, 1, 11, 21}));
  EXPECT_EQ(turned.to_host(), (std::vector<int>{0, 1, 10, 11, 20, 21}));
  EXPECT_EQ(turned.transposed().to_host(), a.to_host());
  EXPECT_EQ(weir::zeros<int>(stream, {2, 3, 4, 5}).transposed().shape(), weir::Shape(5, 4, 3, 2));
}

TEST_P(ArrayViews, reshape_keeps_the_elements) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(24));
  const auto cube = a.reshape({2, 3, 4});
  EXPECT_EQ(cube.data(), a.data());
  EXPECT_EQ(cube.shape(), weir::Shape(2, 3, 4));
  EXPECT_EQ(cube.slice(1, 2).reshape(12).to_host(), counted(12, 12));
  EXPECT_EQ(cube.reshape({4, 6}).to_host(), counted(24));
}

TEST_P(ArrayViews, four_dimensions_in_row_major_order) {
  weir::Stream stream(device());
  auto a = weir::empty<int>(stream, {2, 3, 4, 5});
  weir::launch(stream, {2, 3, 4, 5}, WriteFour{}, weir::out(a));
  const std::vector<int> values = a.to_host();
  EXPECT_EQ(values[0], 0);
  EXPECT_EQ(values[4], 4);
  EXPECT_EQ(values[5], 10);
  EXPECT_EQ(values[20], 100);
  EXPECT_EQ(values[60], 1000);
  EXPECT_EQ(values[119], 1234);
}

TEST_P(ArrayViews, slices_of_one_array_are_independent_arguments) {
  weir::Stream stream(device());
  auto a = weir::from(stream, counted(16)).reshape({4, 4}).clone(stream);
  const auto left = a.slice({{0, 4}, {0, 2}});
  const auto right = a.slice({{0, 4}, {2, 4}});
  weir::launch(stream, {4, 2}, CopyPlane{}, weir::in(left), weir::out(right));
  EXPECT_EQ(a.to_host(), (std::vector<int>{0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13}));
}

TEST_P(ArrayViews, raw_views_reach_the_same_memory) {
  weir::Stream stream(device());
  auto a = weir::zeros<int>(stream, {3, 4});
  const weir::View<int, 2> all = a.view<2>();
  weir::launch(stream, {2, 4}, AddToPlane{}, weir::inout(all.slice(1, 3)), 7);
  weir::launch(stream, {3, 4}, AddToPlane{}, all, 1);
  EXPECT_EQ(a.to_host(), (std::vector<int>{1, 1, 1, 1, 8, 8, 8, 8, 8, 8, 8, 8}));
}

TEST_P(ArrayViews, a_view_converts_to_its_own_rank) {
  weir::Stream stream(device());
  auto a = weir::empty<int>(stream, {3, 4});
  const weir::View<int, 2> plane = a.view();
  const weir::View<const int, 2> read_only = a.view();
  EXPECT_EQ(plane.data(), a.data());
  EXPECT_EQ(read_only.size(1), 4u);
}

TEST_P(ArrayViews, the_host_reads_and_writes_pinned_and_pageable_memory) {
  for (const weir::Place& place : {weir::Place(weir::host), weir::Place(weir::pinned)}) {
    auto a = weir::zeros<int>(place, {2, 3});
    a.host_view()(1, 2) = 5;
    a[0] = 1;
    a[4] = 7;
    *(a.begin() + 1) = 2;
    EXPECT_EQ(host_values(a), (std::vector<int>{1, 2, 0, 0, 7, 5}));
    EXPECT_EQ(a.transposed().host_view()(2, 1), 5);
    EXPECT_EQ(a.end() - a.begin(), 6);
  }
}

TEST_P(ArrayViews, kernels_reach_pinned_memory) {
  weir::Stream stream(device());
  auto a = weir::full<int>(weir::pinned, 100, 1);
  weir::launch(stream, 100, AddValue{}, weir::inout(a), 2);
  stream.synchronize();
  EXPECT_EQ(host_values(a), std::vector<int>(100, 3));
}

TEST_P(ArrayViews, const_arrays_are_read_without_a_word) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(100));
  auto b = weir::empty<int>(stream, 100);
  weir::launch(stream, 100, CopyElement{}, a, weir::out(b));
  EXPECT_EQ(b.to_host(), counted(100));
}

TEST_P(ArrayViews, slices_with_steps_longer_than_their_range_have_one_element) {
  constexpr std::size_t longest = std::numeric_limits<std::size_t>::max();
  const auto x = weir::from(weir::host, std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  for (const std::size_t step : {std::size_t{10}, std::size_t{11}, longest - 10, longest - 1, longest}) {
    const auto part = x.slice({{0, 10, step}});
    ASSERT_EQ(part.size(), 1u) << step;
    EXPECT_EQ(part[0], 0);
    EXPECT_EQ(part.to_host(), std::vector<int>{0});
  }
  EXPECT_EQ(x.slice({{0, 10, 9}}).to_host(), (std::vector<int>{0, 9}));
  EXPECT_EQ(x.slice({{3, 3, longest}}).size(), 0u);
  EXPECT_EQ(x.slice({{9, 10, longest}})[0], 9);
}
