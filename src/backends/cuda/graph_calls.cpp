// CUDA 13 gave these calls a parameter for edges; nothing here makes edges of another kind than the plain one.
#include "backends/cuda/graph_calls.hpp"

namespace weir::cuda {

#if CUDART_VERSION >= 13000
#define WEIR_NO_EDGES nullptr,
#else
#define WEIR_NO_EDGES
#endif

cudaError_t capture_tails(cudaStream_t stream, Nodes& tails, cudaGraph_t* graph) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  cudaGraph_t present = nullptr;
  const cudaGraphNode_t* nodes = nullptr;
  std::size_t count = 0;
  tails.clear();
#if CUDART_VERSION >= 13000
  const cudaGraphEdgeData* edges = nullptr;
  const cudaError_t answer = cudaStreamGetCaptureInfo(stream, &status, &id, &present, &nodes, &edges, &count);
#else
  const cudaError_t answer = cudaStreamGetCaptureInfo(stream, &status, &id, &present, &nodes, &count);
#endif
  if (answer != cudaSuccess) return answer;
  if (status == cudaStreamCaptureStatusInvalidated) return cudaErrorStreamCaptureInvalidated;
  if (status != cudaStreamCaptureStatusActive) return cudaErrorIllegalState;
  tails.assign(nodes, nodes + count);
  if (graph != nullptr) *graph = present;
  return cudaSuccess;
}

cudaError_t set_capture_tails(cudaStream_t stream, Nodes tails) {
  return cudaStreamUpdateCaptureDependencies(stream, tails.data(), WEIR_NO_EDGES tails.size(),
                                             cudaStreamSetCaptureDependencies);
}

cudaError_t begin_capture_to(cudaStream_t stream, cudaGraph_t graph) {
  return cudaStreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 0, cudaStreamCaptureModeRelaxed);
}

cudaError_t dependencies_of(cudaGraphNode_t node, Nodes& found) {
  std::size_t count = 0;
  found.clear();
  const cudaError_t answer = cudaGraphNodeGetDependencies(node, nullptr, WEIR_NO_EDGES & count);
  if (answer != cudaSuccess || count == 0) return answer;
  found.resize(count);
  return cudaGraphNodeGetDependencies(node, found.data(), WEIR_NO_EDGES & count);
}

cudaError_t dependents_of(cudaGraphNode_t node, Nodes& found) {
  std::size_t count = 0;
  found.clear();
  const cudaError_t answer = cudaGraphNodeGetDependentNodes(node, nullptr, WEIR_NO_EDGES & count);
  if (answer != cudaSuccess || count == 0) return answer;
  found.resize(count);
  return cudaGraphNodeGetDependentNodes(node, found.data(), WEIR_NO_EDGES & count);
}

cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, WEIR_NO_EDGES 1);
}

cudaError_t add_node(cudaGraph_t graph, const Nodes& behind, cudaGraphNodeParams& parameters, cudaGraphNode_t* node) {
  return cudaGraphAddNode(node, graph, behind.data(), WEIR_NO_EDGES behind.size(), &parameters);
}

}  // namespace weir::cuda
