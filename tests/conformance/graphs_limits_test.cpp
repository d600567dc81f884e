// Limits of graphs: how deep they are nested, and how many dependencies a node has.
#include <time.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

class GraphsLimits : public AnyDevice {
 protected:
  /// Bodies inside each other, the innermost with a node.
  static void nest(weir::GraphBuilder& builder, const weir::Array<std::int32_t>& flag, int bodies) {
    if (bodies == 0) {
      builder.empty();
      return;
    }
    builder.if_(flag, [&] { nest(builder, flag, bodies - 1); });
  }
};

TEST_P(GraphsLimits, BodiesInsideEachOtherAre200) {
  const weir::Stream s(device());
  const auto flag = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  weir::GraphBuilder deep(device());
  nest(deep, flag, 200);
  if (on("cpu")) {
    EXPECT_FALSE(weir::to_dot(deep.build()).empty());
  }
  weir::GraphBuilder builder(device());
  EXPECT_TRUE(
      fails_with(Errc::not_supported, [&] { nest(builder, flag, 201); }, {"201", "200", "graphs_limits_test.cpp"}));
}

TEST_P(GraphsLimits, BodiesInsideEachOtherAre200InACaptureToo) {
  const weir::Stream s(device());
  const auto flag = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  const std::function<void(int)> nest = [&](int bodies) {
    if (bodies > 0) weir::capture_if(s, flag, [&] { nest(bodies - 1); });
  };
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { (void)weir::capture(s, [&] { nest(201); }); },
                         {"201", "weir::capture_if"}));
  EXPECT_FALSE(weir::is_capturing(s));
}

TEST_P(GraphsLimits, AChildInsideBodiesCountsWithWhatIsInIt) {
  const weir::Stream s(device());
  const auto flag = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  if (!on("cpu")) GTEST_SKIP() << "a driver may take fewer";
  weir::GraphBuilder inner(device());
  nest(inner, flag, 100);
  const weir::Graph child = inner.build();
  const auto around = [&](int bodies) {
    weir::GraphBuilder builder(device());
    const std::function<void(int)> go = [&](int left) {
      if (left == 0) {
        builder.graph(child);
      } else {
        builder.if_(flag, [&] { go(left - 1); });
      }
    };
    go(bodies);
  };
  around(99);
  EXPECT_TRUE(fails_with(Errc::not_supported, [&] { around(100); }, {"201"}));
}

/// What this thread computed: others may take its core.
double seconds_of_this_thread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Seconds for one node that depends on `count` others, each named twice.
double seconds_for(weir::Device device, int count) {
  weir::GraphBuilder builder(device);
  std::vector<weir::Node> others;
  for (int i = 0; i < count; ++i) others.push_back(builder.empty());
  const weir::Node last = builder.empty();
  const double begin = seconds_of_this_thread();
  for (const weir::Node& other : others) builder.depends(last, other);
  for (const weir::Node& other : others) builder.depends(last, other);
  return seconds_of_this_thread() - begin;
}

TEST_P(GraphsLimits, ManyDependenciesOfOneNodeCostInProportion) {
  if (!on("cpu")) GTEST_SKIP() << "no device takes part";
  weir::GraphBuilder builder(device());
  std::vector<weir::Node> others;
  for (int i = 0; i < 1000; ++i) others.push_back(builder.empty());
  const weir::Node last = builder.empty();
  for (int round = 0; round < 2; ++round) {
    for (const weir::Node& other : others) builder.depends(last, other);
  }
  const weir::Graph graph = builder.build();
  EXPECT_EQ(graph.nodes().back().depends.size(), 1000u) << "a dependency counts once";
  // Twenty times as many would take 400 times as long if each looked through the others.
  double few = 1, many = 1;
  for (int attempt = 0; attempt < 5; ++attempt) {
    few = seconds_for(device(), 10000);
    many = seconds_for(device(), 200000);
    if (many < 100 * few) return;
  }
  ADD_FAILURE() << "10,000 dependencies took " << few << " s, 200,000 took " << many << " s";
}

}  // namespace

ON_EVERY_DEVICE(GraphsLimits);
