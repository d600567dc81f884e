// Graphs: replays of kernels that do next to nothing, made by hand beside ours, and new arguments for a launch.
#include <vector>

#include <weir/cuda_interop.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "observed.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

// Kernels count their runs without waiting for the count, and leave what they were given last.
WEIR_KERNEL void count_one([[maybe_unused]] unsigned* place) {
#if defined(__CUDA_ARCH__)
  if constexpr (!sabotaged) atomicAdd(place, 1u);
#endif
}
WEIR_KERNEL void leave([[maybe_unused]] double* to, [[maybe_unused]] int turn) {
  if constexpr (!sabotaged) to[0] = turn;
}

// With an index and a bound, as kernels over elements have them.
__global__ void count_run(unsigned* place, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count && i == 0) count_one(place);
}
__global__ void take(const double*, double* to, int turn) {
  if (threadIdx.x == 0) leave(to, turn);
}

struct CountRun {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<unsigned> place) const {
    if (i == 0) count_one(place.data());
  }
};
struct Take {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double>, weir::View<double> to, int turn) const {
    if (i == 0) leave(to.data(), turn);
  }
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

RawGraph raw_chains(unsigned* counts, std::size_t chains, std::size_t length) {
  cudaGraph_t graph = nullptr;
  raw::check(cudaGraphCreate(&graph, 0), "cudaGraphCreate");
  for (std::size_t c = 0; c < chains; ++c) {
    cudaGraphNode_t last = nullptr;
    for (std::size_t i = 0; i < length; ++i) {
      unsigned* place = counts + c * length + i;
      unsigned count = 32;
      void* arguments[] = {&place, &count};
      last = add_kernel(graph, i == 0 ? nullptr : &last, reinterpret_cast<void*>(&count_run), arguments);
    }
  }
  return RawGraph(graph);
}

weir::Graph our_chains(const weir::Array<unsigned>& counts, std::size_t chains, std::size_t length) {
  weir::GraphBuilder builder(counts.device());
  for (std::size_t c = 0; c < chains; ++c) {
    weir::Node last;
    for (std::size_t i = 0; i < length; ++i) {
      const std::size_t place = c * length + i;
      const weir::Node next = builder.launch(32, CountRun{}, weir::inout(counts.slice(place, place + 1)));
      if (i > 0) builder.depends(next, last);
      last = next;
    }
  }
  return builder.build();
}

constexpr std::size_t replays_at_once = 50;

/// Microseconds of a replay that is waited for; counts them.
auto replays_of(const weir::Graph& graph, const weir::Stream& stream, unsigned& replays) {
  return [&] {
    return whole_cost(
        replays_at_once,
        [&] {
          ++replays;
          graph.launch(stream);
          stream.synchronize();
        },
        [] {});
  };
}

void replay(Context& context, std::size_t chains, std::size_t length, Row row) {
  const weir::Stream stream(context.device, {.blocking = false});
  const raw::Stream raw_stream;
  const auto raw_counts = weir::zeros<unsigned>(stream, chains * length);
  const auto our_counts = weir::zeros<unsigned>(stream, chains * length);
  stream.synchronize();
  const RawGraph raw_graph = raw_chains(raw_counts.data(), chains, length);
  const weir::Graph graph = our_chains(our_counts, chains, length);
  unsigned raw_replays = 0;
  unsigned our_replays = 0;
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return whole_cost(
            replays_at_once,
            [&] {
              ++raw_replays;
              raw::driver().launch_graph(raw_graph.instance(), raw_stream);
              raw::driver().synchronize_stream(raw_stream);
            },
            none);
      },
      replays_of(graph, stream, our_replays));
  raw::check_last();
  const std::vector<unsigned> by_hand = raw_counts.to_host();
  const std::vector<unsigned> ours = our_counts.to_host();
  for (const unsigned runs : by_hand) expect(runs == raw_replays, "a node of the raw graph did not run in each replay");
  for (const unsigned runs : ours) expect(runs == our_replays, "a node of our graph did not run in each replay");
  row.unit = "us";
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
}

