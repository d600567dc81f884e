// What holds for pools of any width; run a second time with WEIR_CPU_WORKERS=16.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <random>
#include <vector>

#include "support/gate.hpp"

namespace weir_test {
namespace {

/// Commands that cost less than to hand them over: the pool learns to leave such to the threads that are awake.
void do_brief_work(const std::vector<weir::Stream>& streams) {
  for (int round = 0; round < 50; ++round) {
    for (const weir::Stream& stream : streams) weir::launch(stream, 1, [](std::size_t) {});
  }
  for (const weir::Stream& stream : streams) stream.synchronize();
}

TEST(ManyWorkers, a_stream_whose_waker_lasts_runs_all_the_same_after_brief_work) {
  const weir::Device device = weir::device("cpu:0");
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 4; ++i) streams.emplace_back(device);
  const weir::Stream source(device, {.blocking = false});
  const weir::Stream waiter(device, {.blocking = false});
  for (int round = 0; round < 20; ++round) {
    do_brief_work(streams);
    Gate before;
    Gate behind;
    const weir::Event event(device);
    const Marker marker;
    before.hold(source);
    source.record(event);
    behind.hold(source);  // whoever wakes the waiter is held right after
    waiter.wait(event);
    mark(waiter, marker);
    before.open();
    ASSERT_TRUE(eventually([&] { return marker.value() == 1; }));
    behind.open();
    source.synchronize();
  }
}

TEST(ManyWorkers, streams_that_are_fed_beside_a_held_one_run_all_the_same_after_brief_work) {
  const weir::Device device = weir::device("cpu:0");
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 8; ++i) streams.emplace_back(device, weir::StreamOptions{.blocking = false});
  for (int round = 0; round < 20; ++round) {
    do_brief_work(streams);
    Gate gate;
    const Marker count;
    for (int i = 0; i < 4; ++i) gate.hold(streams[static_cast<std::size_t>(i)]);
    for (int i = 0; i < 100; ++i) count_up(streams[4 + static_cast<std::size_t>(i) % 4], count);
    ASSERT_TRUE(eventually([&] { return count.value() == 100; }));  // nobody waits, so nobody helps
    gate.open();
    device.synchronize();
  }
}

TEST(ManyWorkers, a_node_that_waits_for_another_one_of_its_graph_gets_it) {
  const weir::Device device = weir::device("cpu:0");
  const weir::Stream stream(device);
  int* words = make_words(1);
  weir::GraphBuilder builder(device);
  std::vector<weir::Node> nodes;
  nodes.push_back(builder.launch(1, [words](std::size_t) { EXPECT_TRUE(wait_for_word(words)); }));
  for (int i = 0; i < 12; ++i) nodes.push_back(builder.launch(1, [](std::size_t) {}));
  nodes.push_back(builder.launch(1, [words](std::size_t) { store_word(words, 1); }));
  const weir::Graph graph = builder.build();
  for (int round = 0; round < 100; ++round) {
    store_word(words, 0);
    graph.launch(stream);
    stream.synchronize();
    ASSERT_EQ(load_word(words), 1);
  }
}

/// A random graph whose nodes say when they ran before a node that they depend on.
class RandomGraph {
 public:
  RandomGraph(weir::Device device, std::uint32_t count, int steps) : runs_(count), late_(0) {
    std::mt19937 random(7);
    weir::GraphBuilder builder(device);
    std::vector<weir::Node> nodes;
    for (std::uint32_t i = 0; i < count; ++i) {
      std::vector<std::uint32_t> before;
      for (std::uint32_t d = i < 16 ? 0 : random() % 3; d > 0; --d) before.push_back(i - 1 - random() % 15);
      nodes.push_back(builder.launch(1, [this, i, before, steps](std::size_t) {
        const int mine = runs_[i].load(std::memory_order_relaxed);
        for (const std::uint32_t b : before) late_ += runs_[b].load(std::memory_order_relaxed) != mine + 1;
        for (int s = 0; s < steps; ++s) spent_.fetch_add(1, std::memory_order_relaxed);
        runs_[i].store(mine + 1, std::memory_order_relaxed);
      }));
      for (const std::uint32_t b : before) builder.depends(nodes[i], nodes[b]);
    }
    graph_ = builder.build();
  }
  void replay(weir::StreamRef stream) { graph_.launch(stream); }
  int late() const { return late_.load(); }
  bool all_ran(int times) const {
    for (const std::atomic<int>& runs : runs_) {
      if (runs.load() != times) return false;
    }
    return true;
  }

 private:
  std::vector<std::atomic<int>> runs_;
  std::atomic<int> late_;
  std::atomic<int> spent_{0};
  weir::Graph graph_;
};

TEST(ManyWorkers, each_node_of_a_replay_runs_once_and_after_what_it_depends_on) {
  const weir::Device device = weir::device("cpu:0");
  const weir::Stream stream(device);
  for (const int steps : {0, 200}) {  // too short to hand over, and worth it
    RandomGraph graph(device, 400, steps);
    for (int replay = 1; replay <= 60; ++replay) {
      graph.replay(stream);
      if (replay % 3 == 0) stream.synchronize();
    }
    stream.synchronize();
    EXPECT_EQ(graph.late(), 0);
    EXPECT_TRUE(graph.all_ran(60));
  }
}

TEST(ManyWorkers, replays_that_nobody_waits_for_end) {
  const weir::Device device = weir::device("cpu:0");
  const weir::Stream stream(device);
  RandomGraph graph(device, 200, 100);
  for (int replay = 1; replay <= 40; ++replay) {
    graph.replay(stream);
    const weir::Event end(device);
    stream.record(end);
    if (replay % 2 == 0) {
      ASSERT_TRUE(eventually([&] { return end.done(); }));
    }
  }
  stream.synchronize();
  EXPECT_TRUE(graph.all_ran(40));
  EXPECT_EQ(graph.late(), 0);
}

TEST(ManyWorkers, a_loop_inside_a_graph_runs_all_of_its_body_as_often_as_it_says) {
  const weir::Device device = weir::device("cpu:0");
  const weir::Stream stream(device);
  constexpr int parts = 12;
  auto turns = weir::zeros<std::int32_t>(stream, 1);
  std::vector<std::atomic<int>> runs(parts);
  std::atomic<int> early{0};
  weir::GraphBuilder builder(device);
  const weir::Node loop = builder.while_(turns, [&](weir::GraphBuilder& body) {
    std::vector<weir::Node> nodes;
    for (std::atomic<int>& run : runs) nodes.push_back(body.launch(1, [&run](std::size_t) { run.fetch_add(1); }));
    const weir::Node last = body.launch(
        1,
        [&runs, &early](std::size_t, weir::View<std::int32_t> left) {
          for (const std::atomic<int>& run : runs) early += run.load() != runs[0].load();
          left[0] -= 1;
        },
        weir::inout(turns));
    for (const weir::Node& node : nodes) body.depends(last, node);
  });
  const weir::Node after = builder.launch(1, [&runs, &early](std::size_t) { early += runs[0].load() % 30 != 0; });
  builder.depends(after, loop);
  const weir::Graph graph = builder.build();
  for (int replay = 1; replay <= 30; ++replay) {
    weir::fill(stream, turns, 30);
    graph.launch(stream);
    stream.synchronize();
    for (const std::atomic<int>& run : runs) ASSERT_EQ(run.load(), 30 * replay);
  }
  EXPECT_EQ(early.load(), 0);
}

}  // namespace
}  // namespace weir_test
