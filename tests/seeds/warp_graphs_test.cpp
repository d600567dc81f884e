// Twins of the snippets in NVIDIA Warp's guide, chapter 4, "Concurrency", that are about graphs: graph launches, explicit
// streams, synchronisation and graph capture. The rest is in warp_concurrency_test.cpp and warp_synchronization_test.cpp.
#include <gtest/gtest.h>

#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"
#include "warp_guide.hpp"

namespace {

using warp_guide::AddOne;
using warp_guide::all;
using warp_guide::n;
using weir_test::blocks_until_open;
using weir_test::eventually;
using weir_test::fails_with;
using weir_test::Gate;
using weir_test::returns_while_held;
using weir_test::topology;

class WarpGraphs : public weir_test::AnyDevice {};
class WarpGraphsOfTwo : public weir_test::TwoDevices {};

// Graph launches (W4, W21): a graph of each device, launched on the respective devices at the same time; the host goes on.
TEST_P(WarpGraphsOfTwo, graphs_of_different_devices_run_at_the_same_time) {
  auto a0 = weir::zeros<float>(first(), n);
  auto a1 = weir::zeros<float>(second(), n);
  Gate gate;

  weir::ScopedCapture capture0(first());
  gate.hold(weir::get_stream(first()));
  weir::launch(first(), n, AddOne{}, weir::inout(a0));
  const weir::Graph graph0 = capture0.finish();
  weir::ScopedCapture capture1(second());
  gate.hold(weir::get_stream(second()));
  weir::launch(second(), n, AddOne{}, weir::inout(a1));
  const weir::Graph graph1 = capture1.finish();
  EXPECT_EQ(gate.begun(), 0) << "captured work does not run";

  EXPECT_TRUE(returns_while_held(gate, [&] {
    graph0.launch();
    graph1.launch();
    int cpu_work = 0;
    for (int i = 0; i < 1000; ++i) cpu_work += i;
    EXPECT_EQ(cpu_work, 499500);
  }));

  EXPECT_EQ(graph0.device(), first());
  EXPECT_TRUE(eventually([&] { return gate.begun() == 2; })) << "both graphs are running now";
  gate.open();
  EXPECT_EQ(a0.to_host(), all(1));
  EXPECT_EQ(a1.to_host(), all(1));
}

// Graph launches (W4): on the CPU as elsewhere, a graph returns to the host before it has run.
TEST_P(WarpGraphs, a_graph_launch_returns_before_the_graph_has_finished) {
  auto a = weir::zeros<float>(device(), n);
  Gate gate;
  weir::ScopedCapture capture(device());
  gate.hold(weir::get_stream(device()));
  weir::launch(device(), n, AddOne{}, weir::inout(a));
  const weir::Graph graph = capture.finish();

  EXPECT_TRUE(returns_while_held(gate, [&] { graph.launch(); }));
  EXPECT_FALSE(weir::get_stream(device()).done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { EXPECT_EQ(a.to_host(), all(1)); }));
}

// The CUDA default stream (W15): reading back for convenience is an error in a capture; copy is what works there.
TEST_P(WarpGraphs, a_copy_is_the_readback_that_can_be_captured) {
  const weir::StreamRef stream = weir::get_stream(device());
  auto a = weir::zeros<float>(device(), n);
  auto host = weir::zeros<float>(weir::pinned, n);
  weir::synchronize_stream(stream);
  EXPECT_THROW(weir::capture(stream, [&] { (void)a.to_host(); }), weir::Error);

  weir::ScopedCapture capture(stream);
  weir::launch(device(), n, AddOne{}, weir::inout(a));
  weir::copy(host, a);
  const weir::Graph graph = capture.finish();
  EXPECT_EQ(host[0], 0.0f);

  graph.launch();
  graph.launch();
  weir::synchronize_stream(stream);
  EXPECT_EQ(std::vector<float>(host.begin(), host.end()), all(2));
}

// Explicit streams arguments (W16): the given stream is used, whatever the current one does.
TEST_P(WarpGraphs, a_graph_launch_takes_the_stream_it_is_given) {
  weir::Stream my_stream(device());
  auto a = weir::zeros<float>(my_stream, n);
  auto host = weir::zeros<float>(weir::pinned, n);
  my_stream.synchronize();
  const weir::Graph graph = weir::capture(device(), [&] {
    weir::launch(device(), n, AddOne{}, weir::inout(a));
    weir::copy(host, a);
  });
  Gate gate;
  gate.hold(weir::get_stream(device()));

  graph.launch(my_stream);

  EXPECT_TRUE(returns_while_held(gate, [&] { my_stream.synchronize(); }));
  EXPECT_EQ(host[n - 1], 1.0f);
}

