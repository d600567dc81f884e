// Graphs as a whole: copies that go their own way, and updates by another graph of the same topology.
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using Values = std::vector<std::int64_t>;

struct MultiplyBy {
  std::int64_t by;
  WEIR_KERNEL void operator()(std::size_t i, weir::View<std::int64_t> x) const { x[i] *= by; }
};
struct AddMuch {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<std::int64_t> x, std::int64_t much) const { x[i] += much; }
};

class WholeGraphs : public AnyDevice {
 protected:
  weir::Stream s{device()};

  weir::Array<std::int64_t> ones(std::size_t n = 3) { return weir::full(s, n, std::int64_t{1}); }
  /// x = (x + much) * by
  template <class X>
  weir::Graph add_and_multiply(const X& x, std::int64_t much, std::int64_t by) {
    weir::GraphBuilder builder(device());
    const auto add = builder.launch(weir::Extent{.size = x.size(), .name = "add"}, AddMuch{}, weir::inout(x), much);
    const auto times = builder.launch(weir::Extent{.size = x.size(), .name = "times"}, MultiplyBy{by}, weir::inout(x));
    builder.depends(times, add);
    return builder.build();
  }
};
ON_EVERY_DEVICE(WholeGraphs);

TEST_P(WholeGraphs, a_clone_does_the_same_and_changes_alone) {
  const auto x = ones();
  weir::Graph graph = add_and_multiply(x, 1, 3);
  weir::Graph clone = graph.clone();
  EXPECT_EQ(clone.node_count(), graph.node_count());
  clone.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{6, 6, 6}));
  clone.update(clone.find("times"), MultiplyBy{10}, weir::inout(x));
  graph.update(graph.find("add"), AddMuch{}, weir::inout(x), std::int64_t{4});
  graph.launch(s);  // (6 + 4) * 3
  EXPECT_EQ(x.to_host(s), (Values{30, 30, 30}));
  clone.launch(s);  // (30 + 1) * 10
  EXPECT_EQ(x.to_host(s), (Values{310, 310, 310}));
}

TEST_P(WholeGraphs, node_handles_are_good_for_clones) {
  const auto x = ones();
  weir::Graph graph = add_and_multiply(x, 1, 3);
  const weir::Node times = graph.find("times");
  weir::Graph clone = graph.clone();
  clone.disable(times);
  EXPECT_TRUE(graph.enabled(times));
  EXPECT_FALSE(clone.enabled(times));
  weir::Graph second = clone.clone();
  EXPECT_FALSE(second.enabled(times));
  clone.enable(times);
  second.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{2, 2, 2}));
  clone.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{9, 9, 9}));
  const auto y = ones();
  const weir::Graph other = add_and_multiply(y, 1, 3);
  EXPECT_TRUE(
      fails_with(weir::Errc::invalid_handle, [&] { static_cast<void>(other.enabled(times)); }, {"another graph"}));
}

TEST_P(WholeGraphs, a_clone_outlives_the_graph_and_the_arrays) {
  weir::Graph clone;
  const auto result = weir::zeros<std::int64_t>(s, 3);
  {
    const auto x = ones();
    const weir::Graph graph = weir::capture(s, [&] {
      const auto own = weir::full(s, 3, std::int64_t{5});
      weir::launch(s, 3, AddMuch{}, weir::inout(x), std::int64_t{1});
      weir::transform(s, x, own, result, weir::Plus{});
    });
    clone = graph.clone();
  }
  const auto elsewhere = weir::full(s, 3, std::int64_t{-1});
  clone.launch(s);
  clone.launch(s);
  EXPECT_EQ(result.to_host(s), (Values{8, 8, 8}));
  EXPECT_EQ(elsewhere.to_host(s), (Values{-1, -1, -1}));
}

TEST_P(WholeGraphs, clones_have_children_and_bodies) {
  const auto x = ones();
  auto left = weir::full(s, 1, std::int32_t{3});
  const weir::Graph child = add_and_multiply(x, 0, 2);
  const weir::Graph graph = weir::capture(s, [&] {
    weir::fill(s, left, 3);
    weir::capture_while(s, left, [&] {
      child.launch(s);
      weir::launch(s, 1, Plus{}, weir::inout(left), -1);
    });
  });
  const weir::Graph clone = graph.clone();
  clone.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{8, 8, 8}));
  graph.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{64, 64, 64}));
}

