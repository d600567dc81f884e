// Collectives in graphs, on any backend.
#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/graph_file.hpp>
#include <weir/host_call.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::in;
using weir::inout;
using weir::out;

TEST(CollectivesCaptured, replays_and_plain_calls_follow_each_other) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(1000, [](std::size_t, std::size_t) { return 1; });
  weir::Graph graph = captured(ranks, [&] {
    for (int i = 0; i < 2; ++i) {
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    }
  });
  EXPECT_EQ(graph.nodes().size(), 2u);
  for (int i = 0; i < 3; ++i) graph.launch(ranks.streams[0]);
  ranks.streams[0].synchronize();
  EXPECT_EQ(x[0].to_host(), std::vector<int>(1000, 64));
  EXPECT_EQ(x[1].to_host(), std::vector<int>(1000, 64));
  const weir::Graph copy = graph.clone();
  copy.launch(ranks.streams[0]);
  ranks.streams[0].synchronize();
  EXPECT_EQ(x[1].to_host(), std::vector<int>(1000, 256));
}

TEST(CollectivesCaptured, are_in_no_file) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.zeros<int>(many);
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  try {
    weir::save(graph, "/dev/null");
    ADD_FAILURE() << "was not refused";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::not_supported) << error.what();
    EXPECT_NE(std::string_view(error.what()).find("a collective cannot be in a file"), std::string_view::npos)
        << error.what();
  }
}

TEST(CollectivesCaptured, what_a_rank_puts_behind_its_part_comes_behind_the_collective) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.zeros<int>(100);
  const auto y = ranks.zeros<int>(100);
  const weir::Graph graph = captured(ranks, [&] {
    weir::fill(ranks.streams[0], x[0], 5);
    weir::broadcast(ranks.streams[0], ranks.comms[0], inout(x[0]), 0);
    weir::fill(ranks.streams[0], x[0], 6);
    weir::broadcast(ranks.streams[1], ranks.comms[1], inout(x[1]), 0);
    weir::copy(ranks.streams[1], y[1], x[1]);
  });
  for (int i = 0; i < 3; ++i) {
    graph.launch(ranks.streams[0]);
    ranks.streams[0].synchronize();
    EXPECT_EQ(y[1].to_host(), std::vector<int>(100, 5));
    EXPECT_EQ(x[0].to_host(), std::vector<int>(100, 6));
  }
}

TEST(CollectivesCaptured, every_kind_does_what_it_does_outside) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t i) { return 10 * r + i; });
  std::vector<weir::Array<int>> y[9];
  for (auto& one : y) one = ranks.zeros<int>(4);
  const auto& s = ranks.streams;
  const auto& c = ranks.comms;
  const auto replayed = [&](std::size_t kind, const auto& call, const std::vector<int>& first,
                            const std::vector<int>& second) {
    SCOPED_TRACE(kind);
    const weir::Graph graph = captured(ranks, [&] {
      for (std::size_t r = 0; r < 2; ++r) call(r, y[kind][r]);
    });
    for (int i = 0; i < 2; ++i) {
      for (std::size_t r = 0; r < 2; ++r) weir::fill(s[r], y[kind][r], 7);
      ranks.synchronize();
      graph.launch(s[0]);
      s[0].synchronize();
      EXPECT_EQ(y[kind][0].to_host(), first);
      EXPECT_EQ(y[kind][1].to_host(), second);
    }
  };
  const auto half = [](const weir::Array<int>& a) { return a.slice(0, 2); };
  replayed(0, [&](std::size_t r, auto& to) { weir::all_reduce(s[r], c[r], in(x[r]), out(to), weir::Maximum{}); },
           {10, 11, 12, 13}, {10, 11, 12, 13});
  replayed(1, [&](std::size_t r, auto& to) { weir::reduce(s[r], c[r], in(x[r]), out(to), weir::Plus{}, 1); },
           {7, 7, 7, 7}, {10, 12, 14, 16});
  replayed(2, [&](std::size_t r, auto& to) { weir::broadcast(s[r], c[r], inout(to), 1); }, {7, 7, 7, 7}, {7, 7, 7, 7});
  replayed(3, [&](std::size_t r, auto& to) { weir::all_gather(s[r], c[r], in(half(x[r])), out(to)); }, {0, 1, 10, 11},
           {0, 1, 10, 11});
  replayed(4, [&](std::size_t r, auto& to) { weir::reduce_scatter(s[r], c[r], in(x[r]), out(half(to))); },
           {10, 12, 7, 7}, {14, 16, 7, 7});
  replayed(5, [&](std::size_t r, auto& to) { weir::gather(s[r], c[r], in(half(x[r])), out(to), 0); }, {0, 1, 10, 11},
           {7, 7, 7, 7});
  replayed(6, [&](std::size_t r, auto& to) { weir::scatter(s[r], c[r], in(x[r]), out(half(to)), 1); }, {10, 11, 7, 7},
           {12, 13, 7, 7});
  replayed(7, [&](std::size_t r, auto& to) { weir::all_to_all(s[r], c[r], in(x[r]), out(to)); }, {0, 1, 10, 11},
           {2, 3, 12, 13});
  replayed(8,
           [&](std::size_t r, auto& to) {
             r == 0 ? weir::send(s[0], c[0], in(x[0]), 1) : weir::receive(s[1], c[1], out(to), 0);
             weir::barrier(s[r], c[r]);
           },
           {7, 7, 7, 7}, {0, 1, 2, 3});
}

