// One graph, several threads: launches from any of them, changes from one.
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

namespace {

using namespace weir_test;

struct Stamp {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] = value; }
};

class GraphsThreads : public AnyDevice {};

TEST_P(GraphsThreads, AGraphIsChangedWhileAnotherThreadLaunchesItOnManyStreams) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Stamp{}, weir::out(x), 1);
  weir::Graph graph = b.build();
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 100; ++i) streams.emplace_back(device());
  std::thread launching([&] {
    for (const weir::Stream& stream : streams) graph.launch(stream);
  });
  for (int i = 0; i < 50; ++i) graph.update(node, weir::out(i % 2 == 0 ? y : x), 2);
  launching.join();
  graph.launch(s);
  device().synchronize();
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 2));
}

// A child is the graph as it was before a change or behind it, never half of each.
TEST_P(GraphsThreads, AGraphIsChangedWhileAnotherThreadCapturesItAsAChild) {
  const weir::Stream s(device(), {.blocking = false});
  const weir::Stream t(device(), {.blocking = false});
  auto x = weir::zeros<int>(weir::pinned, 16);
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Stamp{}, weir::out(x), 1);
  weir::Graph graph = b.build();
  std::thread changing([&] {
    for (int i = 2; i <= 200; ++i) graph.update(node, weir::out(x), i);
  });
  int last = 1;
  for (int i = 0; i < 50; ++i) {
    const weir::Graph parent = weir::capture(s, [&] { graph.launch(s); });
    parent.launch(t);
    t.synchronize();
    EXPECT_EQ(x.to_host(), std::vector<int>(16, x[0]));
    EXPECT_GE(x[0], last);
    EXPECT_LE(x[0], 200);
    last = x[0];
  }
  changing.join();
  graph.launch(t);
  t.synchronize();
  EXPECT_EQ(x[15], 200);
}

TEST_P(GraphsThreads, AGraphIsChangedByThreadsThatHaveDoneNothingBefore) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 16);
  auto y = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::GraphBuilder b(device());
  const auto node = b.launch(16, Stamp{}, weir::out(x), 1);
  const auto fill = b.fill(y, 1);
  weir::Graph graph = b.build();
  const auto replay = [&] {
    graph.launch(s);
    return std::vector<int>{x.to_host()[15], y.to_host()[15]};
  };
  // Arguments for the driver's node, then the same again by the shorter way.
  for (int value = 2; value <= 4; ++value) {
    std::thread([&] { graph.update(node, weir::out(x), value); }).join();
    EXPECT_EQ(replay(), (std::vector<int>{value, 1}));
  }
  std::thread([&] { graph.update_fill(fill, y, 5); }).join();  // another instance, with the arguments
  EXPECT_EQ(replay(), (std::vector<int>{4, 5}));
}

ON_EVERY_DEVICE(GraphsThreads);

}  // namespace