TEST_P(WholeGraphs, an_update_takes_over_what_all_nodes_do) {
  const auto x = ones(), y = ones(5);
  weir::Graph graph = add_and_multiply(x, 1, 3);
  {
    weir::Graph other = add_and_multiply(y, 10, 2);
    other.disable(other.find("times"));
    graph.update(other);
    other.launch(s);
  }
  EXPECT_EQ(y.to_host(s), Values(5, 11));
  graph.launch(s);
  EXPECT_EQ(y.to_host(s), Values(5, 21));
  EXPECT_EQ(x.to_host(s), (Values{1, 1, 1}));
  graph.enable(graph.find("times"));
  graph.launch(s);
  EXPECT_EQ(y.to_host(s), Values(5, 62));
  graph.update(graph);
  graph.launch(s);
  EXPECT_EQ(y.to_host(s), Values(5, 144));
}

TEST_P(WholeGraphs, an_update_takes_over_copies_fills_and_host_functions) {
  int called = 0;
  const auto make = [&](const weir::Array<std::int64_t>& to, std::int64_t value, int count) {
    const auto from = weir::full(s, 3, value);
    s.synchronize();
    return weir::capture(s, [&, count] {
      weir::fill(s, to, value);
      weir::transform(s, to, from, to, weir::Plus{});
      weir::host_call(s, [&called, count] { called += count; });
    });
  };
  const auto x = ones(), y = ones();
  weir::Graph graph = make(x, 5, 1);
  graph.update(make(y, 7, 100));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(called, 100);
  EXPECT_EQ(x.to_host(s), (Values{1, 1, 1}));
  EXPECT_EQ(y.to_host(s), (Values{14, 14, 14}));
}

//  s: [hold ......][replay of before]     an update leaves what was launched alone
TEST_P(WholeGraphs, replays_before_an_update_are_what_they_were) {
  const auto x = ones();
  weir::Graph graph = add_and_multiply(x, 1, 3);
  s.synchronize();
  Gate gate;
  gate.hold(s);
  graph.launch(s);
  graph.update(add_and_multiply(x, 100, 1));
  graph.launch(s);
  gate.open();
  EXPECT_EQ(x.to_host(s), (Values{106, 106, 106}));
}

/// Adds 1 unless all elements are equal.
struct CountUnequal {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const std::int64_t> x, weir::View<std::int64_t> count) const {
    for (std::size_t i = 1; i < x.size(); ++i) {
      if (x[i] != x[0]) {
        count[0] += 1;
        return;
      }
    }
  }
};

TEST_P(WholeGraphs, an_update_beside_launches_of_another_thread_is_in_a_replay_as_a_whole_or_not_at_all) {
  constexpr std::size_t nodes = 500;
  const int wanted = on("cpu") ? 100 : 3;  // a driver takes its time for each node
  const auto x = weir::zeros<std::int64_t>(s, nodes);
  const auto count = weir::zeros<std::int64_t>(s, 1);
  const auto make = [&](std::int64_t value) {
    return weir::capture(s, [&] {
      for (std::size_t i = 0; i < nodes; ++i) weir::fill(s, x.slice(i, i + 1), value);
      weir::launch(s, 1, CountUnequal{}, weir::in(x), weir::inout(count));
    });
  };
  weir::Graph graph = make(0);
  const weir::Graph one = make(1);
  const weir::Graph two = make(2);
  s.synchronize();
  std::atomic<int> rounds{0};
  std::thread updates([&] {
    for (; rounds < wanted; ++rounds) {
      graph.update(one);
      graph.update(two);
    }
  });
  for (int launches = 1; rounds < wanted; ++launches) {
    graph.launch(s);
    // Else there are thousands more than there are updates: where all is slow they take minutes.
    if (launches % 16 == 0) s.synchronize();
  }
  updates.join();
  EXPECT_EQ(count.to_host(s)[0], 0);
}

