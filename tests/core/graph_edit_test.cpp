// What a device's refusal of a change means for the graph, whatever the device.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "core/graphs/graph_state.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

struct Plus {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

class Refusing final : public weir::detail::GraphExecutable {
 public:
  void update(const weir::detail::GraphForm&, std::size_t) override {
    throw weir::Error(weir::Errc::invalid_value, "weir::launch", "a stream", "the grid is too large", {});
  }
  void close() noexcept override {}
};

TEST(GraphEdit, a_refused_change_says_what_to_do_and_changes_nothing) {
  weir::Stream s(weir::device("cpu:0"));
  auto x = weir::zeros<int>(s, 4);
  weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 1); });
  const weir::Node node = graph.nodes()[0].node;
  Refusing refusing;
  auto& executable = weir::detail::graph_of(graph, "test", {}).executable;
  weir::detail::GraphExecutable* const own = std::exchange(executable, &refusing);
  const auto is_refused = [](const char* operation, auto&& change) {
    return fails_with(
        weir::Errc::invalid_value, change,
        {operation, "the grid is too large", "the graph stays as it was", "make another graph", "graph_edit_test.cpp"});
  };
  EXPECT_TRUE(is_refused("weir::Graph::resize", [&] { graph.resize(node, 2); }));
  EXPECT_TRUE(is_refused("weir::Graph::disable", [&] { graph.disable(node); }));
  EXPECT_TRUE(is_refused("weir::Graph::update", [&] { graph.update(node, 2, Plus{}, weir::inout(x), 5); }));
  executable = own;
  EXPECT_TRUE(graph.enabled(node));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 1));
}

/// Takes the first changes, and refuses one.
class RefusingLater final : public weir::detail::GraphExecutable {
 public:
  RefusingLater(weir::detail::GraphExecutable& own, int taken) : own_(own), taken_(taken) {}
  void update(const weir::detail::GraphForm& form, std::size_t node) override {
    if (taken_-- == 0)
      throw weir::Error(weir::Errc::invalid_value, "weir::launch", "a stream", "the grid is too large", {});
    own_.update(form, node);
  }
  void close() noexcept override {}

 private:
  weir::detail::GraphExecutable& own_;
  int taken_;
};

TEST(GraphEdit, an_update_as_a_whole_that_is_refused_half_way_changes_nothing) {
  weir::Stream s(weir::device("cpu:0"));
  auto x = weir::zeros<int>(s, 4);
  const auto make = [&](int unit) {
    return weir::capture(s, [&] {
      for (int i = 0; i < 3; ++i, unit *= 10) weir::launch(s, 4, Plus{}, weir::inout(x), unit);
    });
  };
  weir::Graph graph = make(1);
  auto& executable = weir::detail::graph_of(graph, "test", {}).executable;
  RefusingLater refusing(*executable, 2);
  weir::detail::GraphExecutable* const own = std::exchange(executable, &refusing);
  EXPECT_TRUE(
      fails_with(weir::Errc::invalid_value, [&] { graph.update(make(1000)); },
                 {"weir::Graph::update", "the grid is too large", "the graph stays as it was", "graph_edit_test.cpp"}));
  executable = own;
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 111));
  graph.update(make(1000));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 111'111));
}

}  // namespace
}  // namespace weir_test
