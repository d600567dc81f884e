// Graphs on GPUs: the driver captures, so that work of others is in them too; what its conditional nodes refuse.
#include <cstdint>
#include <optional>
#include <vector>

#include <weir/cuda.hpp>

#include "on_gpu.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {

__global__ void add_once(int* x, int by) { *x += by; }

struct AddTo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int by) const { x[i] += by; }
};
struct DoubleIt {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] *= 2; }
};

namespace {

constexpr unsigned too_many_threads = 5000;
constexpr std::size_t too_many_elements = std::size_t{1} << 62;

class GpuGraphs : public OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped()) return;
    s.emplace(device());
    x = weir::zeros<int>(*s, 1);
    s->synchronize();
  }
  int after(const weir::Graph& graph, int before) {
    weir::fill(*s, x, before);
    graph.launch(*s);
    return x.to_host()[0];
  }
  std::optional<weir::Stream> s;
  weir::Array<int> x;
};

//  +1 (ours), x2 (a raw launch of theirs), +10 (ours)
TEST_F(GpuGraphs, raw_launches_on_the_native_stream_are_captured_in_their_place) {
  const weir::Graph graph = weir::capture(*s, [&] {
    weir::launch(*s, 1, AddTo{}, weir::inout(x), 1);
    add_once<<<1, 1, 0, weir::cuda::native(*s)>>>(x.data(), 100);
    weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
  });
  EXPECT_EQ(x.to_host()[0], 0);
  EXPECT_EQ(graph.size(), 2u);
  EXPECT_EQ(after(graph, 0), 202);
  EXPECT_EQ(after(graph, 1), 204);
}

TEST_F(GpuGraphs, global_functions_are_captured_with_their_arguments) {
  const weir::Graph graph = weir::capture(*s, [&] { weir::cuda::launch(*s, 1, 1, 0, add_once, weir::inout(x), 7); });
  EXPECT_EQ(after(graph, 1), 8);
  EXPECT_EQ(after(graph, 2), 9);
}

// A body is handed to the driver when it is complete, and a child graph again for each parent: by then the call is over.
TEST_F(GpuGraphs, global_functions_in_bodies_and_children_keep_their_arguments) {
  const auto condition = weir::full(*s, 1, std::int32_t{1});
  s->synchronize();
  const weir::Graph body = weir::capture(*s, [&] {
    weir::capture_if(*s, condition, [&] {
      for (int by = 1; by <= 3; ++by) weir::cuda::launch(*s, 1, 1, 0, add_once, weir::inout(x), by);
    });
  });
  const weir::Graph child = weir::capture(*s, [&] {
    weir::cuda::launch(*s, 1, 1, 0, add_once, weir::inout(x), 10);
    body.launch(*s);
  });
  EXPECT_EQ(after(body, 0), 6);
  EXPECT_EQ(after(child, 0), 16);
  EXPECT_EQ(after(body, 1), 7);
}

// What they were called with is kept, so that a graph with conditional nodes, which is made anew, has them, too.
TEST_F(GpuGraphs, nodes_beside_global_functions_and_bodies_can_be_changed) {
  const auto condition = weir::full(*s, 1, std::int32_t{1});
  s->synchronize();
  weir::Graph graph = weir::capture(*s, [&] {
    weir::fill(*s, x, 1);
    weir::cuda::launch(*s, 1, 1, 0, add_once, weir::inout(x), 10);
    weir::capture_if(*s, condition, [&] { weir::cuda::launch(*s, 1, 1, 0, add_once, weir::inout(x), 100); });
  });
  EXPECT_EQ(after(graph, 0), 111);
  graph.update_fill(graph.nodes()[0].node, x, 2);
  EXPECT_EQ(after(graph, 0), 112);
}

TEST_F(GpuGraphs, external_work_is_captured_and_not_called_again) {
  int calls = 0;
  const weir::Graph graph = weir::capture(*s, [&] {
    weir::external(
        *s,
        [&](cudaStream_t stream) {
          ++calls;
          add_once<<<1, 1, 0, stream>>>(x.data(), 5);
        },
        weir::inout(x));
  });
  EXPECT_EQ(after(graph, 0), 5);
  EXPECT_EQ(after(graph, 1), 6);
  EXPECT_EQ(calls, 1);
}

