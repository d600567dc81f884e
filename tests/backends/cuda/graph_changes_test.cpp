// Graphs on the fake driver: changes that fail at each of the driver's calls, ends while replays are pending, and calls of the
// driver's own form in graphs.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include <weir/detail/device_code.hpp>
#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir::detail {
void submit_global(StreamRef stream, const GlobalCall& call, std::span<const Region> uses, const char* name,
                   const char* operation, SourceLocation where);
}

namespace {

using namespace weir_test;

struct AddOne {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int by) const { x[i] += by; }
};
struct AddTwice {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int by) const { x[i] += 2 * by; }
};

class GraphChanges : public testing::Test {
 protected:
  weir::Device device = weir::devices("cuda").at(0);
  weir::Stream s{device};
  weir::Array<int> x = weir::zeros<int>(s, 4);
  weir::Array<int> y = weir::zeros<int>(s, 4);
  weir::Array<std::int32_t> yes = weir::full(s, 1, std::int32_t{1});

  void SetUp() override { s.synchronize(); }
  void TearDown() override {
    fake_cuda::fail_nothing();
    device.synchronize();
  }
  std::vector<int> replay(const weir::Graph& graph) {
    weir::fill(s, x, 0);
    weir::fill(s, y, 0);
    graph.launch(s);
    return {x.to_host()[0], y.to_host()[0]};
  }

  /// Makes the n-th of each call fail, for each n, while a graph is changed: it stays as it was, and the change works next. Returns
  /// how often it failed: there is another way for most.
  int fails_at_every_call(const std::function<weir::Graph()>& make, const std::vector<int>& before,
                          const std::function<void(weir::Graph&)>& change, const std::vector<int>& after) {
    const char* calls[] = {"cudaGraphDestroyNode",
                           "cudaGraphAddDependencies",
                           "cudaStreamBeginCaptureToGraph",
                           "cudaStreamBeginCapture",
                           "cudaStreamGetCaptureInfo",
                           "cudaStreamUpdateCaptureDependencies",
                           "cudaGraphGetNodes",
                           "cudaGraphNodeGetDependencies",
                           "cudaGraphNodeGetDependentNodes",
                           "cudaGraphInstantiate",
                           "cudaGraphNodeSetEnabled",
                           "cudaGraphCreate",
                           "cudaGraphAddNode",
                           "cuGraphExecKernelNodeSetParams",
                           "cuGraphKernelNodeSetParams",
                           "cuLaunchKernel",
                           "cudaMemcpyAsync"};
    int failed = 0;
    for (const char* call : calls) {
      for (std::uint64_t n = 1; n <= 12; ++n) {
        SCOPED_TRACE(std::string(call) + " " + std::to_string(n));
        weir::Graph graph = make();
        EXPECT_EQ(replay(graph), before);
        const std::uint64_t calls_before = fake_cuda::calls(call);
        fake_cuda::fail_call(call, n, cudaErrorMemoryAllocation);
        bool threw = false;
        try {
          change(graph);
        } catch (const weir::Error&) {
          threw = true;
        }
        fake_cuda::fail_nothing();
        const bool reached = fake_cuda::calls(call) - calls_before >= n;
        failed += threw ? 1 : 0;
        EXPECT_EQ(replay(graph), threw ? before : after);
        change(graph);
        EXPECT_EQ(replay(graph), after);
        if (HasFailure()) return failed;
        if (!reached) break;
      }
    }
    return failed;
  }
};

TEST_F(GraphChanges, another_kernel_all_or_nothing) {
  weir::Node add;
  const auto make = [&] {
    weir::GraphBuilder b(device);
    const auto first = b.fill(y, 7);
    add = b.launch(4, AddOne{}, weir::inout(x), 1);
    const auto last = b.launch(4, AddOne{}, weir::inout(y), 1);
    b.depends(add, first);
    b.depends(last, add);
    return b.build();
  };
  fails_at_every_call(make, {1, 8}, [&](weir::Graph& graph) { graph.update(add, AddTwice{}, weir::inout(x), 10); },
                      {20, 8});
}

TEST_F(GraphChanges, another_fill_all_or_nothing) {
  weir::Node fill;
  const auto make = [&] {
    weir::GraphBuilder b(device);
    fill = b.fill(x, 5);
    const auto last = b.launch(4, AddOne{}, weir::inout(y), 1);
    b.depends(last, fill);
    return b.build();
  };
  const int failed =
      fails_at_every_call(make, {5, 1}, [&](weir::Graph& graph) { graph.update_fill(fill, x, 9); }, {9, 1});
  EXPECT_GT(failed, 0);
}

