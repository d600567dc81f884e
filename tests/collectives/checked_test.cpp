// Collectives under the hazard checker: it tells of a circle of them with the call that closes it, whatever closes it.
#include <chrono>

#include <weir/check.hpp>
#include <weir/graph.hpp>
#include <weir/host_call.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using std::chrono::seconds;
using weir::Errc;
using weir::in;
using weir::out;

/// Two ranks with two streams each, and two communicators of them.
struct CheckedCollectives : testing::Test {
  void SetUp() override { WEIR_NEEDS_RANKS(2u); }

  Ranks a{2, {.name = "a", .timeout = seconds(60)}};
  Ranks b{2, {.name = "b", .timeout = seconds(60)}};
};

std::size_t deadlocks(const weir::Checker& checker) {
  std::size_t count = 0;
  for (const weir::Finding& one : checker.findings()) count += one.kind == weir::FindingKind::deadlock ? 1 : 0;
  return count;
}

//  rank 0: |a| -> event -> |b|    rank 1: |b| -> event -> |a|      each on another stream than what it waits for
TEST_F(CheckedCollectives, that_events_let_wait_for_each_other_are_told_before_any_timeout) {
  weir::Checker checker({.mode = weir::CheckMode::collect});
  weir::barrier(a.streams[0], a.comms[0]);
  b.streams[0].wait(a.streams[0].record());
  weir::barrier(b.streams[0], b.comms[0]);
  weir::barrier(b.streams[1], b.comms[1]);
  a.streams[1].wait(b.streams[1].record());
  EXPECT_EQ(deadlocks(checker), 0u);
  weir::barrier(a.streams[1], a.comms[1]);
  ASSERT_EQ(deadlocks(checker), 1u);
  const weir::Finding found = checker.findings().front();
  EXPECT_NE(found.why.find("rank 1 has barrier of 'a' at "), std::string::npos) << found.why;
  EXPECT_NE(found.why.find("rank 0 has barrier of 'b' at "), std::string::npos) << found.why;
  EXPECT_NE(to_text(found).find("hazard: deadlock"), std::string::npos) << to_text(found);
  for (const Ranks* one : {&a, &b}) {
    for (const weir::Communicator& comm : one->comms) comm.abort();
    for (const weir::Stream& stream : one->streams) EXPECT_THROW(stream.synchronize(), weir::Error);
  }
}

TEST_F(CheckedCollectives, the_call_that_would_close_a_circle_is_refused_and_may_be_made_elsewhere) {
  weir::Checker checker({.mode = weir::CheckMode::throw_error});
  weir::barrier(a.streams[0], a.comms[0]);
  weir::barrier(a.streams[0], b.comms[0]);
  weir::barrier(a.streams[1], b.comms[1]);
  EXPECT_TRUE(fails_with(Errc::hazard, [&] { weir::barrier(a.streams[1], a.comms[1]); },
                         {"deadlock", "barrier of 'a'", "behind barrier of 'b'", "checked_test.cpp"}));
  weir::barrier(b.streams[1], a.comms[1]);
  a.synchronize();
  b.synchronize();
}

//  s0: |barrier| write x      s1: |barrier| write x      whoever calls last: they are beside each other. Nothing is written for real.
TEST_F(CheckedCollectives, order_what_is_before_them_and_not_what_is_behind) {
  const weir::Array<int> x = weir::zeros<int>(weir::pinned, 8);
  const auto write = [&x](const weir::Stream& stream) {
    weir::host_call(
        stream, [] {}, weir::inout(x));
  };
  for (const bool behind : {true, false}) {
    weir::Checker checker({.mode = weir::CheckMode::collect});
    if (!behind) write(a.streams[0]);
    weir::barrier(a.streams[0], a.comms[0]);
    if (behind) write(a.streams[0]);
    weir::barrier(a.streams[1], a.comms[1]);
    write(a.streams[1]);
    a.synchronize();
    checker.finish();
    EXPECT_EQ(checker.errors(), behind ? 1u : 0u) << to_text(checker.report());
  }
}

// b's stream of rank 1 comes behind a's collective by the order of a's calls alone.
TEST_F(CheckedCollectives, of_a_communicator_follow_each_other_whatever_their_streams) {
  const weir::Array<int> x = weir::zeros<int>(weir::pinned, 8);
  weir::Checker checker({.mode = weir::CheckMode::collect});
  weir::fill(a.streams[0], x, 1);
  for (std::size_t r = 0; r < 2; ++r) {
    weir::barrier(a.streams[r], a.comms[r]);
    weir::barrier(b.streams[r], a.comms[r]);
  }
  weir::fill(b.streams[1], x, 2);
  weir::synchronize();
  checker.finish();
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());
}

// A rank's calls follow each other in whatever streams, so what one writes the next may write, and who comes behind that.
TEST_F(CheckedCollectives, of_a_rank_may_use_the_same_memory_in_any_streams) {
  weir::Checker checker({.mode = weir::CheckMode::collect});
  const auto x = a.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  a.synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    weir::all_reduce(a.streams[r], a.comms[r], weir::inout(x[r]));
    weir::all_reduce(b.streams[r], a.comms[r], weir::inout(x[r]));
  }
  weir::fill(b.streams[0], x[0], 2);
  a.synchronize();
  b.synchronize();
  checker.finish();
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());
}

