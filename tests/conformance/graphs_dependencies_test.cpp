// A node of a graph that depends on several others runs after each of them.
#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

class GraphsDependencies : public AnyDevice {
 protected:
  weir::Graph holding(Gate& gate) const {
    weir::Stream t(device());
    return weir::capture(t, [&] { gate.hold(t); });
  }
};
ON_EVERY_DEVICE(GraphsDependencies);

//  a: [hold ......]
//  b: [hold ............]
//  c:                     [mark]         whichever of the two ends first
TEST_P(GraphsDependencies, R149_a_node_waits_for_each_node_that_it_depends_on) {
  for (const bool first_one_first : {false, true}) {
    Gate gates[2];
    Marker marker;
    weir::Stream s(device());
    weir::GraphBuilder builder(device());
    const weir::Node a = builder.graph(holding(gates[0]));
    const weir::Node b = builder.graph(holding(gates[1]));
    const weir::Node c = builder.launch(1, WriteMark{}, marker.word(), 1);
    builder.depends(c, a);
    builder.depends(c, b);
    const weir::Graph graph = builder.build();
    EXPECT_EQ(graph.node(graph.nodes()[c.index()].node).depends.size(), 2u);
    graph.launch(s);
    ASSERT_TRUE(eventually([&] { return gates[0].begun() == 1 && gates[1].begun() == 1; }));
    gates[first_one_first ? 0 : 1].open();
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
    gates[first_one_first ? 1 : 0].open();
    s.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

}  // namespace