TEST_F(GraphChanges, many_fills_at_once_all_or_nothing_and_by_one_instance) {
  const auto fills = [&](int value) {
    return weir::capture(s, [&] {
      weir::fill(s, x, value);
      weir::fill(s, y, value + 1);
      for (int i = 0; i < 50; ++i) weir::fill(s, x, value);
    });
  };
  const weir::Graph other = fills(7);
  EXPECT_GT(fails_at_every_call([&] { return fills(3); }, {3, 4}, [&](weir::Graph& g) { g.update(other); }, {7, 8}), 0);
  weir::Graph graph = fills(3);
  const std::uint64_t before = fake_cuda::calls("cudaGraphInstantiate");
  graph.update(other);
  EXPECT_EQ(fake_cuda::calls("cudaGraphInstantiate"), before + 1);
  EXPECT_EQ(replay(graph), (std::vector<int>{7, 8}));
}

TEST_F(GraphChanges, a_host_function_all_or_nothing) {
  weir::Node call;
  int* word = nullptr;
  ASSERT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&word), sizeof(int), 0), cudaSuccess);
  const auto make = [&] {
    *word = 0;
    weir::GraphBuilder b(device);
    call = b.host_call([word] { *word += 1; });
    const auto add = b.launch(4, AddOne{}, weir::inout(x), 3);
    b.depends(add, call);
    return b.build();
  };
  const int failed = fails_at_every_call(
      make, {3, 0}, [&](weir::Graph& graph) { graph.update_host_call(call, [word] { *word += 100; }); }, {3, 0});
  EXPECT_GT(failed, 0);
  s.synchronize();
  EXPECT_EQ(cudaFreeHost(word), cudaSuccess);
}

TEST_F(GraphChanges, in_and_beside_bodies_all_or_nothing) {
  weir::Node inner;
  const auto make = [&] {
    weir::GraphBuilder b(device);
    b.if_(yes, [&](weir::GraphBuilder& body) {
      inner = body.fill(x, 5);
      body.fill(y, 1);
    });
    return b.build();
  };
  const int failed =
      fails_at_every_call(make, {5, 1}, [&](weir::Graph& graph) { graph.update_fill(inner, x, 9); }, {9, 1});
  EXPECT_GT(failed, 0);
}

TEST_F(GraphChanges, nodes_switched_off_all_or_nothing) {
  weir::Node fill;
  const auto make = [&] {
    weir::GraphBuilder b(device);
    fill = b.fill(x, 5);
    const auto last = b.fill(y, 1);
    b.depends(last, fill);
    return b.build();
  };
  fails_at_every_call(make, {5, 1}, [&](weir::Graph& graph) { graph.disable(fill); }, {0, 1});
}

// After a change that failed, others of other nodes.
TEST_F(GraphChanges, a_failed_change_is_not_in_the_way_of_others) {
  for (const char* call : {"cudaStreamUpdateCaptureDependencies", "cudaGraphInstantiate", "cudaGraphDestroyNode"}) {
    for (std::uint64_t n = 1; n <= 3; ++n) {
      SCOPED_TRACE(std::string(call) + " " + std::to_string(n));
      weir::GraphBuilder b(device);
      const auto first = b.fill(x, 1);
      const auto second = b.fill(y, 2);
      weir::Graph graph = b.build();
      fake_cuda::fail_call(call, n, cudaErrorMemoryAllocation);
      bool threw = false;
      try {
        graph.update_fill(first, x, 10);
      } catch (const weir::Error&) {
        threw = true;
      }
      fake_cuda::fail_nothing();
      for (int turn = 0; turn < 3; ++turn) {
        graph.update_fill(second, y, 20 + turn);
        EXPECT_EQ(replay(graph), (std::vector<int>{threw ? 1 : 10, 20 + turn}));
      }
    }
  }
}

/// In a stream whose host function may still fail a graph is launched under a condition.
TEST_F(GraphChanges, a_graph_may_go_while_a_guarded_replay_is_pending) {
  const std::size_t instances = fake_cuda::outstanding().instances;
  weir::GraphBuilder b(device);
  b.launch(4, AddOne{}, weir::inout(x), 1);
  std::optional<weir::Graph> graph(b.build());
  Gate gate;
  gate.hold_by_host_call(s);
  graph->launch(s);
  EXPECT_TRUE(returns_while_held(gate, [&] { graph.reset(); }));
  gate.open();
  EXPECT_EQ(x.to_host()[0], 1);
  s.synchronize();
  EXPECT_EQ(fake_cuda::outstanding().instances, instances);
}

// Without the event behind it its stream is asked.
TEST_F(GraphChanges, a_graph_stays_while_a_replay_is_pending_whose_end_the_driver_did_not_note) {
  const std::size_t instances = fake_cuda::outstanding().instances;
  weir::GraphBuilder b(device);
  b.host_call([] {});
  std::optional<weir::Graph> graph(b.build());
  graph->launch(s);
  s.synchronize();
  std::optional<fake_cuda::Pause> pause(std::in_place, 0, static_cast<CUstream_st*>(s.native()));
  fake_cuda::fail_call("cudaEventRecord", 1, cudaErrorMemoryAllocation);
  graph->launch(s);
  fake_cuda::fail_nothing();
  graph.reset();
  EXPECT_EQ(fake_cuda::outstanding().instances, instances + 1);
  pause.reset();
  s.synchronize();
  EXPECT_EQ(fake_cuda::outstanding().instances, instances);
}

