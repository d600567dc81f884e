// Sessions whose memory is full: the oldest make room, and what is left is told as it was.
#include <cstddef>
#include <latch>
#include <string>
#include <thread>
#include <vector>

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

TEST(TraceSession, keeps_as_many_commands_as_its_limit_has_room_for) {
  constexpr std::size_t limit = 1 << 20, count = 60'000;
  constexpr std::size_t least = 48, most = 100;  // bytes of what is kept of a command and of its end
  Marker marker;
  weir::Stream s;
  Session session({.limit = limit});
  for (std::size_t i = 1; i <= count; ++i) {
    mark(s, marker);
    if (i % 100 == 0) s.synchronize();  // else the ends of what is far behind make room of its beginnings
  }
  const Timeline timeline = session.stop();
  EXPECT_LE(timeline.commands.size(), limit / least);
  EXPECT_GE(timeline.commands.size(), limit / most);
  EXPECT_EQ(timeline.dropped + timeline.commands.size(), count);
}

struct One {
  void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

// Names of graphs' nodes are beside the records, and bounded, too: those of later graphs are not kept.
TEST(TraceSession, keeps_nodes_of_graphs_as_far_as_its_limit_allows) {
  constexpr std::size_t graphs = 100;
  weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, 100'000);
  const auto named = [&](std::size_t limit) {
    std::vector<weir::Graph> all;
    Session session({.limit = limit});
    for (std::size_t i = 0; i < graphs; ++i) {
      // No two are alike, so that each has nodes of its own.
      all.push_back(weir::capture(s, [&] {
        for (std::size_t k = 0; k <= i % 10; ++k) weir::fill(s, x.slice(0, 1), static_cast<int>(k));
        weir::launch(s, x.size(), One{}, weir::inout(x));
      }));
      all.back().launch(s);
      s.synchronize();
    }
    const Timeline timeline = session.stop();
    std::size_t count = 0;
    for (const weir::trace::NodeRun& node : timeline.nodes) count += node.line != 0 ? 1 : 0;
    return count;
  };
  EXPECT_GE(named(64 << 20), 6 * graphs);  // of 650
  EXPECT_LT(named(64 << 10), 2 * graphs);
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
