// Control flow inside graphs: if, if/else, switch, while, nested.
#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

class GraphsControl : public AnyDevice {
 protected:
  weir::Stream s{device()};
  weir::Array<std::int32_t> condition = weir::zeros<std::int32_t>(s, 1);
  weir::Array<std::int32_t> x = weir::zeros<std::int32_t>(s, 4);
  void SetUp() override {
    AnyDevice::SetUp();
    s.synchronize();
  }
  int run(const weir::Graph& graph, int value) {
    weir::fill(s, condition, value);
    weir::fill(s, x, 0);
    graph.launch(s);
    return x.to_host()[0];
  }
};

TEST_P(GraphsControl, If) {
  weir::GraphBuilder b(device());
  auto node = b.if_(condition, [&] { b.launch(4, Plus{}, weir::inout(x), 5); });
  auto after = b.launch(4, Plus{}, weir::inout(x), 1);
  b.depends(after, node);
  weir::Graph graph = b.build();
  EXPECT_EQ(run(graph, 0), 1);
  EXPECT_EQ(run(graph, 1), 6);
  EXPECT_EQ(run(graph, -3), 6);
}

TEST_P(GraphsControl, IfElse) {
  weir::Graph graph = weir::capture(s, [&] {
    weir::capture_if(
        s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 5); },
        [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 7); });
    weir::launch(s, 4, Plus{}, weir::inout(x), 100);
  });
  EXPECT_EQ(run(graph, 1), 105);
  EXPECT_EQ(run(graph, 0), 107);
}

TEST_P(GraphsControl, Switch) {
  weir::Graph graph = weir::capture(s, [&] {
    weir::capture_switch(
        s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 1); },
        [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 2); }, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 3); });
  });
  EXPECT_EQ(run(graph, 0), 1);
  EXPECT_EQ(run(graph, 1), 2);
  EXPECT_EQ(run(graph, 2), 3);
  EXPECT_EQ(run(graph, 3), 0);
  EXPECT_EQ(run(graph, -1), 0);
}

// More of them than a byte counts.
TEST_P(GraphsControl, SwitchOfManyCases) {
  struct Case {
    weir::Stream& s;
    weir::Array<std::int32_t>& x;
    int number;
    void operator()() const { weir::launch(s, 4, Plus{}, weir::inout(x), number + 1); }
    void operator()(weir::GraphBuilder& body) const { body.launch(4, Plus{}, weir::inout(x), number + 1); }
  };
  constexpr std::make_integer_sequence<int, 300> all;
  const auto capture_cases = [&]<int... number>(std::integer_sequence<int, number...>) {
    weir::capture_switch(s, condition, Case{s, x, number}...);
  };
  weir::GraphBuilder b(device());
  const auto build_cases = [&]<int... number>(std::integer_sequence<int, number...>) {
    b.switch_(condition, Case{s, x, number}...);
  };
  build_cases(all);
  const weir::Graph graphs[] = {weir::capture(s, [&] { capture_cases(all); }), b.build()};
  for (const weir::Graph& graph : graphs) {
    for (const int number : {0, 1, 254, 255, 256, 257, 299}) EXPECT_EQ(run(graph, number), number + 1);
    EXPECT_EQ(run(graph, 300), 0);
  }
}

TEST_P(GraphsControl, While) {
  weir::GraphBuilder b(device(), weir::Dependencies::inferred);
  b.while_(condition, [&](weir::GraphBuilder& body) {
    body.launch(4, Plus{}, weir::inout(x), 2);
    body.launch(1, Plus{}, weir::inout(condition), -1);
  });
  b.launch(4, Plus{}, weir::inout(x), 1000);
  weir::Graph graph = b.build();
  for (const int turns : {0, 1, 10, 1000}) EXPECT_EQ(run(graph, turns), 2 * turns + 1000);
}

