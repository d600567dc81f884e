// What launches say of their arrays: the bytes that they touch of each.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

namespace {

using weir::trace::Lane;
using weir::trace::Session;
using weir::trace::Timeline;

struct Mix {
  void operator()(std::size_t, weir::View<const float>, weir::View<double>, weir::View<int>) const {}
};
struct Many {
  using Ints = weir::View<const int>;
  void operator()(std::size_t, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints, Ints,
                  Ints, Ints) const {}
};

std::vector<std::string_view> arguments_of(const Timeline& timeline) {
  std::vector<std::string_view> made;
  for (const weir::trace::Command& one : timeline.commands) {
    if (one.lane == Lane::kernel) made.push_back(timeline.text(one.arguments));
  }
  return made;
}

TEST(TraceArguments, of_launches_are_the_bytes_of_each_array_in_order) {
  const weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<float>(s, 1000);
  const auto y = weir::zeros<double>(s, 10);
  const auto z = weir::zeros<int>(s, 500);
  s.synchronize();
  Session session;
  for (int i = 0; i < 2; ++i) {
    launch(s, 1, Mix{}, in(x), out(y), inout(z));
    launch(s, 1, Mix{}, in(x.slice(0, 7)), inout(y), out(z.slice(0, 3)));
  }
  launch(s, 1, [](std::size_t) {});
  s.synchronize();
  const Timeline timeline = session.stop();
  const std::vector<std::string_view> expected = {"in 4000, out 80, inout 2000", "in 28, inout 80, out 12",
                                                  "in 4000, out 80, inout 2000", "in 28, inout 80, out 12", ""};
  EXPECT_EQ(arguments_of(timeline), expected);
  EXPECT_EQ(timeline.commands[0].bytes, 6080u) << "of all of them";
  EXPECT_EQ(timeline.commands[0].arguments, timeline.commands[2].arguments) << "what is said again is one text";
}

TEST(TraceArguments, of_many_arrays_are_not_told) {
  const weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, 10);
  Session session;
  const auto a = in(x);
  launch(s, 1, Many{}, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a);
  s.synchronize();
  const Timeline timeline = session.stop();
  EXPECT_EQ(arguments_of(timeline), (std::vector<std::string_view>{""}));
  EXPECT_EQ(timeline.commands.back().bytes, 17u * 40);
}

// Each says something else: their texts take no more room than is left for the names of kernels and files.
TEST(TraceArguments, that_are_ever_different_ones_are_told_for_a_while) {
  constexpr std::size_t count = 20'000;
  const weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<float>(s, count);
  Session session;
  for (std::size_t i = 1; i < count; ++i) {
    launch(
        s, 1, [](std::size_t, weir::View<const float>) {}, in(x.slice(0, i)));
  }
  s.synchronize();
  const Timeline timeline = session.stop();
  const std::vector<std::string_view> told = arguments_of(timeline);
  ASSERT_EQ(told.size(), count - 1);
  EXPECT_EQ(told.front(), "in 4");
  EXPECT_EQ(told[10'000], "in 40004");
  EXPECT_EQ(told.back(), "");
  EXPECT_LT(timeline.texts.size(), 17'000u);
  EXPECT_NE(timeline.name_of(timeline.commands.back()).find("lambda"), std::string_view::npos);
}

}  // namespace
