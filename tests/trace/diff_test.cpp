// Two runs side by side: lines are matched, the dearest change comes first, and conditions hold or not.
#include <cstdint>
#include <initializer_list>
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

using trace_test::us;

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

struct Work {
  const char* name;
  const char* file;  ///< null: not known
  std::uint32_t line;
  std::int64_t lasts;
  Lane lane = Lane::kernel;
};

/// One after the other, in one stream.
weir::trace::Timeline timeline_of(std::initializer_list<Work> all) {
  Made made(1);
  std::int64_t now = 0;
  std::uint32_t before = weir::trace::none;
  for (const Work& one : all) {
    const auto place = before == weir::trace::none
                           ? made.add(0, one.lane, 0, now, now + one.lasts)
                           : made.add(0, one.lane, 0, now, now + one.lasts, {{before, Tie::stream_order}});
    weir::trace::Command& command = made.timeline.commands.back();
    command.name = made.text(one.name);
    command.file = one.file == nullptr ? weir::trace::none : made.text(one.file);
    command.line = one.line;
    now += one.lasts;
    before = place;
  }
  return made.timeline;
}

/// For each line of the second run that ran, or was found in the first one: "name place before -> after".
std::string drawn(const Difference& made) {
  std::string text;
  for (const Difference::Line& line : made.lines) {
    text += line.name + " " + line.where + " " + std::to_string(line.ran[0] / us) + " -> " +
            std::to_string(line.ran[1] / us) + "\n";
  }
  return text;
}

TEST(TraceDiff, finds_lines_again_below_one_that_is_new) {
  const Difference made =
      compare(timeline_of({{"k", "p.cpp", 7, 20 * us}, {"k", "p.cpp", 8, 1 * us}, {"k", "p.cpp", 9, 5 * us}}),
              timeline_of({{"k", "p.cpp", 8, 20 * us}, {"k", "p.cpp", 9, 1 * us}, {"k", "p.cpp", 10, 5 * us}}));
  EXPECT_EQ(drawn(made), "k p.cpp:8 20 -> 20\nk p.cpp:9 1 -> 1\nk p.cpp:10 5 -> 5\n");
  EXPECT_EQ(to_text(made).find("Slower"), std::string::npos) << to_text(made);
}

TEST(TraceDiff, finds_the_one_of_several_lines_of_a_kernel_that_became_slower_though_all_have_moved) {
  const Difference made =
      compare(timeline_of({{"k", "p.cpp", 7, 20 * us}, {"k", "p.cpp", 8, 1 * us}, {"k", "p.cpp", 9, 5 * us}}),
              timeline_of({{"k", "p.cpp", 8, 20 * us}, {"k", "p.cpp", 9, 19 * us}, {"k", "p.cpp", 10, 5 * us}}));
  EXPECT_EQ(drawn(made), "k p.cpp:9 1 -> 19\nk p.cpp:8 20 -> 20\nk p.cpp:10 5 -> 5\n");
}

TEST(TraceDiff, finds_the_launch_that_is_new_among_others_of_its_kernel) {
  const auto before = timeline_of({{"k", "p.cpp", 7, 20 * us}, {"k", "p.cpp", 8, 1 * us}, {"k", "p.cpp", 9, 5 * us}});
  EXPECT_EQ(drawn(compare(before, timeline_of({{"k", "p.cpp", 7, 3 * us},
                                               {"k", "p.cpp", 8, 20 * us},
                                               {"k", "p.cpp", 9, 1 * us},
                                               {"k", "p.cpp", 10, 5 * us}}))),
            "k p.cpp:7 0 -> 3\nk p.cpp:8 20 -> 20\nk p.cpp:9 1 -> 1\nk p.cpp:10 5 -> 5\n")
      << "above the others";
  EXPECT_EQ(drawn(compare(before, timeline_of({{"k", "p.cpp", 7, 20 * us},
                                               {"k", "p.cpp", 8, 19 * us},
                                               {"k", "p.cpp", 9, 5 * us},
                                               {"k", "p.cpp", 10, 1 * us}}))),
            "k p.cpp:8 1 -> 19\nk p.cpp:10 0 -> 1\nk p.cpp:7 20 -> 20\nk p.cpp:9 5 -> 5\n")
      << "below the others, one of which is slower";
  EXPECT_EQ(drawn(compare(before, timeline_of({{"k", "p.cpp", 7, 20 * us}, {"k", "p.cpp", 8, 5 * us}}))),
            "k p.cpp:7 20 -> 20\nk p.cpp:8 5 -> 5\nk p.cpp:8 1 -> 0\n")
      << "one is gone";
}