// What would end the loop is skipped, too.
TEST_P(GraphsControl, AFailureBeforeBodiesEndsTheirNodes) {
  bool fails = true;
  weir::Graph graph = weir::capture(s, [&] {
    weir::host_call(s, [&fails] {
      if (fails) throw std::runtime_error("no luck");
    });
    weir::capture_while(s, condition, [&] {
      weir::launch(s, 4, Plus{}, weir::inout(x), 1);
      weir::launch(s, 1, Plus{}, weir::inout(condition), -1);
    });
    weir::capture_if(
        s, condition, [] {}, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 10); });
    weir::capture_switch(s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 100); });
  });
  weir::fill(s, condition, 3);
  weir::fill(s, x, 0);
  graph.launch(s);
  EXPECT_TRUE(fails_with(Errc::host_function_failed, [&] { s.synchronize(); }, {"no luck"}));
  EXPECT_EQ(x.to_host()[0], 0);
  EXPECT_EQ(condition.to_host()[0], 3);
  fails = false;
  EXPECT_EQ(run(graph, 3), 113);
}

//  s:  [hold ......][throws][graph: while, if/else, then a host function]
TEST_P(GraphsControl, AReplayBehindAFailureRunsNoBody) {
  std::atomic<int> calls{0};
  weir::Graph graph = weir::capture(s, [&] {
    weir::capture_while(s, condition, [&] {
      weir::launch(s, 4, Plus{}, weir::inout(x), 1);
      weir::launch(s, 1, Plus{}, weir::inout(condition), -1);
    });
    weir::capture_if(
        s, condition, [] {}, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 10); });
    weir::host_call(s, [&calls] { ++calls; });
  });
  weir::fill(s, condition, 3);
  weir::fill(s, x, 0);
  s.synchronize();
  Gate gate;
  gate.hold_by_host_call(s);
  weir::host_call(s, [] { throw std::runtime_error("no luck"); });
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.launch(s); }));
  gate.open();
  EXPECT_TRUE(fails_with(Errc::host_function_failed, [&] { s.synchronize(); }, {"no luck"}));
  EXPECT_EQ(calls.load(), 0);
  EXPECT_EQ(x.to_host()[0], 0);
  EXPECT_EQ(condition.to_host()[0], 3);
  EXPECT_EQ(run(graph, 3), 13);
  EXPECT_EQ(calls.load(), 1);
}

TEST_P(GraphsControl, Nested) {
  auto inner = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::capture_while(s, condition, [&] {
      weir::fill(s, inner, 3);
      weir::capture_while(s, inner, [&] {
        weir::launch(s, 4, Plus{}, weir::inout(x), 1);
        weir::launch(s, 1, Plus{}, weir::inout(inner), -1);
      });
      weir::capture_if(s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 10); });
      weir::launch(s, 1, Plus{}, weir::inout(condition), -1);
    });
  });
  EXPECT_EQ(run(graph, 4), 4 * 13);
}

TEST_P(GraphsControl, BranchesInsideABodyOverlap) {
  Meeting meeting(2);
  weir::Stream t(device());
  weir::Graph graph = weir::capture(s, [&] {
    weir::capture_if(s, condition, [&] {
      t.wait(s);
      meeting.attend(s);
      meeting.attend(t);
      s.wait(t);
    });
  });
  EXPECT_EQ(run(graph, 1), 0);
  EXPECT_TRUE(meeting.met());
}

TEST_P(GraphsControl, NodesInsideAndBesideBodiesCanBeChanged) {
  auto y = weir::zeros<std::int32_t>(s, 4);
  auto z = weir::zeros<std::int32_t>(s, 4);
  weir::GraphBuilder b(device());
  weir::Node add;
  weir::Node fill;
  const auto branch = b.if_(condition, [&](weir::GraphBuilder& body) {
    add = body.launch(4, Plus{}, weir::inout(x), 1);
    fill = body.fill(y, 2);
  });
  const auto last = b.fill(z, 3);
  b.depends(last, branch);
  weir::Graph graph = b.build();
  const auto values = [&] {
    weir::fill(s, y, 0);
    weir::fill(s, z, 0);
    const int of_x = run(graph, 1);
    return std::vector<int>{of_x, y.to_host()[0], z.to_host()[0]};
  };
  EXPECT_EQ(values(), (std::vector<int>{1, 2, 3}));
  graph.update_fill(last, z, 30);
  EXPECT_EQ(values(), (std::vector<int>{1, 2, 30}));
  graph.update_fill(fill, y, 20);
  EXPECT_EQ(values(), (std::vector<int>{1, 20, 30}));
  graph.update(add, Plus{}, weir::inout(x), 10);
  graph.disable(fill);
  EXPECT_EQ(values(), (std::vector<int>{10, 0, 30}));
  graph.enable(fill);
  graph.update_fill(fill, z, 40);  // before the last one
  EXPECT_EQ(values(), (std::vector<int>{10, 0, 30}));
  EXPECT_EQ(run(graph, 0), 0);
}

