// Who waits for a turn in the one order of collectives while the driver keeps the thread whose turn it is.
#include <atomic>
#include <cstdint>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::inout;

void sum(const Ranks& ranks, const std::vector<weir::Array<int>>& x) {
  for (std::size_t r = 0; r < ranks.size(); ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
}

weir::Graph captured_sum(const Ranks& ranks, const std::vector<weir::Array<int>>& x) {
  ranks.synchronize();
  weir::capture_begin(ranks.streams[0]);
  for (std::size_t r = 1; r < ranks.size(); ++r) ranks.streams[r].wait(ranks.streams[0]);
  sum(ranks, x);
  for (std::size_t r = 1; r < ranks.size(); ++r) ranks.streams[0].wait(ranks.streams[r]);
  weir::Graph graph = weir::capture_end(ranks.streams[0]);
  graph.launch(ranks.streams[0]);  // what is made at the first use is there then
  ranks.streams[0].synchronize();
  return graph;
}

std::vector<weir::Array<int>> ones(const Ranks& ranks) {
  return ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
}

/// One launch is in the driver's call, as behind a full stream (R3).
class OrderTurns : public testing::Test {
 protected:
  OrderTurns() : ranks(2), others(2), x(ones(ranks)), y(ones(others)) {
    graph.emplace(captured_sum(ranks, x));
    graph_of_others.emplace(captured_sum(others, y));
    const std::uint64_t before = fake_cuda::calls("cuGraphLaunch");
    held.emplace("cuGraphLaunch");
    launching = std::thread([&] { graph->launch(ranks.streams[0]); });
    EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cuGraphLaunch") > before; }));
  }
  ~OrderTurns() override { let_go(); }

  void let_go() {
    held.reset();
    if (launching.joinable()) launching.join();
  }
  /// Whether another thread is through with its calls while that launch is not.
  template <class F>
  bool returns(F&& calls) {
    std::atomic<bool> over{false};
    std::thread thread([&] {
      calls();
      over = true;
    });
    const bool returned = eventually([&] { return over.load(); });
    if (!returned) let_go();
    thread.join();
    return returned;
  }

  const Ranks ranks, others;
  const std::vector<weir::Array<int>> x, y;
  std::optional<weir::Graph> graph, graph_of_others;
  std::optional<fake_cuda::HoldCalls> held;
  std::thread launching;
};

TEST_F(OrderTurns, calls_return_while_a_launch_has_no_room) {
  EXPECT_TRUE(returns([&] { sum(others, y); }));
  let_go();
  ranks.synchronize();
  others.synchronize();
  EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 4));
  EXPECT_EQ(y[1].to_host(), std::vector<int>(8, 4));
}

TEST_F(OrderTurns, launches_of_other_graphs_return_while_one_has_no_room) {
  EXPECT_TRUE(returns([&] {
    graph_of_others->launch(others.streams[0]);
    others.streams[1].wait(others.streams[0]);
    sum(others, y);
    graph_of_others->launch(others.streams[0]);
  }));
  let_go();
  ranks.synchronize();
  others.synchronize();
  EXPECT_EQ(x[1].to_host(), std::vector<int>(8, 4));
  EXPECT_EQ(y[0].to_host(), std::vector<int>(8, 16));
  EXPECT_EQ(y[1].to_host(), std::vector<int>(8, 16));
}

// NCCL waits for what its GPUs have while it makes a communicator: for the stream of a call, too, that has yet to be handed over.
TEST_F(OrderTurns, calls_that_were_left_come_before_a_communicator_is_made) {
  EXPECT_TRUE(returns([&] { sum(others, y); }));
  std::atomic<int> through{0};
  std::thread waiting([&] {
    others.synchronize();
    ++through;
  });
  std::thread making([&] {
    const Ranks more(5);
    ++through;
  });
  let_go();
  EXPECT_TRUE(eventually([&] { return through == 2; }));
  waiting.join();
  making.join();
  EXPECT_EQ(y[0].to_host(), std::vector<int>(8, 4));
}

// A lane that a stuck collective stands in would be full of them else, and whose turn it is would wait for room until somebody has ended
// that collective, which takes a turn.
TEST(LateLaunches, are_handed_over_as_far_as_their_lane_has_room) {
  constexpr std::uint64_t most = 16;
  constexpr int launches = 40;
  const Ranks ranks(2), others(2);
  const auto x = ones(ranks), y = ones(others);
  const weir::Graph graph = captured_sum(ranks, x);
  others.synchronize();
  Gate stuck;
  stuck.hold(others.streams[1]);
  sum(others, y);  // with NCCL, whose other kernel waits for that stream
  Gate gate;
  gate.hold_by_host_call(ranks.streams[0]);
  for (int i = 0; i < launches; ++i) graph.launch(ranks.streams[0]);
  const std::uint64_t before = fake_cuda::returned_calls("cuGraphLaunch");
  const auto handed = [&] { return fake_cuda::returned_calls("cuGraphLaunch") - before; };
  gate.open();
  EXPECT_TRUE(eventually([&] { return handed() >= most; }));
  std::promise<void> looked;
  weir::cuda::CallOrder::instance().look_if_any_wait();
  weir::cuda::post(weir::cuda::CallOrder::worker(), [&] { looked.set_value(); });
  looked.get_future().wait();
  EXPECT_EQ(handed(), most);
  stuck.open();
  ranks.streams[0].synchronize();
  EXPECT_EQ(handed(), std::uint64_t{launches});
}

}  // namespace
}  // namespace weir_test