TEST(CollectivesCaptured, a_graph_outlives_its_communicators_and_replays_outlive_the_graph) {
  WEIR_NEEDS_RANKS(2u);
  Ranks ranks(2);
  const std::vector<weir::Stream>& s = ranks.streams;
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto y = ranks.zeros<int>(8);
  std::optional<weir::Graph> graph(captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(s[r], ranks.comms[r], inout(x[r]));
  }));
  ranks.comms.clear();
  graph->launch(s[0]);
  const Ranks next(2);  // while the graph has what NCCL has of the others
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(next.streams[r], next.comms[r], inout(y[r]));
  next.synchronize();
  Gate gate;
  gate.hold_by_host_call(s[0]);
  graph->launch(s[0]);
  graph.reset();
  for (std::size_t r = 0; r < 2; ++r) {
    next.streams[r].wait(s[0]);
    weir::all_reduce(next.streams[r], next.comms[r], inout(x[r]));
  }
  gate.open();
  EXPECT_EQ(x[1].to_host(), ints(8, 8));
}

//  s0: |gate|graph: all_reduce|all_reduce
TEST(CollectivesCaptured, a_launch_waits_for_what_may_fail_and_later_calls_wait_for_it) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    weir::fill(ranks.streams[1], x[1], 5);
  });
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  graph.launch(ranks.streams[0]);
  graph.launch(ranks.streams[0]);  // 2 and 5, then 7 and 5
  ranks.streams[1].wait(ranks.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  EXPECT_FALSE(ranks.streams[0].done());
  gate.open();
  ranks.synchronize();
  EXPECT_EQ(x[0].to_host(), ints(8, 12));
  EXPECT_EQ(x[1].to_host(), ints(8, 12));
}

TEST(CollectivesCaptured, a_launch_behind_a_failure_does_not_run) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto y = ranks.zeros<int>(8);
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
      weir::copy(ranks.streams[r], y[r], x[r]);
    }
  });
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  weir::host_call(ranks.streams[0], [] { throw std::runtime_error("burst"); });
  graph.launch(ranks.streams[0]);
  weir::fill(ranks.streams[0], y[0], 3);
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { ranks.streams[0].synchronize(); }, {"burst"}));
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[r].to_host(), ints(8, 1));
    EXPECT_EQ(y[r].to_host(), ints(8, 0));
  }
  // The communicator has not failed, and neither has the graph.
  graph.launch(ranks.streams[0]);
  ranks.streams[0].synchronize();
  EXPECT_EQ(y[1].to_host(), ints(8, 2));
}