TEST_F(GpuGraphs, nodes_beside_foreign_work_can_be_changed) {
  weir::Graph graph = weir::capture(*s, [&] {
    weir::launch(*s, 1, AddTo{}, weir::inout(x), 1);
    add_once<<<1, 1, 0, weir::cuda::native(*s)>>>(x.data(), 100);
    weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
  });
  graph.update(graph.nodes()[0].node, AddTo{}, weir::inout(x), 2);
  EXPECT_EQ(after(graph, 0), 204);
  graph.update(graph.nodes()[1].node, AddTo{}, weir::inout(x), 1);
  EXPECT_EQ(after(graph, 0), 103);
  graph.disable(graph.nodes()[0].node);
  EXPECT_EQ(after(graph, 0), 101);
}

TEST_F(GpuGraphs, a_graph_with_foreign_work_can_be_a_child) {
  const weir::Graph inner = weir::capture(*s, [&] {
    weir::launch(*s, 1, AddTo{}, weir::inout(x), 1);
    add_once<<<1, 1, 0, weir::cuda::native(*s)>>>(x.data(), 10);
  });
  const weir::Graph outer = weir::capture(*s, [&] {
    weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
    inner.launch(*s);
    weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
  });
  EXPECT_EQ(after(outer, 3), (3 * 2 + 1 + 10) * 2);
  EXPECT_EQ(after(inner, 3), 14);
}

TEST_F(GpuGraphs, a_child_with_foreign_work_is_the_graph_as_it_was_changed) {
  weir::Graph inner = weir::capture(*s, [&] {
    weir::launch(*s, 1, AddTo{}, weir::inout(x), 1);
    weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
    add_once<<<1, 1, 0, weir::cuda::native(*s)>>>(x.data(), 10);
  });
  inner.update(inner.nodes()[0].node, AddTo{}, weir::inout(x), 2);
  inner.disable(inner.nodes()[1].node);
  weir::Graph outer = weir::capture(*s, [&] { inner.launch(*s); });
  EXPECT_EQ(after(inner, 3), 3 + 2 + 10);
  EXPECT_EQ(after(outer, 3), 3 + 2 + 10);
  for (const weir::NodeInfo& info : outer.nodes()) {
    if (!info.enabled) outer.enable(info.node);
  }
  EXPECT_EQ(after(outer, 3), (3 + 2) * 2 + 10);
}

TEST_F(GpuGraphs, foreign_use_of_the_legacy_stream_voids_the_capture) {
  EXPECT_TRUE(fails_with(weir::Errc::capture_invalidated,
                         [&] {
                           static_cast<void>(weir::capture(*s, [&] {
                             add_once<<<1, 1>>>(x.data(), 1);
                             static_cast<void>(cudaGetLastError());
                           }));
                         },
                         {"weir::capture_end", "cudaErrorStreamCaptureInvalidated", "graphs_test.cpp"}));
  EXPECT_FALSE(weir::is_capturing(*s));
  weir::launch(*s, 1, AddTo{}, weir::inout(x), 4);
  EXPECT_EQ(x.to_host()[0], 4);
}

TEST_F(GpuGraphs, bodies_of_conditional_nodes_have_no_host_functions) {
  const auto condition = weir::zeros<std::int32_t>(*s, 1);
  s->synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::not_supported,
                         [&] {
                           static_cast<void>(weir::capture(
                               *s, [&] { weir::capture_if(*s, condition, [&] { weir::host_call(*s, [] {}); }); }));
                         },
                         {"a host function in the body of a conditional node"}));
  EXPECT_FALSE(weir::is_capturing(*s));
}

// What the driver refuses makes a capture void, and takes the graph with it that it was captured into.
TEST_F(GpuGraphs, a_refused_launch_in_a_body_is_an_error) {
  const auto condition = weir::zeros<std::int32_t>(*s, 1);
  s->synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value,
                         [&] {
                           static_cast<void>(weir::capture(*s, [&] {
                             weir::capture_while(*s, condition, [&] {
                               weir::launch(*s, 1, DoubleIt{}, weir::inout(x));
                               weir::cuda::launch(*s, 1, too_many_threads, 0, add_once, weir::inout(x), 1);
                             });
                           }));
                         },
                         {"weir::cuda::launch", "cudaErrorInvalid", "graphs_test.cpp"}));
  EXPECT_FALSE(weir::is_capturing(*s));
  weir::GraphBuilder b(device());
  b.if_(condition, [&](weir::GraphBuilder& body) { body.launch(too_many_elements, DoubleIt{}, weir::inout(x)); });
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { static_cast<void>(b.build()); }, {"cudaErrorInvalidValue"}));
  weir::launch(*s, 1, AddTo{}, weir::inout(x), 4);
  EXPECT_EQ(x.to_host()[0], 4);
}

