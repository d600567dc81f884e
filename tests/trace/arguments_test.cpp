// What launches say of their arrays: the bytes that they touch of each.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <thread>
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

/// What one line's launches say, of two streams, sizes and slices, by one thread after the other, in every order, and over and over again.
TEST(TraceLaunches, of_one_line_that_differ_in_one_thing_are_told_as_they_are) {
  constexpr std::size_t rounds = 2'000;  // many times what the recording compares them with
  const weir::Device cpu = weir::device("cpu");
  const weir::Stream first(cpu), second(cpu);
  const auto x = weir::zeros<float>(first, 1000);
  cpu.synchronize();
  const auto call = [&](std::size_t what) {
    launch((what & 1) != 0 ? second : first, (what & 2) != 0 ? 7 : 3, [](std::size_t, weir::View<const float>) {},
           in(x.slice(0, (what & 4) != 0 ? 20 : 10)));
  };
  std::vector<std::size_t> whats;
  std::uint32_t random = 1;
  for (std::size_t i = 0; i < rounds; ++i) {
    random = random * 1664525 + 1013904223;
    whats.push_back(random >> 28 < 8 ? whats.empty() ? 0 : whats.back()
                                     : random >> 29);  // half of them as the one before
  }
  Session session;
  const weir::Event event(cpu);
  const auto call_some = [&](std::size_t begin) {
    for (std::size_t i = begin; i < begin + rounds / 4; ++i) {
      call(whats[i]);
      if (i % 5 == 0) first.record(event);
    }
  };
  call_some(0);
  for (std::size_t thread = 1; thread < 4; ++thread) std::thread([&] { call_some(thread * rounds / 4); }).join();
  cpu.synchronize();
  const Timeline timeline = session.stop();
  std::vector<weir::trace::Command> told;
  std::copy_if(timeline.commands.begin(), timeline.commands.end(), std::back_inserter(told),
               [](const auto& one) { return one.lane == Lane::kernel; });
  ASSERT_EQ(told.size(), rounds);
  std::sort(told.begin(), told.end(), [](const auto& a, const auto& b) { return a.call < b.call; });
  for (std::size_t i = 0; i < rounds; ++i) {
    const std::size_t what = whats[i];
    EXPECT_EQ(timeline.streams[told[i].stream].id, ((what & 1) != 0 ? second : first).id()) << i;
    EXPECT_EQ(told[i].elements, (what & 2) != 0 ? 7u : 3u) << i;
    EXPECT_EQ(told[i].bytes, (what & 4) != 0 ? 80u : 40u) << i;
    EXPECT_EQ(timeline.text(told[i].arguments), (what & 4) != 0 ? "in 80" : "in 40") << i;
    EXPECT_EQ(i != 0 && told[i].thread == told[i - 1].thread, i % (rounds / 4) != 0) << i;
    EXPECT_EQ(told[i].line, told[0].line) << i;
  }
}

TEST(TraceLaunches, of_one_line_whose_kernels_and_names_differ_are_told_as_they_are) {
  struct Other {
    void operator()(std::size_t, weir::View<const float>) const {}
  };
  struct Another {
    void operator()(std::size_t, weir::View<const float>) const {}
  };
  const weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<float>(s, 10);
  s.synchronize();
  Session session;
  const auto call = [&](auto kernel, const char* name) {
    launch(s, weir::Extent{.size = 1, .name = name}, kernel, in(x));
  };
  std::vector<std::string_view> expected;
  for (int i = 0; i < 3; ++i) {
    for (const char* name : {static_cast<const char*>(nullptr), static_cast<const char*>(nullptr), "a", "b"}) {
      call(Other{}, name);
      call(Other{}, name);
      call(Another{}, name);
      for (const std::string_view kernel : {"Other", "Other", "Another"})
        expected.push_back(name != nullptr ? name : kernel);
    }
  }
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NE(timeline.name_of(timeline.commands[i]).find(expected[i]), std::string_view::npos)
        << i << ": " << timeline.name_of(timeline.commands[i]) << ", not " << expected[i];
  }
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