TEST_P(GraphsControl, PendingReplaysKeepTheBodiesThatTheyHad) {
  auto y = weir::zeros<std::int32_t>(s, 4);
  auto z = weir::zeros<std::int32_t>(s, 4);
  weir::GraphBuilder b(device());
  weir::Node fill;
  b.if_(condition, [&](weir::GraphBuilder& body) { fill = body.fill(y, 5); });
  weir::Graph graph = b.build();
  weir::fill(s, condition, 1);
  graph.launch(s);
  EXPECT_EQ(y.to_host()[0], 5);
  weir::fill(s, y, 0);
  s.synchronize();
  Gate gate;
  gate.hold_by_host_call(s);
  graph.launch(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.update_fill(fill, z, 6); }));
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.launch(s); }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(y.to_host()[0], 5);
  EXPECT_EQ(z.to_host()[0], 6);
}

TEST_P(GraphsControl, MayGoWhileReplaysArePending) {
  std::optional<weir::Graph> graph =
      weir::capture(s, [&] { weir::capture_if(s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 1); }); });
  EXPECT_EQ(run(*graph, 1), 1);
  Gate gate;
  gate.hold_by_host_call(s);
  graph->launch(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.reset(); }));
  gate.open();
  EXPECT_EQ(x.to_host()[0], 2);
}

TEST_P(GraphsControl, MayGoWhileAnotherStreamIsHeld) {
  const weir::Stream other(device(), {.blocking = false});
  weir::launch(other, 1, Plus{}, weir::inout(x), 0);
  other.synchronize();
  const auto capture = [&] {
    return weir::capture(
        s, [&] { weir::capture_if(s, condition, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 1); }); });
  };
  std::optional<weir::Graph> never_launched = capture();
  std::optional<weir::Graph> graph = capture();
  EXPECT_EQ(run(*graph, 1), 1);
  s.synchronize();
  Gate gate;
  gate.hold_by_host_call(other);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    never_launched.reset();
    graph.reset();
    graph = capture();
    s.synchronize();
    graph.reset();
  }));
  gate.open();
  other.synchronize();
  EXPECT_EQ(x.to_host()[0], 1);
}

TEST_P(GraphsControl, MayGoWhileAnotherStreamIsHeldHavingRunBehindAHostFunction) {
  const weir::Stream other(device(), {.blocking = false});
  std::optional<weir::Graph> graph = weir::capture(s, [&] { weir::launch(s, 4, Plus{}, weir::inout(x), 1); });
  {
    Gate gate;
    gate.hold_by_host_call(s);
    graph->launch(s);
    gate.open();
  }
  s.synchronize();
  Gate gate;
  gate.hold_by_host_call(other);
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.reset(); }));
  gate.open();
  EXPECT_EQ(x.to_host()[0], 1);
}

TEST_P(GraphsControl, BodiesAreJoinedInside) {
  weir::Stream t(device(), {.name = "loose"});
  EXPECT_TRUE(fails_with(Errc::capture_unjoined,
                         [&] {
                           weir::capture(s, [&] {
                             weir::capture_if(s, condition, [&] {
                               t.wait(s);
                               weir::launch(t, 4, Plus{}, weir::inout(x), 1);
                             });
                           });
                         },
                         {"loose"}));
  EXPECT_TRUE(fails_with(Errc::capture_isolation,
                         [&] {
                           weir::capture(s, [&] {
                             t.wait(s);
                             weir::capture_if(s, condition, [&] { weir::launch(t, 4, Plus{}, weir::inout(x), 1); });
                           });
                         },
                         {"loose"}));
  EXPECT_FALSE(weir::is_capturing(t));
}

TEST_P(GraphsControl, OutsideOfCapturesIsRefused) {
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_if(s, condition, [] {}); }, {"weir::capture_if"}));
}

TEST_P(GraphsControl, AnExceptionOfABodyPasses) {
  weir::GraphBuilder b(device());
  EXPECT_THROW(b.if_(condition, [] { throw 7; }), int);
  b.launch(4, Plus{}, weir::inout(x), 1);
  EXPECT_EQ(run(b.build(), 0), 1);
}

ON_EVERY_DEVICE(GraphsControl);

}  // namespace