TEST_F(GraphChanges, updates_between_guarded_replays_wait_for_nothing) {
  weir::GraphBuilder b(device);
  const auto add = b.launch(4, AddOne{}, weir::inout(x), 1);
  const auto fill = b.fill(y, 5);
  weir::Graph graph = b.build();
  Gate gate;
  gate.hold_by_host_call(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int turn = 1; turn <= 5; ++turn) {
      graph.launch(s);
      graph.update(add, weir::inout(x), 10 * turn);
      graph.launch(s);
      graph.update_fill(fill, y, turn);
    }
    graph.launch(s);
    graph = weir::Graph();
  }));
  gate.open();
  // 1, 10, 10, 20, 20, 30, 30, 40, 40, 50, 50
  EXPECT_EQ(x.to_host()[0], 1 + 2 * (10 + 20 + 30 + 40 + 50));
  EXPECT_EQ(y.to_host()[0], 5);
}

/// Fills memory by the runtime's call: its arguments are where the call's are.
struct FillCall {
  void* to;
  int value;
  std::size_t bytes;

  static int run(const weir::detail::GlobalCall& call, void* stream) {
    const auto& fill = *static_cast<const FillCall*>(call.arguments[0]);
    return cudaMemsetAsync(fill.to, fill.value, fill.bytes, static_cast<cudaStream_t>(stream));
  }
  static void** copy(void** arguments) {
    return new void* [1] { new FillCall(*static_cast<const FillCall*>(arguments[0])) };
  }
  static void forget(void** arguments) noexcept {
    delete static_cast<FillCall*>(arguments[0]);
    delete[] arguments;
  }
};

[[gnu::noinline]] void fill_by_call(weir::StreamRef stream, void* to, int value, std::size_t bytes) {
  FillCall fill{to, value, bytes};
  void* argument = &fill;
  const weir::detail::GlobalCall call{nullptr,           {},     {}, 0, &argument, &FillCall::run, &FillCall::copy,
                                      &FillCall::forget, nullptr};
  weir::detail::submit_global(stream, call, {}, "fill by call", "test", weir::SourceLocation::current());
  fill = {nullptr, 0, 0};
}

// What a call was made with is gone when a body is handed to the driver, and when a child's nodes are made again.
TEST_F(GraphChanges, calls_of_the_drivers_own_form_keep_their_arguments) {
  const auto calls = [&] {
    fill_by_call(s, x.data(), 1, 16);
    fill_by_call(s, y.data(), 2, 16);
  };
  const weir::Graph body = weir::capture(s, [&] { weir::capture_if(s, yes, calls); });
  const weir::Graph plain = weir::capture(s, calls);
  const weir::Graph child = weir::capture(s, [&] { weir::capture_if(s, yes, [&] { plain.launch(s); }); });
  weir::GraphBuilder b(device);
  b.graph(body);
  const weir::Graph built = b.build();
  for (const weir::Graph* graph : {&body, &plain, &child, &built}) {
    EXPECT_EQ(replay(*graph), (std::vector<int>{0x01010101, 0x02020202}));
  }
}

TEST_F(GraphChanges, calls_of_the_drivers_own_form_are_in_graphs_that_are_made_anew) {
  weir::Graph graph = weir::capture(s, [&] {
    fill_by_call(s, x.data(), 1, 16);
    weir::capture_if(s, yes, [&] { weir::fill(s, y, 3); });
  });
  graph.update_fill(graph.nodes().back().node, y, 4);
  EXPECT_EQ(replay(graph), (std::vector<int>{0x01010101, 4}));
}

// The driver knows no locks for graphs, and copies a child with another library's work into each graph that is made with it.
TEST_F(GraphChanges, two_threads_make_graphs_of_one_child_with_foreign_work) {
  const weir::Graph child = weir::capture(s, [&] {
    weir::launch(s, x.size(), AddOne{}, weir::inout(x), 1);
    EXPECT_EQ(cudaMemsetAsync(y.data(), 1, 16, static_cast<cudaStream_t>(s.native())), cudaSuccess);
  });
  const weir::Graph parent = weir::capture(s, [&] { child.launch(s); });
  weir::GraphBuilder a(device);
  weir::GraphBuilder b(device);
  a.graph(parent);
  b.graph(parent);
  const fake_cuda::RecordViolations violations;
  std::optional<fake_cuda::HoldCalls> held("cudaGraphAddChildGraphNode");
  const std::uint64_t before = fake_cuda::returned_calls("cudaStreamBeginCaptureToGraph");
  std::thread first([&] { a.build(); });
  std::thread second([&] { b.build(); });
  EXPECT_TRUE(eventually([&] { return fake_cuda::returned_calls("cudaStreamBeginCaptureToGraph") == before + 2; }));
  EXPECT_TRUE(stays(device, [&] { return violations.all().empty(); }));
  held.reset();
  first.join();
  second.join();
  EXPECT_EQ(violations.all(), std::vector<std::string>{});
}

}  // namespace
