// A kernel that looks at the guard, then a conditional node with the graph inside.
#include "backends/cuda/graphs/guarded_graph.hpp"

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/condition_kernels.hpp"
#include "backends/cuda/graphs/dead_instances.hpp"
#include "backends/cuda/graphs/graph_calls.hpp"

namespace weir::cuda {

std::unique_ptr<GuardedGraph> GuardedGraph::make(CudaDevice& device, cudaGraph_t graph, int device_of_all) {
  const DeviceScope scope(device.index());
  std::unique_ptr<GuardedGraph> guarded(new GuardedGraph(device, device_of_all));
  const cudaError_t answer = guarded->build(graph);
  note(answer);
  return answer == cudaSuccess ? std::move(guarded) : nullptr;
}

cudaError_t GuardedGraph::build(cudaGraph_t graph) {
  cudaError_t answer = cudaGraphCreate(&graph_, 0);
  if (answer == cudaSuccess) answer = cudaGraphConditionalHandleCreate(&handle_, graph_, 0, 0);
  if (answer != cudaSuccess) return answer;
  const UnfailedCondition condition(handle_, {nullptr, 0});
  answer = cudaGraphAddKernelNode(&condition_, graph_, nullptr, 0, &condition.parameters);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle_;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t conditional = nullptr;
  if (answer == cudaSuccess) answer = add_node(graph_, {condition_}, parameters, &conditional);
  if (answer != cudaSuccess) return answer;
  cudaGraphNode_t inside = nullptr;
  answer = cudaGraphAddChildGraphNode(&inside, parameters.conditional.phGraph_out[0], nullptr, 0, graph);
  if (answer == cudaSuccess) answer = cudaGraphInstantiate(&instance_, graph_, 0);
  return answer;
}

GuardedGraph::~GuardedGraph() {
  if (instance_ != nullptr) DeadInstances::add(instance_, device_.index(), device_of_all_);
  if (graph_ != nullptr) note(cudaGraphDestroy(graph_));
}

cudaError_t GuardedGraph::launch(const detail::DeviceGuard& guard, cudaStream_t stream) {
  const UnfailedCondition condition(handle_, guard);
  cudaError_t answer = cudaSuccess;
  {
    // The runtime looks the kernel up for the current device, and a node's device never changes.
    const DeviceScope scope(device_.index());
    answer = cudaGraphExecKernelNodeSetParams(instance_, condition_, &condition.parameters);
  }
  return answer != cudaSuccess ? answer : cudaGraphLaunch(instance_, stream);
}

}  // namespace weir::cuda
