// Launches of graphs with collectives among other calls of their communicators, on any backend.
#include <cstddef>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/host_call.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::in;
using weir::inout;
using weir::out;

struct AddOne {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> x) const { x[0] += 1; }
};

std::vector<weir::Stream> streams_of(std::size_t ranks) {
  std::vector<weir::Stream> streams;
  for (std::size_t r = 0; r < ranks; ++r) streams.emplace_back(device_of(r), weir::StreamOptions{.blocking = false});
  return streams;
}

TEST(CollectivesLaunches, no_kernel_takes_the_place_of_a_captured_collective) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  const weir::Node node = graph.find("all_reduce");
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { graph.update(node, 8, AddOne{}, inout(x[0])); },
                         {"a collective is not exchanged"}));
  graph.launch(ranks.streams[0]);
  ranks.synchronize();
  EXPECT_EQ(x[0].to_host(), std::vector<int>(8, 2));
  EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 2));
}

//  t: |held|x = 5|sum|        s0: |graph: sum, y = x, x = 7|        u: |sum|        Nothing but the communicator orders them.
TEST(CollectivesLaunches, come_behind_calls_before_and_before_calls_behind_whatever_the_streams) {
  for (const std::size_t size : {1u, 2u, 3u, 4u}) {
    if (size > most_ranks()) break;
    SCOPED_TRACE(size);
    const Ranks ranks(size);
    const std::vector<weir::Stream> t = streams_of(size), u = streams_of(size);
    const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
    const auto y = ranks.zeros<int>(8);
    const weir::Graph graph = captured(ranks, [&] {
      for (std::size_t r = 0; r < size; ++r) {
        weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
        weir::copy(ranks.streams[r], y[r], x[r]);
        weir::fill(ranks.streams[r], x[r], 7);
      }
    });
    Gate gate;
    gate.hold_by_host_call(t[0]);
    for (std::size_t r = 0; r < size; ++r) {
      weir::fill(t[r], x[r], 5);
      weir::all_reduce(t[r], ranks.comms[r], inout(x[r]));
    }
    graph.launch(ranks.streams[0]);
    for (std::size_t r = 0; r < size; ++r) weir::all_reduce(u[r], ranks.comms[r], inout(x[r]));
    EXPECT_TRUE(stays(device_of(0), [&] { return !ranks.streams[0].done() && !u[size - 1].done(); }));
    gate.open();
    const int ranks_here = static_cast<int>(size);
    for (std::size_t r = 0; r < size; ++r) {
      u[r].synchronize();
      EXPECT_EQ(y[r].to_host(), std::vector<int>(8, 5 * ranks_here * ranks_here));
      EXPECT_EQ(x[r].to_host(), std::vector<int>(8, 7 * ranks_here));
    }
    for (const weir::Stream& stream : t) stream.synchronize();
  }
}

//  s0: |held|graph: sum, x = 7|        u: |sum|
TEST(CollectivesLaunches, that_their_stream_holds_hold_later_calls_in_others) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const std::vector<weir::Stream> u = streams_of(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
      weir::fill(ranks.streams[r], x[r], 7);
    }
  });
  for (int i = 0; i < 3; ++i) {
    Gate gate;
    gate.hold_by_host_call(ranks.streams[0]);
    graph.launch(ranks.streams[0]);
    graph.launch(ranks.streams[0]);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(u[r], ranks.comms[r], inout(x[r]));
    EXPECT_TRUE(stays(device_of(1), [&] { return !u[1].done(); }));
    gate.open();
    u[0].synchronize();
    u[1].synchronize();
    EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 14));
  }
}

//  s0: |graph: sum [held] x = 7|        u: |sum|
TEST(CollectivesLaunches, hold_later_calls_in_others_until_they_end) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const std::vector<weir::Stream> u = streams_of(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  Gate gate;
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    gate.hold_by_host_call(ranks.streams[0]);
    ranks.streams[1].wait(ranks.streams[0]);
    for (std::size_t r = 0; r < 2; ++r) weir::fill(ranks.streams[r], x[r], 7);
  });
  graph.launch(ranks.streams[0]);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(u[r], ranks.comms[r], inout(x[r]));
  EXPECT_TRUE(stays(device_of(1), [&] { return !u[0].done() && !u[1].done(); }));
  gate.open();
  for (const weir::Stream& stream : u) stream.synchronize();
  for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(x[r].to_host(), std::vector<int>(8, 14));
}

