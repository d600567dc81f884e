// Kernels of many threads behind host functions of their graph: what they heed lies in memory of their device, and is right there.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

constexpr std::size_t n = 1 << 16;

struct AddToEach {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int by) const { x[i] += by; }
};

class GraphGuards : public testing::Test {
 protected:
  void SetUp() override { s.synchronize(); }
  void TearDown() override { EXPECT_EQ(fake_cuda::distant_guards(), distant); }

  void add(const weir::Stream& stream, const weir::Array<int>& to, int by) const {
    weir::launch(stream, n, AddToEach{}, weir::inout(to), by);
  }
  void may_fail(const weir::Stream& stream, const std::atomic<bool>& fails) const {
    weir::host_call(stream, [&fails] {
      if (fails) throw std::runtime_error("behind it nothing runs");
    });
  }
  /// Whether the replay fails.
  bool replay(const weir::Graph& graph) const {
    graph.launch(s);
    return error_of([&] { s.synchronize(); }).has_value();
  }

  const weir::Device device = weir::devices("cuda").at(0);
  const weir::Stream s{device, {.blocking = false}};
  const weir::Array<int> x = weir::zeros<int>(s, n), y = weir::zeros<int>(s, n), z = weir::zeros<int>(s, n);
  std::atomic<bool> first_fails{false}, second_fails{false};
  const std::uint64_t distant = fake_cuda::distant_guards();
};

TEST_F(GraphGuards, skip_what_is_behind_one_that_throws_in_each_replay_anew) {
  const weir::Graph graph = weir::capture(s, [&] {
    add(s, x, 1);
    may_fail(s, first_fails);
    add(s, x, 10);
    weir::copy(s, y, x);
    weir::launch(s, n, AddToEach{}, weir::inout(z), 1);
    weir::fill(s, z, first_fails ? 7 : 3);
  });
  int wanted = 0;
  int copied = 0;
  for (const bool fails : {false, true, false, true, true, false}) {
    first_fails = fails;
    EXPECT_EQ(replay(graph), fails);
    wanted += fails ? 1 : 11;
    EXPECT_EQ(x.to_host(), std::vector<int>(n, wanted));
    copied = fails ? copied : wanted;
    EXPECT_EQ(y.to_host(), std::vector<int>(n, copied));
  }
  EXPECT_EQ(z.to_host(), std::vector<int>(n, 3));
}

TEST_F(GraphGuards, skip_all_of_a_replay_behind_a_failure_of_its_stream) {
  const weir::Graph graph = weir::capture(s, [&] {
    add(s, x, 1);
    may_fail(s, first_fails);
    add(s, x, 10);
  });
  Gate gate;
  gate.hold(s);
  may_fail(s, second_fails);
  second_fails = true;
  graph.launch(s);
  gate.open();
  EXPECT_TRUE(error_of([&] { s.synchronize(); }).has_value());
  EXPECT_EQ(x.to_host(), std::vector<int>(n, 0));
  EXPECT_FALSE(replay(graph));
  EXPECT_EQ(x.to_host(), std::vector<int>(n, 11));
}

//   s: --+--[first]--[x += 1]--+--[z += 1]
//   t:   +--[second]-[y += 1]--+               whichever of both brings its word later
TEST_F(GraphGuards, of_branches_side_by_side_forget_no_failure) {
  const weir::Stream t(device, {.blocking = false});
  const weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    may_fail(s, first_fails);
    add(s, x, 1);
    may_fail(t, second_fails);
    add(t, y, 1);
    s.wait(t);
    add(s, z, 1);
  });
  for (int turn = 0; turn < 60; ++turn) {
    first_fails = turn % 3 == 1;
    second_fails = turn % 3 == 2;
    EXPECT_EQ(replay(graph), first_fails || second_fails);
  }
  EXPECT_EQ(z.to_host(), std::vector<int>(n, 20));
  // Behind the second come the commands of both branches, in the order of the capture; what had begun ran.
  EXPECT_LE(y.to_host()[0], 40);
  EXPECT_GE(y.to_host()[0], 20);
}

TEST_F(GraphGuards, are_the_same_after_an_update_and_in_a_graph_that_is_built) {
  weir::GraphBuilder builder(device);
  const auto call = builder.host_call([this] {
    if (first_fails) throw std::runtime_error("behind it nothing runs");
  });
  const auto added = builder.launch(n, AddToEach{}, weir::inout(x), 1);
  builder.depends(added, call);
  weir::Graph graph = builder.build();
  int wanted = 0;
  for (const int by : {10, 100}) {
    graph.update(added, weir::inout(x), by);
    for (const bool fails : {true, false}) {
      first_fails = fails;
      EXPECT_EQ(replay(graph), fails);
      wanted += fails ? 0 : by;
      EXPECT_EQ(x.to_host(), std::vector<int>(n, wanted));
    }
  }
  graph.update_host_call(call, [this] {
    if (!first_fails) throw std::runtime_error("behind it nothing runs");
  });
  EXPECT_TRUE(replay(graph));
  graph.disable(call);
  EXPECT_FALSE(replay(graph));
  EXPECT_EQ(x.to_host(), std::vector<int>(n, wanted + 100));
}

TEST_F(GraphGuards, heed_a_host_function_of_another_devices_stream) {
  const weir::Stream t(weir::devices("cuda").at(1), {.blocking = false});
  t.synchronize();
  const weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    may_fail(t, first_fails);
    s.wait(t);
    add(s, x, 1);
  });
  for (const bool fails : {true, false, true}) {
    first_fails = fails;
    EXPECT_EQ(replay(graph), fails);
  }
  EXPECT_EQ(x.to_host(), std::vector<int>(n, 1));
}

}  // namespace
}  // namespace weir_test
