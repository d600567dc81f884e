// Graphs: replays of kernels that do nothing, captured by hand beside ours, and new arguments for a launch.
#include <vector>

#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"

namespace bench {

namespace {

__global__ void nothing() {}
__global__ void take(const double*, double*, int) {}

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};
struct Take {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double>, weir::View<double>, int) const {}
};

/// A graph made with the driver's own calls.
class RawGraph {
 public:
  explicit RawGraph(cudaGraph_t graph) : graph_(graph) {
    raw::check(cudaGraphInstantiate(&instance_, graph_, 0), "cudaGraphInstantiate");
  }
  ~RawGraph() {
    cudaGraphExecDestroy(instance_);
    cudaGraphDestroy(graph_);
  }
  RawGraph(const RawGraph&) = delete;
  RawGraph& operator=(const RawGraph&) = delete;
  cudaGraphExec_t instance() const { return instance_; }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t instance_ = nullptr;
};

cudaGraphNode_t add_kernel(cudaGraph_t graph, const cudaGraphNode_t* behind, void* function, void** arguments) {
  cudaKernelNodeParams parameters{};
  parameters.func = function;
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(32);
  parameters.kernelParams = arguments;
  cudaGraphNode_t node = nullptr;
  raw::check(cudaGraphAddKernelNode(&node, graph, behind, behind != nullptr ? 1 : 0, &parameters),
             "cudaGraphAddKernelNode");
  return node;
}

RawGraph raw_chains(std::size_t chains, std::size_t length) {
  cudaGraph_t graph = nullptr;
  raw::check(cudaGraphCreate(&graph, 0), "cudaGraphCreate");
  void* none[] = {nullptr};
  for (std::size_t c = 0; c < chains; ++c) {
    cudaGraphNode_t last = nullptr;
    for (std::size_t i = 0; i < length; ++i) {
      last = add_kernel(graph, i == 0 ? nullptr : &last, reinterpret_cast<void*>(&nothing), none);
    }
  }
  return RawGraph(graph);
}

weir::Graph our_chains(weir::Device device, std::size_t chains, std::size_t length) {
  weir::GraphBuilder builder(device);
  for (std::size_t c = 0; c < chains; ++c) {
    weir::Node last;
    for (std::size_t i = 0; i < length; ++i) {
      const weir::Node next = builder.launch(32, Nothing{});
      if (i > 0) builder.depends(next, last);
      last = next;
    }
  }
  return builder.build();
}

void replay(Context& context, std::size_t chains, std::size_t length, Row row) {
  constexpr std::size_t count = 50;
  const RawGraph raw_graph = raw_chains(chains, length);
  const raw::Stream raw_stream;
  const weir::Graph graph = our_chains(context.device, chains, length);
  const weir::Stream stream(context.device, {.blocking = false});
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return whole_cost(
            count,
            [&] {
              cudaGraphLaunch(raw_graph.instance(), raw_stream);
              cudaStreamSynchronize(raw_stream);
            },
            none);
      },
      [&] {
        return whole_cost(
            count,
            [&] {
              graph.launch(stream);
              stream.synchronize();
            },
            none);
      });
  raw::check_last();
  row.unit = "us";
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
}

void update(Context& context) {
  constexpr std::size_t count = 2000;
  const weir::Stream stream(context.device, {.blocking = false});
  const auto x = weir::zeros<double>(stream, 32);
  const auto y = weir::zeros<double>(stream, 32);
  stream.synchronize();
  const double* from = x.data();
  double* to = y.data();
  int turn = 0;
  void* arguments[] = {&from, &to, &turn};
  cudaGraph_t plain = nullptr;
  raw::check(cudaGraphCreate(&plain, 0), "cudaGraphCreate");
  const cudaGraphNode_t raw_node = add_kernel(plain, nullptr, reinterpret_cast<void*>(&take), arguments);
  const RawGraph raw_graph(plain);
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(&take);
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(32);
  parameters.kernelParams = arguments;

  weir::GraphBuilder builder(context.device);
  const auto node = builder.launch(32, Take{}, weir::in(x), weir::out(y), 0);
  weir::Graph graph = builder.build();
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return host_cost(
            count,
            [&] {
              ++turn;
              cudaGraphExecKernelNodeSetParams(raw_graph.instance(), raw_node, &parameters);
            },
            none);
      },
      [&] {
        return host_cost(
            count, [&] { graph.update(node, weir::in(x), weir::out(y), ++turn); }, none);
      });
  raw::check_last();
  context.report.add(
      {"graph.update", "new arguments for a launch's node", "us", pair.ours, pair.raw, {ratio_at_most(1.2)}});
}

}  // namespace

void graphs(Context& context) {
  replay(context, 1, 100,
         {.name = "graph.chain", .work = "replay a chain of 100 empty kernels, wait", .reach = {ratio_at_most(1.02)}});
  replay(
      context, 10, 10,
      {.name = "graph.chains", .work = "replay 10 chains of 10 empty kernels, wait", .reach = {ratio_at_most(1.02)}});
  update(context);
}

}  // namespace bench
