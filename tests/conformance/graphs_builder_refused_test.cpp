// Calls of a GraphBuilder that throw: the graph is as it was before them.
#include <stdexcept>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

class GraphsBuilderRefused : public AnyDevice {
 protected:
  weir::Stream s{device()};
};

TEST_P(GraphsBuilderRefused, AConditionalNodeWhoseBodyThrowsIsGoneWithWhatTheBodyMade) {
  auto x = weir::zeros<int>(s, 16);
  auto condition = weir::full<std::int32_t>(s, 1, 1);
  s.synchronize();
  weir::GraphBuilder b(device(), weir::Dependencies::inferred);
  b.launch(named("first"), Plus{}, weir::inout(x), 1);
  weir::Array<int> made;
  const auto throwing = [&] {
    b.launch(named("inside"), Plus{}, weir::inout(x), 10);
    made = b.allocate<int>(16).first;
    b.if_(condition, [&] { b.fill(x, 7); });
    throw std::runtime_error("the body gave up");
  };
  EXPECT_THROW(b.if_(condition, throwing), std::runtime_error);
  EXPECT_THROW(b.switch_(
                   condition, [&] { b.fill(x, 7); }, throwing),
               std::runtime_error);
  EXPECT_EQ(topology(b.build()), "first");
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { b.free(made); }));
  b.launch(named("last"), Plus{}, weir::inout(x), 2);
  weir::Graph graph = b.build();
  EXPECT_EQ(topology(graph), "first; last<first");
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 3));
}

TEST_P(GraphsBuilderRefused, ABodyMayGoOnAfterACallThatThrew) {
  auto x = weir::zeros<int>(s, 16);
  auto condition = weir::full<std::int32_t>(s, 1, 1);
  s.synchronize();
  weir::GraphBuilder b(device());
  b.if_(condition, [&] {
    EXPECT_THROW(b.if_(condition, [] { throw std::runtime_error("the body gave up"); }), std::runtime_error);
    b.launch(named("inside"), Plus{}, weir::inout(x), 10);
  });
  weir::Graph graph = b.build();
  EXPECT_EQ(graph.nodes().size(), 2U);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(16, 10));
}

TEST_P(GraphsBuilderRefused, OfManyDependenciesAllAreAddedOrNone) {
  for (const auto dependencies : {weir::Dependencies::explicit_only, weir::Dependencies::inferred}) {
    weir::GraphBuilder b(device(), dependencies);
    const auto first = b.empty();
    const auto second = b.empty();
    const auto third = b.empty();
    b.depends(first, third);
    const std::string before = topology(b.build());
    EXPECT_TRUE(fails_with(Errc::graph_cycle, [&] { b.depends(third, {second, first}); }));
    EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { b.depends(third, {second, weir::Node()}); }));
    EXPECT_EQ(topology(b.build()), before);
    b.depends(second, third);  // a cycle, had anything been kept of the refused ones
  }
}

ON_EVERY_DEVICE(GraphsBuilderRefused);

}  // namespace
