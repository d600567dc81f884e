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

ON_EVERY_DEVICE(GraphsThreads);

}  // namespace
