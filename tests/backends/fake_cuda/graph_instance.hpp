// Instances of graphs, and the handles of conditional nodes.
#pragma once

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

struct Plan;
struct PlanNode {
  cudaGraphNode_t key;
  cudaGraphNodeType type;
  Work work;
  bool enabled = true;
  std::vector<std::size_t> behind;
  std::vector<std::shared_ptr<Plan>> inside;
  cudaGraphConditionalHandle handle = 0;
  cudaGraphConditionalNodeType condition = cudaGraphCondTypeIf;
};
/// A graph as it was when it was instantiated; every node stands behind those that it depends on.
struct Plan {
  std::vector<PlanNode> nodes;
};

cudaGraphConditionalHandle make_handle(unsigned value, bool assign_at_launch);
void forget_handle(cudaGraphConditionalHandle handle);
/// The graph is about to go; its instances may stay.
void forget_source(cudaGraph_t graph);

}  // namespace fake_cuda

struct CUgraphExec_st {
  unsigned long long number = fake_cuda::world().next_id++;
  std::shared_ptr<fake_cuda::Plan> plan;
  std::map<cudaGraphNode_t, fake_cuda::PlanNode*> nodes;
  cudaGraph_t source = nullptr;                      ///< of a graph that has one instance at most
  std::vector<cudaGraphConditionalHandle> assigned;  ///< at every launch
  bool conditional = false;
  fake_cuda::OpRef last;
};
