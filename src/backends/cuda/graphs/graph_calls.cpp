// CUDA 13 gave these calls a parameter for edges; nothing here makes edges of another kind than the plain one.
#include "backends/cuda/graphs/graph_calls.hpp"

#include <algorithm>

#include "backends/cuda/cuda_error.hpp"

namespace weir::cuda {

#if CUDART_VERSION >= 13000
#define WEIR_NO_EDGES nullptr,
#else
#define WEIR_NO_EDGES
#endif

bool contains(const Nodes& nodes, cudaGraphNode_t node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void append_new(Nodes& to, const Nodes& from) {
  for (cudaGraphNode_t node : from) {
    if (!contains(to, node)) to.push_back(node);
  }
}

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

namespace {
/// Asks for the count, then for the nodes.
template <class Ask>
cudaError_t list_nodes(Nodes& found, const Ask& ask) {
  std::size_t count = 0;
  found.clear();
  const cudaError_t answer = ask(nullptr, &count);
  if (answer != cudaSuccess || count == 0) return answer;
  found.resize(count);
  return ask(found.data(), &count);
}
}  // namespace

cudaError_t dependencies_of(cudaGraphNode_t node, Nodes& found) {
  return list_nodes(found, [node](cudaGraphNode_t* nodes, std::size_t* count) {
    return cudaGraphNodeGetDependencies(node, nodes, WEIR_NO_EDGES count);
  });
}

cudaError_t dependents_of(cudaGraphNode_t node, Nodes& found) {
  return list_nodes(found, [node](cudaGraphNode_t* nodes, std::size_t* count) {
    return cudaGraphNodeGetDependentNodes(node, nodes, WEIR_NO_EDGES count);
  });
}

cudaError_t nodes_in(cudaGraph_t graph, Nodes& found) {
  return list_nodes(
      found, [graph](cudaGraphNode_t* nodes, std::size_t* count) { return cudaGraphGetNodes(graph, nodes, count); });
}

void append_clones(const Nodes& originals, cudaGraph_t clone, Nodes& to) {
  for (cudaGraphNode_t original : originals) {
    cudaGraphNode_t found = nullptr;
    const cudaError_t answer = cudaGraphNodeFindInClone(&found, original, clone);
    if (answer == cudaSuccess) to.push_back(found);
    note(answer);
  }
}

cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to) {
  return cudaGraphAddDependencies(graph, &from, &to, WEIR_NO_EDGES 1);
}

cudaError_t add_node(cudaGraph_t graph, const Nodes& behind, cudaGraphNodeParams& parameters, cudaGraphNode_t* node) {
  return cudaGraphAddNode(node, graph, behind.data(), WEIR_NO_EDGES behind.size(), &parameters);
}

cudaError_t replace_by_empty(cudaGraph_t graph, cudaGraphNode_t& node) {
  Nodes before;
  Nodes after;
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeEmpty;
  cudaGraphNode_t empty = nullptr;
  cudaError_t answer = dependencies_of(node, before);
  if (answer == cudaSuccess) answer = dependents_of(node, after);
  if (answer == cudaSuccess) answer = add_node(graph, before, parameters, &empty);
  for (cudaGraphNode_t later : after) {
    if (answer == cudaSuccess) answer = add_dependency(graph, empty, later);
  }
  if (answer == cudaSuccess) answer = cudaGraphDestroyNode(node);
  if (answer == cudaSuccess) node = empty;
  return answer;
}

}  // namespace weir::cuda
