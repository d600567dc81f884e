// Graphs with calls of ranks that are processes: each process captures and replays its own.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/graph_file.hpp>

#include "ranks/world.hpp"
#include "support/gate.hpp"

namespace {

using ranks_test::is_rank;
using ranks_test::shared;

constexpr std::size_t few = 100;
constexpr std::size_t many = 70'000;  ///< elements: their messages wait for who receives them, and NCCL moves them

class OnRanksCaptured : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
    rank_ = shared().rank();
    size_ = shared().size();
  }

  int next() const { return (rank_ + 1) % size_; }
  int previous() const { return (rank_ + size_ - 1) % size_; }
  /// 1 + 2 + ... of all ranks.
  int sum_of_all() const { return size_ * (size_ + 1) / 2; }

  weir::Array<int> filled(std::size_t count, int value) const { return weir::full(s_, count, value); }
  template <class A>
  static void expect_all(const char* what, const A& array, int value) {
    const std::vector<int> host = array.to_host();
    const auto other = std::find_if(host.begin(), host.end(), [&](int one) { return one != value; });
    if (other == host.end()) return;
    ADD_FAILURE() << what << ": element " << other - host.begin() << " is " << *other << ", not " << value;
  }
  template <class F>
  static void expect_refused(weir::Errc code, const char* text, F&& call) {
    try {
      call();
      ADD_FAILURE() << "was not refused: " << text;
    } catch (const weir::Error& error) {
      EXPECT_EQ(error.errc(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }

  int rank_ = 0;
  int size_ = 1;
  const weir::Stream s_{ranks_test::device(), {.name = "captured"}};
};

TEST_F(OnRanksCaptured, a_sum_is_a_node_and_each_launch_makes_the_call_again) {
  for (const std::size_t count : {few, many}) {
    const auto x = filled(count, 0);
    const auto y = filled(count, 0);
    const auto z = filled(count, 0);
    weir::Graph graph = weir::capture(s_, [&] {
      weir::copy(s_, y, x);
      weir::all_reduce(s_, shared(), weir::inout(y));
      weir::copy(s_, z, y);
    });
    ASSERT_EQ(graph.size(), 3u);
    const weir::NodeInfo node = graph.nodes()[1];
    EXPECT_EQ(node.kind, weir::NodeKind::launch);
    EXPECT_EQ(node.name, "all_reduce");
    EXPECT_EQ(node.stream_name, "captured");
    EXPECT_GT(node.where.line(), 0u);
    expect_all("nothing runs in a capture", z, 0);
    for (int turn = 1; turn <= 3; ++turn) {
      weir::fill(s_, x, turn * (rank_ + 1));
      graph.launch(s_);
      // Calls of all kinds are in one order.
      weir::all_reduce(s_, shared(), weir::inout(y));
      expect_all("the sum", z, turn * sum_of_all());
      expect_all("the sum of sums", y, turn * sum_of_all() * size_);
    }
  }
}

TEST_F(OnRanksCaptured, every_kind_of_call_is_captured) {
  const auto ranks = static_cast<std::size_t>(size_);
  const auto mine = filled(few, rank_ + 1);
  const auto all = filled(few * ranks, rank_ + 1);
  const auto gathered = filled(few * ranks, 0);
  const auto at_root = filled(few * ranks, -1);
  const auto part = filled(few, 0);
  const auto scattered = filled(few, 0);
  const auto swapped = filled(few * ranks, 0);
  const auto reduced = filled(few, -1);
  const auto from_last = filled(few, rank_ + 1);
  const weir::Graph graph = weir::capture(s_, [&] {
    weir::all_gather(s_, shared(), weir::in(mine), weir::out(gathered));
    weir::gather(s_, shared(), weir::in(mine), weir::out(at_root), 0);
    weir::scatter(s_, shared(), weir::in(gathered), weir::out(scattered), 0);
    weir::reduce_scatter(s_, shared(), weir::in(all), weir::out(part), weir::Plus{});
    weir::all_to_all(s_, shared(), weir::in(all), weir::out(swapped));
    weir::reduce(s_, shared(), weir::in(mine), weir::out(reduced), weir::Maximum{}, 0);
    weir::broadcast(s_, shared(), weir::inout(from_last), size_ - 1);
    weir::barrier(s_, shared());
  });
  EXPECT_EQ(graph.size(), 8u);
  graph.launch(s_);
  graph.launch(s_);
  s_.synchronize();
  for (int r = 0; r < size_; ++r) {
    const auto at = static_cast<std::size_t>(r) * few;
    expect_all("all_gather", gathered.slice(at, at + few), r + 1);
    expect_all("all_to_all", swapped.slice(at, at + few), r + 1);
  }
  expect_all("gather", at_root.slice(few, 2 * few), rank_ == 0 ? 2 : -1);
  expect_all("scatter", scattered, rank_ + 1);
  expect_all("reduce_scatter", part, sum_of_all());
  expect_all("reduce", reduced, rank_ == 0 ? size_ : -1);
  expect_all("broadcast", from_last, size_);
}

TEST_F(OnRanksCaptured, neighbours_exchange_by_a_group_or_by_two_streams) {
  for (const std::size_t count : {few, many}) {
    const auto x = filled(count, 0);
    const auto y = filled(count, 0);
    const weir::Graph by_group = weir::capture(s_, [&] {
      const weir::CollectiveGroup group;
      weir::send(s_, shared(), weir::in(x), next());
      weir::receive(s_, shared(), weir::out(y), previous());
    });
    const auto nodes = by_group.nodes();
    ASSERT_EQ(nodes.size(), 2u);
    EXPECT_TRUE(nodes[0].depends.empty() && nodes[1].depends.empty());
    const weir::Stream other(ranks_test::device(), {.blocking = false});
    const weir::Graph by_streams = weir::capture(s_, [&] {
      other.wait(s_);
      weir::send(s_, shared(), weir::in(x), next());
      weir::receive(other, shared(), weir::out(y), previous());
      s_.wait(other);
    });
    int value = 0;
    for (const weir::Graph* graph : {&by_group, &by_streams, &by_group}) {
      value += 10;
      weir::fill(s_, x, value + rank_);
      graph->launch(s_);
      expect_all("what the neighbour sent", y, value + previous());
    }
  }
}

TEST_F(OnRanksCaptured, a_group_of_sums_is_one_unit) {
  const auto x = filled(few, rank_ + 1);
  const auto y = filled(few, 2 * (rank_ + 1));
  const auto z = filled(few, 0);
  const weir::Graph graph = weir::capture(s_, [&] {
    weir::copy(s_, z, x);
    {
      const weir::CollectiveGroup group;
      weir::all_reduce(s_, shared(), weir::inout(x));
      weir::all_reduce(s_, shared(), weir::inout(y));
    }
    weir::copy(s_, z, y);
  });
  const auto nodes = graph.nodes();
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(nodes[3].depends.size(), 2u) << "what follows comes behind both";
  graph.launch(s_);
  expect_all("the first", x, sum_of_all());
  expect_all("the second", z, 2 * sum_of_all());
}

TEST_F(OnRanksCaptured, sums_of_a_group_that_have_what_others_give_follow_them) {
  const auto x = filled(few, rank_ + 1);
  const weir::Graph graph = weir::capture(s_, [&] {
    const weir::CollectiveGroup group;
    weir::all_reduce(s_, shared(), weir::inout(x));
    weir::all_reduce(s_, shared(), weir::inout(x));
  });
  graph.launch(s_);
  expect_all("the sum of sums", x, size_ * sum_of_all());
}

TEST_F(OnRanksCaptured, what_is_beside_a_call_runs_while_that_waits_for_other_ranks) {
  const weir::Communicator words = ranks_test::make({.name = "words"});
  const weir::Stream other(ranks_test::device(), {.blocking = false});
  const auto x = filled(few, 1);
  const weir::Stream aside(ranks_test::device(), {.blocking = false});
  const auto word = weir::full(aside, 1, 0);
  const weir_test::Marker before, beside, behind;
  const auto note = [](weir::StreamRef stream, const weir_test::Marker& marker) {
    weir::host_call(stream, [word = marker.word()] { weir_test::store_word(word, 1); });
  };
  const weir::Graph graph = weir::capture(s_, [&] {
    note(s_, before);
    other.wait(s_);
    weir::all_reduce(other, shared(), weir::inout(x));
    note(s_, beside);
    s_.wait(other);
    note(s_, behind);
  });
  if (rank_ == 0) {
    graph.launch(s_);
    ASSERT_TRUE(weir_test::eventually([&] { return beside.value() == 1; })) << "nobody else has called";
    EXPECT_EQ(before.value(), 1);
    EXPECT_EQ(behind.value(), 0);
    EXPECT_FALSE(s_.done());
  }
  weir::broadcast(aside, words, weir::inout(word), 0);
  aside.synchronize();
  if (rank_ != 0) graph.launch(s_);
  expect_all("the sum", x, size_);
  EXPECT_EQ(behind.value(), 1);
}

TEST_F(OnRanksCaptured, a_call_comes_behind_what_its_stream_had) {
  const auto x = filled(few, rank_ + 1);
  weir_test::Gate gate;
  const weir::Graph graph = weir::capture(s_, [&] {
    if (rank_ == 0) gate.hold_by_host_call(s_);
    weir::all_reduce(s_, shared(), weir::inout(x));
  });
  graph.launch(s_);
  if (rank_ == 0) {
    ASSERT_TRUE(weir_test::eventually([&] { return gate.begun() == 1; }));
    EXPECT_FALSE(s_.done());
    gate.open();
  }
  expect_all("the sum", x, sum_of_all());
}

TEST_F(OnRanksCaptured, memory_made_in_the_capture_lasts_from_part_to_part) {
  const auto y = filled(few, 0);
  const weir::Graph graph = weir::capture(s_, [&] {
    const auto temporary = weir::full(s_, few, rank_ + 1);
    weir::all_reduce(s_, shared(), weir::inout(temporary));
    weir::copy(s_, y, temporary);
  });
  for (int turn = 0; turn < 2; ++turn) {
    weir::fill(s_, y, 0);
    graph.launch(s_);
    expect_all("the sum", y, sum_of_all());
  }
}

TEST_F(OnRanksCaptured, nodes_are_changed_but_no_call_is_exchanged) {
  const auto x = filled(few, 0);
  const auto y = filled(few, 0);
  weir::Graph graph = weir::capture(s_, [&] {
    weir::fill(s_, x, 1);
    weir::all_reduce(s_, shared(), weir::in(x), weir::out(y));
    weir::all_reduce(s_, shared(), weir::inout(y));
  });
  const auto nodes = graph.nodes();
  graph.disable(nodes[2].node);
  EXPECT_FALSE(graph.enabled(nodes[2].node));
  graph.launch(s_);
  expect_all("without the second", y, size_);
  graph.enable(nodes[2].node);
  graph.disable(nodes[0].node);
  weir::fill(s_, x, 2);
  graph.launch(s_);
  expect_all("without the fill", y, 2 * size_ * size_);
  graph.enable(nodes[0].node);
  const weir::Graph clone = graph.clone();
  clone.launch(s_);
  expect_all("the clone", y, size_ * size_);
  const weir::Graph others = weir::capture(s_, [&] {
    weir::fill(s_, x, 3);
    weir::all_reduce(s_, shared(), weir::in(x), weir::out(y));
    weir::all_reduce(s_, shared(), weir::inout(y));
  });
  expect_refused(weir::Errc::invalid_value, "a collective among GPUs or processes is not exchanged",
                 [&] { graph.update(others); });
  expect_refused(weir::Errc::not_supported, "has the extent of its arrays",
                 [&] { graph.resize(nodes[1].node, weir::Shape(7)); });
  const auto kernel = [](std::size_t, weir::View<int>) {};
  if (s_.device().backend() == "cpu") {
    expect_refused(weir::Errc::not_supported, "a collective is not exchanged",
                   [&] { graph.update(nodes[1].node, few, kernel, weir::out(x)); });
  }
  graph.launch(s_);
  expect_all("it stays as it was", y, size_ * size_);
}

TEST_F(OnRanksCaptured, it_is_in_no_graph_inside_of_another_and_in_no_body) {
  const auto x = filled(few, 1);
  const auto condition = filled(1, 1);
  const weir::Graph graph = weir::capture(s_, [&] { weir::all_reduce(s_, shared(), weir::inout(x)); });
  expect_refused(weir::Errc::capture_unsupported, "the graph has collectives among processes",
                 [&] { static_cast<void>(weir::capture(s_, [&] { graph.launch(s_); })); });
  expect_refused(weir::Errc::not_supported, "in the body of a conditional node", [&] {
    static_cast<void>(weir::capture(
        s_, [&] { weir::capture_if(s_, condition, [&] { weir::all_reduce(s_, shared(), weir::inout(x)); }); }));
  });
  graph.launch(s_);
  expect_all("the graph", x, size_);
}

TEST_F(OnRanksCaptured, calls_are_in_no_file) {
  const auto x = filled(few, 1);
  const weir::Graph graph = weir::capture(s_, [&] { weir::broadcast(s_, shared(), weir::inout(x), 0); });
  expect_refused(weir::Errc::not_supported, "a collective cannot be in a file",
                 [&] { weir::save(graph, "/dev/null"); });
}

TEST_F(OnRanksCaptured, a_launch_whose_communicator_is_gone_does_nothing) {
  const auto x = filled(few, 1);
  auto gone = std::make_unique<weir::Communicator>(ranks_test::make({.name = "gone"}));
  const weir::Graph graph = weir::capture(s_, [&] {
    weir::fill(s_, x, 5);
    weir::all_reduce(s_, *gone, weir::inout(x));
  });
  weir::barrier(s_, shared());  // all have captured
  s_.synchronize();
  gone.reset();
  expect_refused(weir::Errc::invalid_handle, "it was destroyed, and the graph calls it", [&] { graph.launch(s_); });
  expect_all("nothing was launched", x, 1);
  weir::barrier(s_, shared());  // nobody ends before all have seen that
  s_.synchronize();
}

TEST_F(OnRanksCaptured, streams_of_the_capture_may_be_gone) {
  const weir::Communicator all = ranks_test::make({.name = "all"});
  const weir::Communicator alone = all.split(rank_, 0);
  const auto x = filled(few, 1);
  const auto y = filled(few, 1);
  const weir::Graph graph = weir::capture(s_, [&] {
    const weir::Stream other(ranks_test::device(), {.blocking = false});
    other.wait(s_);
    weir::all_reduce(other, alone, weir::inout(x));
    weir::fill(s_, y, 2);
    s_.wait(other);
  });
  for (int turn = 0; turn < 3; ++turn) graph.launch(s_);
  s_.synchronize();
  expect_all("alone", x, 1);
  expect_all("beside", y, 2);
}

}  // namespace
