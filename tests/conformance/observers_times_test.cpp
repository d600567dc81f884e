// Observers are told when the nodes of a graph ran, and hear of all that is over before they are detached.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <variant>
#include <vector>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/child.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class TimesOfNodes final : public weir::Observer {
 public:
  struct Node {
    weir::CommandId launch;
    std::uint32_t number;
    weir::Span span;
  };

  /// Other observers may have made the library take the times of earlier commands: only later launches count.
  TimesOfNodes() { weir::attach(*this, weir::Watch::times | weir::Watch::commands); }
  ~TimesOfNodes() override { detach(); }
  void detach() {
    if (attached_) weir::detach(*this);
    attached_ = false;
  }

  void submitted(const weir::Command& command) override {
    const std::lock_guard lock(mutex_);
    const bool launches =
        std::holds_alternative<weir::Launch>(command.op) || std::holds_alternative<weir::GraphLaunch>(command.op);
    if (launches) launches_.insert(command.id);
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (launches_.count(id) == 0) return;
    commands_[id] = span;
    last_ = id;
  }
  void ran_node(weir::CommandId launch, weir::StreamId, std::uint32_t node, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(commands_.count(launch), 0u) << "nodes are told before the launch";
    nodes_.push_back({launch, node, span});
  }

  /// Of the last launch, by number, once so many commands were told.
  std::map<std::uint32_t, weir::Span> of_last(std::size_t commands) {
    EXPECT_TRUE(eventually([&] {
      const std::lock_guard lock(mutex_);
      return commands_.size() >= commands;
    }));
    const std::lock_guard lock(mutex_);
    std::map<std::uint32_t, weir::Span> found;
    for (const Node& node : nodes_) {
      if (node.launch == last_) found[node.number] = node.span;
    }
    return found;
  }
  weir::Span last() {
    const std::lock_guard lock(mutex_);
    return commands_[last_];
  }
  std::size_t commands() {
    const std::lock_guard lock(mutex_);
    return commands_.size();
  }

 private:
  bool attached_ = true;
  std::mutex mutex_;
  std::set<weir::CommandId> launches_;
  std::map<weir::CommandId, weir::Span> commands_;  ///< launches that have run
  weir::CommandId last_ = 0;
  std::vector<Node> nodes_;
};

struct CountOnce {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

struct CountPairOnce {
  WEIR_KERNEL void operator()(weir::Index<2> i, weir::View<int, 2> x) const { x(i[0], i[1]) += 1; }
};

class ObservedTimes : public AnyDevice {};
ON_EVERY_DEVICE(ObservedTimes);

class ObservedGraphsTimes : public AnyDevice {};
ON_EVERY_DEVICE(ObservedGraphsTimes);

/// Of large grids only some blocks note times, and those have other elements then.
TEST_P(ObservedGraphsTimes, noting_them_leaves_out_no_element_and_repeats_none) {
  weir::Stream s(device());
  const auto expect_ones = [&](const weir::Array<int>& x, const char* what) {
    const std::vector<int> counts = x.to_host(s);
    const auto ones = std::count(counts.begin(), counts.end(), 1);
    EXPECT_EQ(static_cast<std::size_t>(ones), counts.size()) << what;
  };
  for (const std::size_t n : {1u, 257u, 540'928u, 540'929u, 541'184u, 541'185u, 700'001u}) {
    SCOPED_TRACE(n);
    const auto plain = weir::zeros<int>(s, n);
    const auto pairs = weir::zeros<int>(s, 3 * n);
    const auto strided = weir::zeros<int>(s, 2 * n);
    const auto in_graph = weir::zeros<int>(s, n);
    const weir::Graph graph = weir::capture(s, [&] { weir::launch(s, n, CountOnce{}, weir::inout(in_graph)); });
    TimesOfNodes times;
    weir::launch(s, n, CountOnce{}, weir::inout(plain));
    weir::launch(s, {3, n}, CountPairOnce{}, weir::inout(pairs.reshape({3, n})));
    for (const std::size_t from : {0u, 1u}) {
      weir::launch(s, n, CountOnce{}, weir::inout(strided.slice({{from, 2 * n, 2}})));
    }
    graph.launch(s);
    s.synchronize();
    EXPECT_EQ(times.of_last(5).size(), 1u);
    times.detach();
    expect_ones(plain, "one dimension");
    expect_ones(pairs, "two dimensions");
    expect_ones(strided, "not dense");
    expect_ones(in_graph, "in a graph");
  }
}

//  one -> two -> three, replayed twice
TEST_P(ObservedGraphsTimes, each_node_of_each_replay_is_told_in_order) {
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 100);
  weir::GraphBuilder builder(device());
  std::vector<weir::Node> chain;
  for (int i = 0; i < 3; ++i) {
    chain.push_back(builder.launch(x.size(), CountOnce{}, weir::inout(x)));
    if (i > 0) builder.depends(chain[static_cast<std::size_t>(i)], chain[static_cast<std::size_t>(i) - 1]);
  }
  const weir::Graph graph = builder.build();
  graph.launch(s);
  s.synchronize();
  TimesOfNodes times;
  std::optional<std::chrono::steady_clock::time_point> before;
  for (std::size_t replay = 1; replay <= 2; ++replay) {
    graph.launch(s);
    s.synchronize();
    const std::map<std::uint32_t, weir::Span> nodes = times.of_last(replay);
    ASSERT_EQ(nodes.size(), 3u);
    for (const auto& [number, span] : nodes) {
      EXPECT_LE(span.begin, span.end) << number;
      EXPECT_GE(span.begin, times.last().begin) << number;
      EXPECT_LE(span.end, times.last().end) << number;
      if (before) {
        EXPECT_GE(span.begin, *before) << number;
      }
    }
    EXPECT_LE(nodes.at(0).end, nodes.at(1).begin);
    EXPECT_LE(nodes.at(1).end, nodes.at(2).begin);
    before = nodes.at(2).end;
  }
  times.detach();
  graph.launch(s);
  EXPECT_EQ(x.to_host()[99], 12);
}

TEST_P(ObservedGraphsTimes, updated_nodes_are_told_and_disabled_ones_are_not) {
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 100);
  const auto y = weir::zeros<int>(s, 100);
  weir::GraphBuilder builder(device());
  const weir::LaunchNode first = builder.launch(x.size(), CountOnce{}, weir::inout(x));
  const weir::LaunchNode second = builder.launch(x.size(), CountOnce{}, weir::inout(x));
  builder.depends(second, first);
  weir::Graph graph = builder.build();
  TimesOfNodes times;
  // A virtual clock goes on when the host waits.
  const auto replay = [&] {
    graph.launch(s);
    if (on("sim")) s.synchronize();
  };
  replay();
  EXPECT_EQ(times.of_last(1).size(), 2u);
  graph.update(second, weir::inout(y));
  replay();
  EXPECT_EQ(times.of_last(2).size(), 2u);
  graph.disable(first);
  replay();
  const std::map<std::uint32_t, weir::Span> nodes = times.of_last(3);
  EXPECT_EQ(nodes.size(), 1u);
  EXPECT_EQ(nodes.count(1), 1u);
  times.detach();
  EXPECT_EQ(x.to_host()[0], 3);
  EXPECT_EQ(y.to_host()[0], 2);
}