//  s0: |all_reduce of others|graph|   and only then does rank 1 of the others call
TEST(CollectivesCaptured, a_launch_behind_ranks_that_have_yet_to_call_hangs_nobody) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto others = weir::communicators(devices_of(2));
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto y = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 3; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  weir::all_reduce(ranks.streams[0], others[0], inout(y[0]));
  graph.launch(ranks.streams[0]);
  weir::all_reduce(ranks.streams[1], others[1], inout(y[1]));
  ranks.synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[r].to_host(), ints(8, 2));
    EXPECT_EQ(y[r].to_host(), ints(8, 6));
  }
}

TEST(CollectivesCaptured, an_update_does_not_reach_a_launch_that_waits) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  weir::Graph graph = captured(ranks, [&] {
    weir::fill(ranks.streams[0], x[0], 1);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  graph.launch(ranks.streams[0]);
  const auto copy = weir::zeros<int>(ranks.streams[0], 8);
  weir::copy(ranks.streams[0], copy, x[0]);
  const weir::Node fill = graph.nodes()[0].node;
  const weir::Node sum = graph.nodes()[1].node;
  graph.disable(fill);
  graph.launch(ranks.streams[0]);
  gate.open();
  ranks.streams[0].synchronize();
  EXPECT_EQ(copy.to_host(), ints(8, 2));
  EXPECT_EQ(x[0].to_host(), ints(8, 4));
  graph.disable(sum);
  graph.launch(ranks.streams[0]);
  EXPECT_EQ(x[0].to_host(), ints(8, 4));
  graph.enable(sum);
  graph.launch(ranks.streams[0]);
  EXPECT_EQ(x[0].to_host(), ints(8, 8));
}

TEST(CollectivesCaptured, who_waits_for_an_event_of_a_launch_that_waits_comes_behind_it) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const auto y = ranks.zeros<int>(8);
  const weir::Event event;
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    weir::record_external(ranks.streams[0], event);
  });
  const weir::Stream other(device_of(0));
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  graph.launch(ranks.streams[0]);
  other.wait(event);
  weir::copy(other, y[0], x[0]);
  gate.open();
  other.synchronize();
  EXPECT_EQ(y[0].to_host(), ints(8, 2));
}

TEST(CollectivesCaptured, communicators_in_opposite_order_are_a_cycle) {
  if (on_cpu()) GTEST_SKIP() << "host kernels wait for nobody";
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto others = weir::communicators(devices_of(2));
  const auto x = ranks.zeros<int>(4);
  ranks.synchronize();
  weir::capture_begin(ranks.streams[0]);
  ranks.streams[1].wait(ranks.streams[0]);
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  weir::all_reduce(ranks.streams[0], others[0], inout(x[0]));
  weir::all_reduce(ranks.streams[1], others[1], inout(x[1]));
  EXPECT_TRUE(fails_with(weir::Errc::graph_cycle,
                         [&] { weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1])); }, {}));
  EXPECT_TRUE(error_of([&] { static_cast<void>(weir::capture_end(ranks.streams[0])); }));
}

TEST(CollectivesCaptured, a_launch_is_a_call_of_all_ranks) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2, {.name = "grads"});
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  EXPECT_TRUE(fails_with(weir::Errc::collective_mismatch, [&] { graph.launch(ranks.streams[0]); },
                         {"grads", "rank 0: all_reduce", "rank 1: not called", "captured_test.cpp"}));
  weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1]));
  graph.launch(ranks.streams[0]);
  ranks.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(8, 4));
  ranks.comms[1].abort();
  EXPECT_TRUE(
      fails_with(weir::Errc::rank_failed, [&] { graph.launch(ranks.streams[0]); }, {"grads", "rank 1 aborted"}));
  ranks.synchronize();
}

TEST(CollectivesCaptured, a_launch_that_waits_ends_with_its_communicator) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2, {.name = "grads"});
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  graph.launch(ranks.streams[0]);
  ranks.comms[0].abort();
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { ranks.streams[0].synchronize(); },
                         {"launch", "communicator of the graph failed"}));
  EXPECT_EQ(x[0].to_host(), ints(8, 1));
}