//  t: |held|x = 5|send to the other|        s0: |graph: sum, x = 7|        u: |send back|
TEST(CollectivesLaunches, come_behind_sends_before_and_before_sends_behind) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const std::vector<weir::Stream> t = streams_of(2), u = streams_of(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto y = ranks.zeros<int>(8);
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    weir::copy(ranks.streams[1], y[1], x[1]);
    weir::fill(ranks.streams[1], x[1], 7);
  });
  Gate gate;
  gate.hold_by_host_call(t[0]);
  weir::fill(t[0], x[0], 5);
  weir::send(t[0], ranks.comms[0], in(x[0]), 1);
  weir::receive(t[1], ranks.comms[1], out(x[1]), 0);
  graph.launch(ranks.streams[0]);
  weir::send(u[1], ranks.comms[1], in(x[1]), 0);
  weir::receive(u[0], ranks.comms[0], out(x[0]), 1);
  EXPECT_TRUE(stays(device_of(0), [&] { return !ranks.streams[0].done() && !u[0].done(); }));
  gate.open();
  u[0].synchronize();
  EXPECT_EQ(y[1].to_host(), std::vector<int>(8, 10));
  EXPECT_EQ(x[0].to_host(), std::vector<int>(8, 7));
  t[1].synchronize();
  u[1].synchronize();
}

// Half of a pair is there: who launches has to wait for the other half, and says so.
TEST(CollectivesLaunches, beside_a_send_without_its_receive_are_a_mismatch) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  {
    weir::CollectiveGroup group;
    weir::send(ranks.streams[0], ranks.comms[0], in(x[0]), 1);
    graph.launch(ranks.streams[0]);  // the group's calls are made when it ends
    group.end();
  }
  EXPECT_TRUE(fails_with(weir::Errc::collective_mismatch, [&] { graph.launch(ranks.streams[0]); },
                         {"send of 8 x", "rank 1: not called"}));
  weir::receive(ranks.streams[1], ranks.comms[1], out(x[1]), 0);
  graph.launch(ranks.streams[0]);
  ranks.synchronize();
  EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 4));
}

/// What a graph does instead of what it did is a call of another communicator's ranks.
TEST(CollectivesLaunches, are_calls_of_those_whose_collectives_the_graph_has_now) {
  if (!on_cpu()) GTEST_SKIP() << "collectives among GPUs are not exchanged";
  const Ranks ranks(2), others(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto sum = [&](const Ranks& of) {
    return captured(ranks, [&] {
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], of.comms[r], inout(x[r]));
    });
  };
  weir::Graph graph = sum(ranks);
  graph.update(sum(others));
  ranks.comms[0].abort();
  graph.launch(ranks.streams[0]);
  ranks.streams[0].synchronize();
  others.comms[0].abort();
  EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { graph.launch(ranks.streams[0]); }, {"aborted"}));
  ranks.synchronize();
  EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 2));
}

// Two graphs of two communicators, and nothing else that orders the threads.
TEST(CollectivesLaunches, of_two_threads_follow_each_other) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2), others(2);
  const auto x = ranks.zeros<int>(1);
  const auto y = ranks.zeros<int>(1);
  const auto one = [&](const Ranks& first, const Ranks& second) {
    return captured(ranks, [&] {
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], first.comms[r], inout(y[r]));
      weir::launch(ranks.streams[0], 1, AddOne{}, inout(x[0]));
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], second.comms[r], inout(y[r]));
    });
  };
  const weir::Graph a = one(ranks, others), b = one(others, ranks);
  constexpr int launches = 100;
  std::thread thread([&] {
    for (int i = 0; i < launches; ++i) b.launch(others.streams[0]);
    others.streams[0].synchronize();
  });
  for (int i = 0; i < launches; ++i) a.launch(ranks.streams[0]);
  ranks.streams[0].synchronize();
  thread.join();
  EXPECT_EQ(x[0].to_host(), std::vector<int>(1, 2 * launches));
}

}  // namespace
}  // namespace weir_test
