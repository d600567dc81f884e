// Whose turn it is: a worker's turns with ready queues, and the order of a graph's nodes where one thread runs them all.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cpu/graphs/cpu_graph.hpp"
#include "own_device.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuQueue;

class Turns : public OwnDevice {
 protected:
  /// What a worker does that popped the queue. In the ready lists, at which nobody looks but for whether they are empty, it
  /// stays: so no queue has two turns. Returns how many commands ran.
  static std::uint64_t take_a_turn(CpuQueue& queue) {
    weir::cpu::Runner runner;
    runner.worker = true;
    return queue.run_popped(runner);
  }
};

TEST_F(Turns, a_worker_leaves_its_queue_for_a_more_urgent_one_after_one_command) {
  CpuQueue& usual = open();
  CpuQueue& urgent = open(-5);
  submit_work(usual, 3);
  submit_work(urgent, 3);
  EXPECT_EQ(take_a_turn(usual), 1u);
  EXPECT_EQ(take_a_turn(urgent), 3u);
}

TEST_F(Turns, a_worker_does_not_leave_its_queue_for_a_less_urgent_one) {
  CpuQueue& usual = open(-1);
  CpuQueue& patient = open();
  submit_work(patient, 3);
  submit_work(usual, 3);
  EXPECT_EQ(take_a_turn(usual), 3u);
}

TEST_F(Turns, queues_of_one_priority_share_a_worker) {
  CpuQueue& long_one = open();
  CpuQueue& other = open();
  submit_work(long_one, 10'000);
  submit_work(other, 1);
  EXPECT_LE(take_a_turn(long_one), 1000u);
}

TEST_F(Turns, queues_that_wait_for_each_other_stay_with_their_worker) {
  CpuQueue& ping = open();
  CpuQueue& pong = open();
  submit_work(ping);
  for (int i = 0; i < 20; ++i) {
    pong.append_wait(ping, ping.tail(), {});
    submit_work(pong);
    ping.append_wait(pong, pong.tail(), {});
    submit_work(ping);
  }
  EXPECT_EQ(take_a_turn(ping), ping.tail() + pong.tail());
  EXPECT_EQ(pong.completed(), pong.tail());
  EXPECT_EQ(device_.pool().ready(), 1) << "pong was in no list";
}

TEST_F(Turns, what_a_queue_waits_for_is_run_no_further_than_that) {
  CpuQueue& first = open();
  CpuQueue& second = open();
  submit_work(first);
  second.append_wait(first, 1, {});
  submit_work(second, 3);
  first.append_wait(second, 2, {});
  EXPECT_EQ(take_a_turn(first), 4u);
  EXPECT_EQ(second.completed(), 2u);
  EXPECT_EQ(take_a_turn(second), 2u) << "it is listed";
}

TEST_F(Turns, what_a_queue_wakes_is_listed_before_another_command_runs) {
  CpuQueue& first = open();
  CpuQueue& second = open();
  int ready = 0;
  submit_work(first);
  first.submit(command_of([&] { ready = device_.pool().ready(); }));
  second.append_wait(first, 1, {});
  take_a_turn(first);
  EXPECT_EQ(ready, 2);
}

TEST_F(Turns, a_queue_of_another_priority_that_was_woken_is_listed) {
  CpuQueue& usual = open();
  CpuQueue& urgent = open(-5);
  submit_work(usual);
  urgent.append_wait(usual, 1, {});
  submit_work(urgent);
  usual.append_wait(urgent, 2, {});
  EXPECT_EQ(take_a_turn(usual), 1u);
  EXPECT_EQ(take_a_turn(urgent), 2u);
}

TEST_F(Turns, queues_that_wait_for_each_other_share_a_worker_with_others) {
  CpuQueue& ping = open();
  CpuQueue& pong = open();
  CpuQueue& other = open();
  submit_work(ping);
  for (int i = 0; i < 150; ++i) {
    pong.append_wait(ping, ping.tail(), {});
    submit_work(pong);
    ping.append_wait(pong, pong.tail(), {});
    submit_work(ping);
  }
  submit_work(other);
  EXPECT_LE(take_a_turn(ping), 300u);
}

TEST_F(Turns, a_worker_runs_few_queues_within_each_other) {
  std::vector<CpuQueue*> queues;
  for (int i = 0; i < 100; ++i) queues.push_back(&open());
  submit_work(*queues.front());
  for (std::size_t i = 1; i < queues.size(); ++i) {
    queues[i]->append_wait(*queues[i - 1], queues[i - 1]->tail(), {});
    submit_work(*queues[i]);
  }
  for (std::size_t i = 1; i < queues.size(); ++i) queues[i - 1]->append_wait(*queues[i], queues[i]->tail(), {});
  EXPECT_LT(take_a_turn(*queues.front()), 100u);
  for (int turns = 0; turns < 100 && queues.front()->completed() != queues.front()->tail(); ++turns) {
    for (CpuQueue* queue : queues) take_a_turn(*queue);
  }
  EXPECT_EQ(queues.front()->completed(), queues.front()->tail());
}

/// Graphs whose nodes are host functions, replayed by the one thread that waits.
class TurnsInGraphs : public Turns {
 protected:
  template <class F>
  void add(int priority, F function, std::vector<std::uint32_t> depends = {}) {
    weir::detail::FormNode node;
    node.kind = weir::NodeKind::host_call;
    node.priority = priority;
    node.depends = std::move(depends);
    node.payload = std::make_shared<const weir::detail::Payload>(command_of(std::move(function)));
    state_.form.nodes.push_back(std::move(node));
  }
  void replay(CpuQueue& queue) {
    state_.executable = new weir::cpu::CpuGraph(device_, state_.form);
    weir::Command command;
    command.op = weir::GraphLaunch{&state_};
    queue.submit(command);
    queue.wait_until(queue.tail());
    state_.executable->close();
    device_.drain();  // tickets that nobody took
  }

 private:
  weir::detail::GraphState state_;
};

TEST_F(TurnsInGraphs, nodes_of_a_higher_priority_go_first) {
  CpuQueue& queue = open();
  std::vector<int> order;
  for (const int priority : {0, -3, -5, -1, -4}) add(priority, [&order, priority] { order.push_back(priority); });
  replay(queue);
  EXPECT_EQ(order, (std::vector<int>{-5, -4, -3, -1, 0}));
}

TEST_F(TurnsInGraphs, among_equals_the_longest_way_to_the_end_goes_first) {
  CpuQueue& queue = open();
  std::vector<int> order;
  add(0, [&order] { order.push_back(1); });
  add(0, [&order] { order.push_back(2); });
  add(0, [&order] { order.push_back(3); }, {1});
  replay(queue);
  EXPECT_EQ(order, (std::vector<int>{2, 3, 1}));
}

//  [fails]          the most urgent, so it begins first
//  [mark][mark]     beside it, with nothing that says they depend on it
TEST_F(TurnsInGraphs, what_had_not_begun_when_a_node_failed_does_not_run) {
  CpuQueue& queue = open();
  int ran = 0;
  add(0, [&ran] { ++ran; });
  add(-5, [] { throw std::runtime_error("the pipe burst"); });
  add(0, [&ran] { ++ran; });
  replay(queue);
  EXPECT_EQ(ran, 0);
  EXPECT_THROW(queue.synchronize("test", {}), weir::Error);
}

}  // namespace
}  // namespace weir_test