TEST_P(ObservedGraphsTimes, skipped_ones_take_no_time_and_have_no_nodes) {
  if (on("cuda")) GTEST_SKIP() << "events before and after it have a time each";
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 100);
  const weir::Graph graph = weir::capture(s, [&] { weir::launch(s, x.size(), CountOnce{}, weir::inout(x)); });
  s.synchronize();
  TimesOfNodes times;
  weir::host_call(s, [] { throw std::runtime_error("it failed"); });
  graph.launch(s);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_TRUE(times.of_last(1).empty());
  EXPECT_EQ(times.last().begin, times.last().end);
}

TEST_P(ObservedTimes, all_that_is_over_is_told_before_detach_returns) {
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 100);
  s.synchronize();
  for (int round = 0; round < 20; ++round) {
    TimesOfNodes times;
    for (int i = 0; i < 7; ++i) weir::launch(s, x.size(), CountOnce{}, weir::inout(x));
    s.synchronize();
    times.detach();
    ASSERT_EQ(times.commands(), 7u);
  }
}

/// When a kernel and a host function ran.
class TwoTimes final : public weir::Observer {
 public:
  void submitted(const weir::Command& command) override {
    const std::lock_guard lock(mutex_);
    if (std::holds_alternative<weir::HostCall>(command.op)) function_ = command.id;
    if (std::holds_alternative<weir::Launch>(command.op)) kernel_ = command.id;
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (id == function_) of_function = span;
    if (id == kernel_) of_kernel = span;
  }

  // Once it is detached.
  weir::Span of_function;
  weir::Span of_kernel;

 private:
  std::mutex mutex_;
  weir::CommandId function_ = 0;
  weir::CommandId kernel_ = 0;
};

//  a: [host function, 5 ms]|e     b: wait(e) [kernel]        no other kernel has told the library how the clocks stand
WEIR_SCENE(a_first_kernel_stands_behind_a_host_function) {
  const weir::Device device = weir::device(std::getenv("WEIR_TEST_DEVICE"));
  weir::Stream a(device);
  weir::Stream b(device);
  const auto x = weir::zeros<int>(b, 1);
  b.synchronize();
  TwoTimes times;
  weir::attach(times, weir::Watch::times | weir::Watch::commands);
  weir::host_call(a, [] {
    const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    while (std::chrono::steady_clock::now() < late) {
    }
  });
  b.wait(a.record());
  weir::launch(b, 1, CountOnce{}, weir::inout(x));
  b.synchronize();
  weir::detach(times);
  insist(times.of_function.end - times.of_function.begin >= std::chrono::milliseconds(4), "the function took its time");
  insist(times.of_kernel.begin + times.of_kernel.error + std::chrono::milliseconds(1) >= times.of_function.end,
         "the kernel was told to have begun before what it stood behind had ended");
}

TEST_P(ObservedTimes, kernels_begin_behind_what_they_wait_for_whatever_the_clocks) {
  if (device().backend() == "sim") GTEST_SKIP() << "host functions take as long as they are said to";
  const Outcome outcome = play("a_first_kernel_stands_behind_a_host_function", {"WEIR_TEST_DEVICE=" + device().name()});
  EXPECT_TRUE(ended_well(outcome)) << outcome.output;
}

//  s: [hold ......]        detach does not wait for what is not over
TEST_P(ObservedTimes, detach_waits_for_no_work) {
  Gate gate;
  weir::Stream s(device());
  TimesOfNodes times;
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { times.detach(); }));
  gate.open();
  s.synchronize();
}

}  // namespace
}  // namespace weir_test