// All take as long: only the kernels around them say which of them is new.
TEST(TraceDiff, finds_a_launch_that_is_new_by_what_is_around_it) {
  const Difference made = compare(timeline_of({{"k", "p.cpp", 10, 5 * us},
                                               {"first", "p.cpp", 11, 5 * us},
                                               {"k", "p.cpp", 12, 5 * us},
                                               {"second", "p.cpp", 13, 5 * us},
                                               {"k", "p.cpp", 14, 5 * us}}),
                                  timeline_of({{"k", "p.cpp", 10, 5 * us},
                                               {"first", "p.cpp", 11, 5 * us},
                                               {"second", "p.cpp", 12, 5 * us},
                                               {"k", "p.cpp", 13, 5 * us}}));
  EXPECT_EQ(drawn(made),
            "first p.cpp:11 5 -> 5\nk p.cpp:10 5 -> 5\nk p.cpp:13 5 -> 5\nsecond p.cpp:12 5 -> 5\nk p.cpp:12 5 -> 0\n");
}

TEST(TraceDiff, finds_files_of_another_checkout_by_the_ends_of_their_paths) {
  const Difference made = compare(timeline_of({{"k", "/home/one/app/left/main.cpp", 7, 20 * us},
                                               {"k", "/home/one/app/right/main.cpp", 7, 1 * us},
                                               {"k", "/home/one/app/old.cpp", 3, 2 * us}}),
                                  timeline_of({{"k", "/build/right/main.cpp", 7, 1 * us},
                                               {"k", "/build/left/main.cpp", 7, 20 * us},
                                               {"k", "/build/new.cpp", 4, 2 * us}}));
  EXPECT_EQ(drawn(made),
            "k /build/left/main.cpp:7 20 -> 20\nk /build/new.cpp:4 2 -> 2\nk /build/right/main.cpp:7 1 -> 1\n");
}

TEST(TraceDiff, finds_graphs_by_their_lines_and_order_whatever_their_numbers) {
  const Lane graph = Lane::graph;
  EXPECT_EQ(drawn(compare(timeline_of({{"graph 1", "p.cpp", 15, 2 * us, graph},
                                       {"graph 1", "p.cpp", 15, 2 * us, graph},
                                       {"graph 2", "p.cpp", 16, 6 * us, graph},
                                       {"graph 3", "p.cpp", 16, 6 * us, graph}}),
                          timeline_of({{"graph 2", "p.cpp", 15, 4 * us, graph},
                                       {"graph 2", "p.cpp", 15, 4 * us, graph},
                                       {"graph 3", "p.cpp", 16, 6 * us, graph},
                                       {"graph 4", "p.cpp", 16, 7 * us, graph}}))),
            "graph p.cpp:15 4 -> 8\ngraph p.cpp:16 12 -> 13\n");
  EXPECT_EQ(
      drawn(compare(timeline_of({{"graph 9", nullptr, 0, 2 * us, graph}, {"graph 10", nullptr, 0, 6 * us, graph}}),
                    timeline_of({{"graph 10", nullptr, 0, 2 * us, graph}, {"graph 11", nullptr, 0, 7 * us, graph}}))),
      "graph 11  6 -> 7\ngraph 10  2 -> 2\n")
      << "without lines";
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

TEST(TraceDiff, has_in_json_what_it_has_in_text) {
  const auto timeline = [](std::int64_t copied) {
    Made made;
    const auto kernel = made.add(0, Lane::kernel, 0, 0, 30 * us);
    made.add(0, Lane::copy_in, 2 * us, 30 * us, 30 * us + copied, {{kernel, Tie::stream_order}});
    trace_test::add_wait(made, "s0", kernel, 5 * us, 5 * us + copied);
    return made.timeline;
  };
  const Difference made = compare(timeline(10 * us), timeline(40 * us));
  const std::string text = to_json(made);
  for (const char* part :
       {R"("makespan": {"before": 40000, "after": 70000})", R"("busy": {"before": 40000, "after": 70000})",
        R"("idle": {"before": 0, "after": 0})", R"("critical": {"before": 40000, "after": 70000})",
        R"("host_waited": {"before": 10000, "after": 40000})", R"("submission": {"before": 2000, "after": 2000})",
        R"("lines": [{"name": "c1", "where": "made.cpp:2", "engine": "copy to device", "commands_before": 1, )"
        R"("commands_after": 1, "ran_before_ns": 10000, "ran_after_ns": 40000, "held_before_ns": 10000, )"
        R"("held_after_ns": 28000, "slower_ns": 48000, "why": "c1 (s0) stood behind c0 (s0) in its stream)"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in " << text;
  }
  EXPECT_NE(to_text(made).find("stood behind c0"), std::string::npos) << to_text(made);
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