TEST_F(GpuGraphs, refused_foreign_work_in_a_body_is_an_error) {
  const auto condition = weir::zeros<std::int32_t>(*s, 1);
  s->synchronize();
  const auto refused = [&](cudaStream_t stream) {
    add_once<<<1, too_many_threads, 0, stream>>>(x.data(), 5);
    static_cast<void>(cudaGetLastError());
  };
  EXPECT_TRUE(fails_with(weir::Errc::capture_invalidated,
                         [&] {
                           static_cast<void>(weir::capture(*s, [&] {
                             weir::capture_if(*s, condition, [&] { weir::external(*s, refused, weir::inout(x)); });
                           }));
                         },
                         {"cudaErrorStreamCaptureInvalidated"}));
  weir::launch(*s, 1, AddTo{}, weir::inout(x), 4);
  EXPECT_EQ(x.to_host()[0], 4);
}

TEST_F(GpuGraphs, a_refused_change_changes_nothing) {
  auto y = weir::zeros<int>(*s, 1);
  s->synchronize();
  weir::GraphBuilder b(device());
  const auto add = b.launch(1, AddTo{}, weir::inout(x), 1);
  const auto fill = b.fill(y, 1);
  b.depends(fill, add);
  weir::Graph graph = b.build();
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { graph.resize(add, too_many_elements); },
                         {"weir::Graph::resize", "cudaErrorInvalidValue", "make another graph"}));
  EXPECT_EQ(after(graph, 0), 1);
  graph.update_fill(fill, x, 70);
  EXPECT_EQ(after(graph, 0), 70);
}

TEST_F(GpuGraphs, a_refused_change_beside_or_inside_a_body_changes_nothing) {
  const auto condition = weir::full(*s, 1, std::int32_t{1});
  s->synchronize();
  weir::GraphBuilder b(device());
  const auto add = b.launch(1, AddTo{}, weir::inout(x), 1);
  weir::Node inner;
  const auto branch =
      b.if_(condition, [&](weir::GraphBuilder& body) { inner = body.launch(1, AddTo{}, weir::inout(x), 10); });
  const auto last = b.fill(condition, 1);
  b.depends(branch, add);
  b.depends(last, branch);
  weir::Graph graph = b.build();
  for (const weir::Node node : {weir::Node(add), inner}) {
    EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { graph.resize(node, too_many_elements); },
                           {"cudaErrorInvalidValue"}));
    EXPECT_EQ(after(graph, 0), 11);
  }
  graph.update_fill(last, x, 70);
  EXPECT_EQ(after(graph, 0), 70);
}

// The driver makes no second instance of such a graph, and Weir cannot make a second graph of it.
TEST_F(GpuGraphs, bodies_beside_foreign_work_are_changed_by_capturing_again) {
  const auto condition = weir::full(*s, 1, std::int32_t{1});
  s->synchronize();
  weir::Graph graph = weir::capture(*s, [&] {
    add_once<<<1, 1, 0, weir::cuda::native(*s)>>>(x.data(), 100);
    weir::capture_if(*s, condition, [&] { weir::launch(*s, 1, AddTo{}, weir::inout(x), 1); });
    weir::fill(*s, condition, 1);
  });
  const weir::Node fill = graph.nodes().back().node;
  EXPECT_TRUE(
      fails_with(weir::Errc::not_supported, [&] { graph.update_fill(fill, x, 7); }, {"capture the graph again"}));
  EXPECT_EQ(after(graph, 0), 101);
}

// A kernel is replaced in a graph whose other node has newer arguments than the driver's graph knows.
TEST_F(GpuGraphs, another_kind_of_change_keeps_earlier_ones) {
  auto y = weir::zeros<int>(*s, 1);
  s->synchronize();
  weir::GraphBuilder b(device());
  const auto add = b.launch(1, AddTo{}, weir::inout(x), 1);
  const auto fill = b.fill(y, 5);
  b.depends(fill, add);
  weir::Graph graph = b.build();
  graph.update(add, weir::inout(x), 2);
  graph.update_fill(fill, x, 70);
  EXPECT_EQ(after(graph, 0), 70);
  graph.disable(fill);
  EXPECT_EQ(after(graph, 0), 2);
  graph.enable(fill);
  graph.update_fill(fill, y, 1);
  EXPECT_EQ(after(graph, 1), 3);
}

}  // namespace
}  // namespace weir_test
