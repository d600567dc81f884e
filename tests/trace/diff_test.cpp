// Two runs side by side: lines are matched, the dearest change comes first, and conditions hold or not.
#include <string>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::Lane;
using trace_test::Made;
using trace_test::Tie;
using weir::trace::Difference;

constexpr std::int64_t us = 1000;

/// Kernels a, b, a, of which the last is at another line in the second run.
Made run(std::int64_t first, std::int64_t second, std::uint32_t last_line) {
  Made made;
  const auto add = [&](const char* name, std::uint32_t line, std::int64_t begin, std::int64_t lasts) {
    const auto place = made.add(0, Lane::kernel, 0, begin, begin + lasts);
    if (place > 0) {
      made.timeline.dependencies.push_back({place - 1, Tie::stream_order});
      made.timeline.commands.back().dependency_count = 1;
    }
    made.timeline.commands.back().name = made.text(name);
    made.timeline.commands.back().line = line;
  };
  add("a", 1, 0, first);
  add("b", 2, first, second);
  add("a", last_line, first + second, 10 * us);
  return made;
}

TEST(TraceDiff, matches_lines_by_name_and_place_and_tells_the_dearest_first) {
  const Difference made = compare(run(10 * us, 20 * us, 3).timeline, run(11 * us, 60 * us, 7).timeline);
  ASSERT_EQ(made.lines.size(), 3u);
  EXPECT_EQ(made.lines[0].name, "b");
  EXPECT_EQ(made.lines[0].ran[0], 20 * us);
  EXPECT_EQ(made.lines[0].ran[1], 60 * us);
  EXPECT_EQ(made.lines[1].where, "made.cpp:1");
  EXPECT_EQ(made.lines[2].where, "made.cpp:7") << "it has moved";
  EXPECT_EQ(made.lines[2].ran[0], 10 * us);
  EXPECT_NE(to_text(made).find("40 us: b, made.cpp:2"), std::string::npos) << to_text(made);
}

TEST(TraceDiff, says_what_held_a_line_that_became_slower) {
  const auto timeline = [](Lane lane) {
    Made made;
    const auto kernel = made.add(0, Lane::kernel, 0, 0, 30 * us);
    made.add(0, lane, 0, 30 * us, 40 * us, {{kernel, Tie::stream_order}});
    made.timeline.commands.back().lane = Lane::copy_in;
    if (lane == Lane::copy_in) return made.timeline;
    made.timeline.commands.back().begin = 0;
    made.timeline.commands.back().end = 10 * us;
    made.timeline.commands.back().dependency_count = 0;
    return made.timeline;
  };
  const Difference made = compare(timeline(Lane::fill), timeline(Lane::copy_in));
  EXPECT_EQ(made.lines[0].name, "c1");
  EXPECT_EQ(made.lines[0].held[1], 10 * us);
  EXPECT_NE(made.lines[0].why.find("stood behind c0"), std::string::npos) << made.lines[0].why;
}

TEST(TraceDiff, conditions_hold_or_are_errors) {
  const Difference made = compare(run(10 * us, 20 * us, 3).timeline, run(10 * us, 40 * us, 3).timeline);
  EXPECT_TRUE(holds("makespan > 1.05x", made));
  EXPECT_TRUE(holds("makespan >= 1.5x", made));
  EXPECT_FALSE(holds("makespan>1.5x", made));
  EXPECT_TRUE(holds("busy <= 60 us", made));
  EXPECT_FALSE(holds("idle > 0ns", made));
  EXPECT_TRUE(holds("critical < 1 ms", made));
  for (const char* wrong : {"", "speed > 1x", "makespan", "makespan >", "makespan > 1", "makespan > 1 h",
                            "makespan = 1x", "makespan > 1x 2", "makespan > 1.2.3x"}) {
    EXPECT_THROW(holds(wrong, made), weir::Error) << wrong;
  }
}

}  // namespace