//  device 0: s0 |A|graph: B|   t0 |B|        device 1: s1 |B|A|     A waits for B, which comes behind the graph, which waits for A
TEST(CollectivesCaptured, a_launch_that_closes_a_circle_of_calls_is_a_mismatch_with_its_line) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2, {.name = "grads"});
  const auto others = weir::communicators(devices_of(2), {.name = "losses"});
  const weir::Stream t0(device_of(0));
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  ranks.synchronize();
  weir::barrier(ranks.streams[0], others[0]);
  graph.launch(ranks.streams[0]);
  weir::barrier(ranks.streams[1], ranks.comms[1]);
  weir::barrier(t0, ranks.comms[0]);
  weir::barrier(ranks.streams[1], others[1]);
  const auto is_told = [&](const weir::Stream& stream) {
    return fails_with(weir::Errc::collective_mismatch, [&] { stream.synchronize(); },
                      {"the launch of a graph with collectives of 'grads' [", "captured_test.cpp", "behind barrier",
                       "'losses'", "each waits for another"});
  };
  EXPECT_TRUE(is_told(ranks.streams[1]));
  EXPECT_TRUE(is_told(t0));
  EXPECT_TRUE(is_told(ranks.streams[0]));
}

//  s0: |graph|      u0, u1: |held|barrier|    of the same communicator, before the launch
TEST(CollectivesCaptured, a_launch_that_is_ready_waits_for_calls_before_it_as_long_as_a_rank_does) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2, {.name = "grads", .timeout = std::chrono::milliseconds(150)});
  const Ranks held(2);  // for their streams
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  const weir::Graph graph = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  ranks.synchronize();
  Gate gate;
  gate.hold_by_host_call(held.streams[0]);
  held.streams[1].wait(held.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::barrier(held.streams[r], ranks.comms[r]);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));  // by a worker: this thread would run it when it waits
  graph.launch(ranks.streams[0]);
  EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { ranks.streams[0].synchronize(); },
                         {"launch", "communicator of the graph failed"}));
  EXPECT_TRUE(fails_with(weir::Errc::collective_timeout, [&] { graph.launch(ranks.streams[0]); },
                         {"the launch of a graph with its collectives [", "waited 0.15 s behind barrier",
                          "rank 0 (its stream did not come to it), rank 1 (its stream"}));
  gate.open();
  for (const weir::Stream& stream : held.streams) {
    EXPECT_TRUE(fails_with(weir::Errc::collective_timeout, [&] { stream.synchronize(); }));
  }
  EXPECT_EQ(x[0].to_host(), ints(8, 1));
}

TEST(CollectivesCaptured, what_a_graph_cannot_do_is_refused_and_nothing_has_changed) {
  if (on_cpu()) GTEST_SKIP() << "this is said of GPUs";
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const auto shorts = ranks.zeros<std::int16_t>(8);
  const auto condition = weir::zeros<int>(ranks.streams[0], 1);
  const auto square = weir::zeros<int>(ranks.streams[0], {4, 4});
  const auto column = square.slice({{0, 4}, {0, 1}});
  const weir::Graph child = captured(ranks, [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  });
  const weir::Stream& s = ranks.streams[0];
  const weir::Graph graph = captured(ranks, [&] {
    const auto refused = [&](weir::Errc code, const auto& call, std::string_view why) {
      EXPECT_TRUE(fails_with(code, call, {why}));
    };
    refused(
        weir::Errc::capture_unsupported, [&] { weir::all_reduce(s, ranks.comms[0], inout(shorts[0])); }, "16 bits");
    refused(
        weir::Errc::capture_unsupported, [&] { weir::broadcast(s, ranks.comms[0], inout(column), 0); }, "strides");
    refused(
        weir::Errc::capture_unsupported, [&] { child.launch(s); }, "inside of another");
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    weir::host_call(s, [] {});
    refused(
        weir::Errc::capture_unsupported, [&] { weir::all_reduce(s, ranks.comms[0], inout(x[0])); }, "host function");
  });
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(8, 3));
  const weir::Graph body = captured(ranks, [&] {
    weir::capture_if(s, condition, [&] {
      EXPECT_TRUE(
          fails_with(weir::Errc::not_supported, [&] { weir::all_reduce(s, ranks.comms[0], inout(x[0])); }, {"body"}));
      weir::fill(s, x[0], 0);
    });
  });
}

}  // namespace
}  // namespace weir_test