// Explicit streams arguments (W21): one graph, launched again and again, on any stream.
TEST_P(WarpGraphs, a_graph_is_launched_again_on_other_streams) {
  auto a = weir::zeros<float>(device(), n);
  weir::synchronize_device(device());
  const weir::Graph graph = weir::capture(device(), [&] { weir::launch(n, AddOne{}, weir::inout(a)); });
  weir::Stream one(device()), two(device());
  for (int i = 0; i < 10; ++i) {
    graph.launch(one);
    graph.launch(two);
    graph.launch();
  }
  EXPECT_EQ(a.to_host(), all(30));
}

// Synchronization and graph capture (W20): one graph over streams of two devices.
//   stream0   [fork][kernel 0][join]
//   stream1         [kernel 1]
TEST_P(WarpGraphsOfTwo, a_graph_forks_to_the_other_device_and_joins_back) {
  weir::Stream stream0(first()), stream1(second());
  auto a0 = weir::zeros<float>(stream0, n);
  auto a1 = weir::zeros<float>(stream1, n);
  weir::synchronize();
  Gate gate;

  weir::ScopedCapture capture(stream0);
  stream1.wait(stream0);
  gate.hold(stream0);
  weir::launch(stream0, n, AddOne{}, weir::inout(a0));
  gate.hold(stream1);
  weir::launch(stream1, n, AddOne{}, weir::inout(a1));
  stream0.wait(stream1);
  const weir::Graph graph = capture.finish();

  EXPECT_EQ(topology(graph), "hold; warp_guide::AddOne<hold; hold; warp_guide::AddOne<hold");
  graph.launch(stream0);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 2; })) << "the captured kernels run at the same time";
  gate.open();
  stream0.synchronize();
  EXPECT_EQ(a0.to_host(), all(1));
  EXPECT_EQ(a1.to_host(), all(1));
}

// Synchronization and graph capture (W20): what is not allowed names the call, and events are what works.
TEST_P(WarpGraphs, only_events_synchronise_inside_a_capture) {
  const weir::StreamRef stream = weir::get_stream(device());
  const auto refused = [&](weir::Errc code, const char* call, auto&& offence) {
    return fails_with(code, [&] { weir::capture(stream, offence); }, {call, "warp_graphs_test.cpp"});
  };
  using weir::Errc;
  EXPECT_TRUE(refused(Errc::capture_unsupported, "weir::synchronize", [] { weir::synchronize(); }));
  EXPECT_TRUE(
      refused(Errc::capture_unsupported, "weir::synchronize_device", [&] { weir::synchronize_device(device()); }));
  EXPECT_TRUE(
      refused(Errc::capture_unsupported, "weir::synchronize_stream", [&] { weir::synchronize_stream(stream); }));
  EXPECT_TRUE(
      refused(Errc::captured_event, "weir::synchronize_event", [&] { weir::synchronize_event(stream.record()); }));
  EXPECT_TRUE(refused(Errc::capture_implicit, "weir::host_call",
                      [&] { weir::host_call(weir::legacy_stream(device()), [] {}); }));
  EXPECT_TRUE(fails_with(Errc::capture_unmatched,
                         [&] {
                           weir::Stream other(device());
                           weir::ScopedCapture capture(stream);
                           other.wait(stream);
                           (void)weir::capture_end(other);
                         },
                         {"weir::capture_end"}));

  weir::Stream other(device());
  auto a = weir::zeros<float>(device(), n);
  weir::synchronize_device(device());
  const weir::Graph graph = weir::capture(stream, [&] {
    weir::launch(stream, n, AddOne{}, weir::inout(a));
    weir::Event event = stream.record();
    other.wait(event);
    weir::launch(other, n, AddOne{}, weir::inout(a));
    stream.wait(other);
  });
  graph.launch();
  EXPECT_EQ(a.to_host(), all(2));
}

ON_EVERY_DEVICE(WarpGraphs);
ON_EVERY_BACKEND(WarpGraphsOfTwo);

}  // namespace