/// Beside the same replays that nobody observes: with `watching()` while they run.
template <class Watching>
void watched(Context& context, Watching&& watching, Row row) {
  const weir::Stream stream(context.device, {.blocking = false});
  const auto counts = weir::zeros<unsigned>(stream, 100);
  stream.synchronize();
  const weir::Graph graph = our_chains(counts, 1, 100);
  unsigned replays = 0;
  const auto burst = replays_of(graph, stream, replays);
  const Pair pair = by_turns(bursts(context), burst, [&] {
    const auto watch = watching();
    return burst();
  });
  for (const unsigned runs : counts.to_host()) expect(runs == replays, "a node did not run in each replay");
  row.unit = "us";
  row.value = pair.ours;
  row.raw = pair.raw;
  row.reach = {ratio_at_most(1.4)};
  context.report.add(row);
}

void update(Context& context) {
  constexpr std::size_t count = 2000;
  const weir::Stream stream(context.device, {.blocking = false});
  const auto x = weir::zeros<double>(stream, 32);
  const auto ours = weir::zeros<double>(stream, 32);
  const auto by_hand = weir::zeros<double>(stream, 32);
  stream.synchronize();
  const double* from = x.data();
  double* to = by_hand.data();
  int raw_turn = 0;
  int turn = 0;
  void* arguments[] = {&from, &to, &raw_turn};
  cudaGraph_t plain = nullptr;
  raw::check(cudaGraphCreate(&plain, 0), "cudaGraphCreate");
  const cudaGraphNode_t raw_node = add_kernel(plain, nullptr, reinterpret_cast<void*>(&take), arguments);
  const RawGraph raw_graph(plain);
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = raw::function_of(reinterpret_cast<const void*>(&take));
  parameters.gridDimX = parameters.gridDimY = parameters.gridDimZ = 1;
  parameters.blockDimX = 32;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.kernelParams = arguments;

  weir::GraphBuilder builder(context.device);
  const auto node = builder.launch(32, Take{}, weir::in(x), weir::out(ours), 0);
  weir::Graph graph = builder.build();
  const auto none = [] {};
  const Pair pair = by_turns(
      bursts(context),
      [&] {
        return host_cost(
            count,
            [&] {
              --raw_turn;
              raw::driver().update_kernel_node(raw_graph.instance(), raw_node, &parameters);
            },
            none);
      },
      [&] {
        return host_cost(
            count, [&] { graph.update(node, weir::in(x), weir::out(ours), ++turn); }, none);
      });
  // The last of them are what replays do.
  raw::check(cudaGraphLaunch(raw_graph.instance(), weir::cuda::native(stream)), "cudaGraphLaunch");
  graph.launch(stream);
  expect(turn != 0 && ours.to_host()[0] == turn, "our last update is not what a replay does");
  expect(raw_turn != 0 && by_hand.to_host()[0] == raw_turn, "the last raw update is not what a replay does");
  raw::check_last();
  context.report.add({"graph.update",
                      "new arguments for a launch's node, beside the driver's call",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.2)}});
}

}  // namespace

void graphs(Context& context) {
  replay(context, 1, 100,
         {.name = "graph.chain",
          .work = "replay a chain of 100 kernels that count, wait",
          .reach = {ratio_at_most(1.02)}});
  replay(context, 10, 10,
         {.name = "graph.chains",
          .work = "replay 10 chains of 10 kernels that count, wait",
          .reach = {ratio_at_most(1.02)}});
  update(context);
  Listener listener;
  watched(context, [&] { return Listening(listener, weir::Watch::times); },
          {"observe.cuda.graph", "replay a chain of 100 kernels with times, beside without"});
  watched(context, [] { return weir::trace::Session(); },
          {"trace.cuda.graph",
           "replay a chain of 100 kernels that a session records, beside without",
           "",
           {},
           {},
           {},
           "CUPTI 2.9 times"});
}

}  // namespace bench