TEST_P(WholeGraphs, an_update_by_another_topology_is_refused_and_changes_nothing) {
  const auto x = ones();
  weir::Graph graph = add_and_multiply(x, 1, 3);
  const auto refused = [&](const weir::Graph& other, std::initializer_list<std::string_view> words) {
    return fails_with(
        weir::Errc::invalid_value, [&] { graph.update(other); }, words);
  };
  const weir::Graph longer = weir::capture(s, [&] {
    for (int i = 0; i < 3; ++i) weir::launch(s, 3, MultiplyBy{2}, weir::inout(x));
  });
  EXPECT_TRUE(refused(longer, {"weir::Graph::update", "it has 2 nodes and the other 3", "graphs_whole_test.cpp"}));
  const weir::Graph other_kind = weir::capture(s, [&] {
    weir::launch(s, 3, MultiplyBy{2}, weir::inout(x));
    weir::fill(s, x, 0);
  });
  EXPECT_TRUE(refused(other_kind, {"node 1, 'times'", "kind launch here", "kind fill there"}));
  const auto y = ones();
  weir::GraphBuilder apart(device());
  apart.launch(3, MultiplyBy{7}, weir::inout(x));
  apart.launch(3, MultiplyBy{7}, weir::inout(y));
  EXPECT_TRUE(refused(apart.build(), {"node 1, 'times'", "depends on nodes 0 here and on none there"}));
  graph.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{6, 6, 6}));
}

TEST_P(WholeGraphs, what_is_a_graphs_own_is_not_exchanged) {
  const auto x = ones();
  const auto make = [&] {
    return weir::capture(s, [&] {
      const auto own = weir::full(s, 3, std::int64_t{5});
      weir::transform(s, x, own, x, weir::Plus{});
    });
  };
  weir::Graph graph = make();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { graph.update(make()); }, {"memory", "the graph's own"}));
  graph.update(graph.clone());
  graph.launch(s);
  EXPECT_EQ(x.to_host(s), (Values{6, 6, 6}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { graph.update(weir::Graph()); }, {"weir::Graph::update"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { static_cast<void>(weir::Graph().clone()); },
                         {"weir::Graph::clone"}));
}

class WholeGraphsOfTwoDevices : public TwoDevices {};
ON_EVERY_BACKEND(WholeGraphsOfTwoDevices);

TEST_P(WholeGraphsOfTwoDevices, an_update_moves_no_node_to_another_device) {
  const weir::Stream s(first()), beside(first()), there(second());
  const auto make = [&](const weir::Stream& branch) {
    const auto x = weir::full(branch, 3, std::int64_t{1});
    branch.synchronize();
    return weir::capture(s, [&] {
      branch.wait(s);
      weir::launch(branch, 3, MultiplyBy{2}, weir::inout(x));
      s.wait(branch);
    });
  };
  weir::Graph graph = make(beside);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { graph.update(make(there)); }, {"another device there"}));
  graph.update(make(beside));
}

TEST_P(WholeGraphsOfTwoDevices, a_node_is_updated_on_its_own_device) {
  const weir::Stream s(first()), there(second());
  const auto x = weir::full(there, 3, std::int64_t{1});
  const auto y = weir::full(s, 3, std::int64_t{1});
  weir::synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    there.wait(s);
    weir::launch(there, weir::Extent{.size = 3, .name = "there"}, MultiplyBy{2}, weir::inout(x));
    weir::launch(s, weir::Extent{.size = 3, .name = "here"}, MultiplyBy{3}, weir::inout(y));
    s.wait(there);
  });
  graph.update(graph.find("there"), MultiplyBy{5}, weir::inout(x));
  graph.update(graph.find("here"), MultiplyBy{7}, weir::inout(y));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(x.to_host(), (Values{5, 5, 5}));
  EXPECT_EQ(y.to_host(), (Values{7, 7, 7}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device,
                         [&] { graph.update(graph.find("there"), MultiplyBy{5}, weir::inout(y)); },
                         {"does not reach"}));
}

}  // namespace
