// The runtime's calls on graphs and captures, with vectors, and alike in CUDA 12 and 13. They throw nothing; a first answer
// that is no success is returned.
#pragma once

#include <cuda_runtime_api.h>

#include <vector>

namespace weir::cuda {

using Nodes = std::vector<cudaGraphNode_t>;
bool contains(const Nodes& nodes, cudaGraphNode_t node);
void append_new(Nodes& to, const Nodes& from);

/// What the next command of a capturing stream would depend on, and the graph that it would be in.
cudaError_t capture_tails(cudaStream_t stream, Nodes& tails, cudaGraph_t* graph = nullptr);
cudaError_t set_capture_tails(cudaStream_t stream, Nodes tails);
/// From here on the stream's commands go to the graph, as roots until its tails are set.
cudaError_t begin_capture_to(cudaStream_t stream, cudaGraph_t graph);
cudaError_t dependencies_of(cudaGraphNode_t node, Nodes& found);
cudaError_t dependents_of(cudaGraphNode_t node, Nodes& found);
cudaError_t nodes_in(cudaGraph_t graph, Nodes& found);
/// What a clone has of nodes of its original: those inside of conditional nodes are not found.
void append_clones(const Nodes& originals, cudaGraph_t clone, Nodes& to);
cudaError_t add_dependency(cudaGraph_t graph, cudaGraphNode_t from, cudaGraphNode_t to);
cudaError_t add_node(cudaGraph_t graph, const Nodes& behind, cudaGraphNodeParams& parameters, cudaGraphNode_t* node);
/// An empty node takes the place of a node, which goes.
cudaError_t replace_by_empty(cudaGraph_t graph, cudaGraphNode_t& node);

}  // namespace weir::cuda
