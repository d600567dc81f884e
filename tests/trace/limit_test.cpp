// Sessions whose memory is full: the oldest make room, and what is left is told as it was.
#include <cstddef>
#include <latch>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace {

using weir::trace::Session;
using weir::trace::State;
using weir::trace::Timeline;
using weir_test::Gate;
using weir_test::Marker;

TEST(TraceSession, drops_the_oldest_where_the_limit_is_reached_and_says_so) {
  Marker marker;
  weir::Stream s;
  Session session({.limit = 64 << 10});
  constexpr int count = 2000;
  for (int i = 1; i <= count; ++i) mark(s, marker, i);
  s.synchronize();
  const Timeline timeline = session.stop();
  EXPECT_GT(timeline.dropped, 0u);
  EXPECT_EQ(timeline.dropped + timeline.commands.size(), static_cast<std::size_t>(count));
  EXPECT_NE(timeline.note.find("dropped, the oldest first"), std::string::npos) << timeline.note;
}

// What a thread told last stays: of one that calls once that command, whose end is long gone.
TEST(TraceSession, has_no_command_whose_end_has_made_room_as_pending) {
  Marker marker;
  weir::Stream s;
  Session session({.limit = 64 << 10});
  std::latch called(1), over(1);
  std::thread other([&] {
    mark(s, marker);
    called.count_down();
    over.wait();
  });
  called.wait();
  constexpr int count = 2000;
  for (int i = 0; i < count; ++i) mark(s, marker);
  s.synchronize();
  const Timeline timeline = session.stop();
  over.count_down();
  other.join();
  for (const weir::trace::Command& command : timeline.commands) ASSERT_EQ(command.state, State::ran);
  EXPECT_EQ(timeline.dropped + timeline.commands.size(), static_cast<std::size_t>(count) + 1);
}

// Those that wait behind what makes room have not ended.
TEST(TraceSession, has_what_runs_as_pending_though_the_limit_is_reached) {
  Marker marker;
  weir::Stream s(weir::device("cpu"));
  Session session({.limit = 64 << 10});
  for (int i = 0; i < 2000; ++i) mark(s, marker);
  s.synchronize();
  Gate gate;
  gate.hold(s);
  mark(s, marker);
  const Timeline timeline = session.timeline();
  gate.open();
  s.synchronize();
  ASSERT_GE(timeline.commands.size(), 2u);
  std::size_t pending = 0;
  for (const weir::trace::Command& command : timeline.commands) pending += command.state == State::pending ? 1 : 0;
  EXPECT_EQ(pending, 2u);
}

}  // namespace
