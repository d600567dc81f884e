// What threads name by ranges: each range is its thread's, and those that have not ended are there, too.
#include <cstdlib>
#include <filesystem>
#include <latch>
#include <memory>
#include <string>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "support/child.hpp"
#include "support/gate.hpp"

namespace {

using weir::trace::NamedRange;
using weir::trace::Range;
using weir::trace::Session;
using weir::trace::Timeline;
using weir_test::Marker;

const NamedRange& range_of(const Timeline& timeline, std::string_view name) {
  static const NamedRange missing{weir::trace::none, 0, 0, -2};
  for (const NamedRange& range : timeline.ranges) {
    if (timeline.text(range.name) == name) return range;
  }
  ADD_FAILURE() << "there is no range " << name;
  return missing;
}

TEST(TraceRanges, of_threads_that_do_nothing_else_are_in_rows_of_their_own) {
  Session session;
  std::latch both(2);
  const auto names = [&](const char* name) {
    const Range range(name);
    both.arrive_and_wait();
  };
  std::thread one(names, "parse"), other(names, "decode");
  one.join();
  other.join();
  Marker marker;
  weir::Stream s;
  mark(s, marker);
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.ranges.size(), 2u);
  const std::uint32_t parses = range_of(timeline, "parse").thread, decodes = range_of(timeline, "decode").thread;
  EXPECT_NE(parses, decodes);
  EXPECT_NE(parses, timeline.commands.at(0).thread);
  EXPECT_NE(decodes, timeline.commands.at(0).thread);
}

TEST(TraceRanges, of_a_thread_are_not_those_of_one_that_ended_before) {
  Marker marker;
  weir::Stream s;
  Session session;
  std::thread([&] {
    const Range range("one");
    mark(s, marker);
    s.synchronize();
  }).join();
  std::thread([&] {
    { const Range range("reads a file"); }
    const Range range("works");
    mark(s, marker);
    s.synchronize();
  }).join();
  std::thread([] { const Range range("cleans up"); }).join();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), 2u);
  const std::uint32_t first = timeline.commands[0].thread, second = timeline.commands[1].thread;
  EXPECT_EQ(range_of(timeline, "one").thread, first);
  EXPECT_EQ(range_of(timeline, "reads a file").thread, second);
  EXPECT_EQ(range_of(timeline, "works").thread, second);
  EXPECT_NE(range_of(timeline, "cleans up").thread, first);
  EXPECT_NE(range_of(timeline, "cleans up").thread, second);
}

TEST(TraceRanges, that_are_open_when_the_recording_ends_have_no_end) {
  Marker marker;
  weir::Stream s;
  auto session = std::make_unique<Session>();
  Session later;
  {
    const Range outer("outer");
    { const Range inner("inner"); }
    const Range open("inner");
    mark(s, marker);
    s.synchronize();
    const Timeline timeline = session->timeline();
    ASSERT_EQ(timeline.ranges.size(), 3u);
    EXPECT_EQ(timeline.text(timeline.ranges[0].name), "outer");
    EXPECT_EQ(timeline.ranges[0].end, -1);
    EXPECT_GE(timeline.ranges[0].begin, 0);
    EXPECT_GE(timeline.ranges[1].end, timeline.ranges[1].begin);
    EXPECT_EQ(timeline.ranges[2].end, -1);
    EXPECT_EQ(timeline.ranges[2].thread, timeline.commands.at(0).thread);
    EXPECT_EQ(session->stop().ranges.size(), 3u);
    session.reset();
  }
  const Timeline timeline = later.stop();
  ASSERT_EQ(timeline.ranges.size(), 3u) << "each once";
  for (const NamedRange& range : timeline.ranges) EXPECT_GE(range.end, range.begin);
}

TEST(TraceRanges, that_are_open_are_kept_however_many_commands_make_room) {
  Marker marker;
  weir::Stream s;
  Session session({.limit = 64 << 10});
  const Range range("training");
  for (int i = 0; i < 2000; ++i) mark(s, marker);
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_GT(timeline.dropped, 0u);
  ASSERT_EQ(timeline.ranges.size(), 1u);
  EXPECT_EQ(timeline.ranges[0].end, -1);
}

WEIR_SCENE(ends_within_a_range) {
  Marker marker;
  weir::Stream s;  // the recording begins with the first call of Weir's
  const Range range("whole program");
  mark(s, marker);
  s.synchronize();
  std::exit(0);
}

TEST(TraceRanges, that_are_open_when_the_program_exits_are_in_the_file) {
  const auto file = std::filesystem::temp_directory_path() / ("weir_ranges" + std::to_string(getpid()) + ".json");
  const weir_test::Outcome outcome = weir_test::play("ends_within_a_range", {"WEIR_TRACE=" + file.string()});
  EXPECT_TRUE(outcome.ended) << outcome.output;
  const Timeline timeline = weir::trace::load(file);
  std::filesystem::remove(file);
  EXPECT_EQ(range_of(timeline, "whole program").end, -1);
}

}  // namespace