//  device 0: s0 |A|graph: B|   t0 |B|        device 1: s1 |B|A|     a launch is a call of all ranks
TEST_F(CheckedCollectives, that_wait_for_a_launch_in_a_circle_are_told_with_its_line) {
  const auto x = a.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  a.synchronize();  // a launch comes behind its own stream alone, and rank 1's array was written in the other one
  weir::Checker checker({.mode = weir::CheckMode::collect});
  const weir::Graph graph = weir::capture(a.streams[0], [&] {
    a.streams[1].wait(a.streams[0]);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(a.streams[r], a.comms[r], weir::inout(x[r]));
    a.streams[0].wait(a.streams[1]);
  });
  const weir::Stream t0(a.comms[0].device());
  // In the order of all ranks there is none.
  graph.launch(a.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) {
    weir::all_reduce(r == 0 ? t0 : a.streams[1], a.comms[r], weir::inout(x[r]));
    weir::barrier(a.streams[r], b.comms[r]);
  }
  a.synchronize();
  t0.synchronize();
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());

  weir::barrier(a.streams[0], b.comms[0]);
  graph.launch(a.streams[0]);
  weir::barrier(a.streams[1], a.comms[1]);
  weir::barrier(t0, a.comms[0]);
  EXPECT_EQ(deadlocks(checker), 0u);
  weir::barrier(a.streams[1], b.comms[1]);
  ASSERT_EQ(deadlocks(checker), 1u) << to_text(checker.report());
  const std::string why = checker.findings().front().why;
  EXPECT_NE(why.find("behind the launch of a graph with collectives of 'a' at "), std::string::npos) << why;
  EXPECT_NE(why.find("comes behind barrier of 'b' at "), std::string::npos) << why;
  for (const Ranks* one : {&a, &b}) {
    for (const weir::Communicator& comm : one->comms) comm.abort();
    for (const weir::Stream& stream : one->streams) {
      try {
        stream.synchronize();
      } catch (const weir::Error&) {
      }
    }
  }
  EXPECT_THROW(t0.synchronize(), weir::Error);
}

TEST_F(CheckedCollectives, in_any_right_order_are_silent) {
  weir::Checker checker({.mode = weir::CheckMode::collect});
  const auto x = a.arrays<int>(8, [](std::size_t r, std::size_t) { return r; });
  const auto y = a.zeros<int>(8);
  for (int turn = 0; turn < 20; ++turn) {
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(a.streams[r], a.comms[r], in(x[r]), out(y[r]));
      b.streams[r].wait(a.streams[r]);
      weir::barrier(b.streams[r], b.comms[r]);
      a.streams[r].wait(b.streams[r]);
      weir::CollectiveGroup group;
      weir::send(a.streams[r], a.comms[r], in(x[r]), static_cast<int>(1 - r));
      weir::receive(a.streams[r], a.comms[r], out(y[r]), static_cast<int>(1 - r));
    }
  }
  // One rank's calls first, then the other one's.
  for (std::size_t r = 0; r < 2; ++r) {
    for (int turn = 0; turn < 20; ++turn) weir::barrier(a.streams[r], (turn % 2 == 0 ? a : b).comms[r]);
  }
  a.synchronize();
  b.synchronize();
  checker.finish();
  EXPECT_EQ(checker.errors(), 0u) << to_text(checker.report());
}

TEST_F(CheckedCollectives, in_place_have_no_arguments_that_overlap) {
  weir::Checker checker({.mode = weir::CheckMode::collect});
  const auto x = a.zeros<int>(8);
  for (std::size_t r = 0; r < 2; ++r) {
    const auto part = x[r].slice(4 * r, 4 * r + 4);
    weir::all_gather(a.streams[r], a.comms[r], in(part), out(x[r]));
    weir::reduce_scatter(a.streams[r], a.comms[r], in(x[r]), out(part), weir::Plus{});
    weir::all_reduce(a.streams[r], a.comms[r], weir::inout(x[r]));
  }
  // Captured, too: all ranks in one graph.
  if (a.comms[0].device().backend() == "cpu") {
    const weir::Graph graph = weir::capture(a.streams[0], [&] {
      a.streams[1].wait(a.streams[0]);
      for (std::size_t r = 0; r < 2; ++r) {
        weir::all_gather(a.streams[r], a.comms[r], in(x[r].slice(4 * r, 4 * r + 4)), out(x[r]));
      }
      a.streams[0].wait(a.streams[1]);
    });
    a.streams[0].wait(a.streams[1]);
    graph.launch(a.streams[0]);
  }
  a.synchronize();
  checker.finish();
  EXPECT_TRUE(checker.findings().empty()) << to_text(checker.report());
}

}  // namespace
}  // namespace weir_test
