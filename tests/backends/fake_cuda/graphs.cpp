// Graphs: nodes and edges, clones, children, bodies of conditional nodes.
#include <algorithm>

#include "backends/fake_cuda/graph_instance.hpp"
#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

using Nodes = std::vector<cudaGraphNode_t>;

bool contains(const Nodes& nodes, cudaGraphNode_t node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

void connect(cudaGraphNode_t from, cudaGraphNode_t to) {
  from->before.push_back(to);
  to->behind.push_back(from);
}

cudaGraph_t make_graph() {
  auto* graph = new CUgraph_st;
  world().graphs.insert(graph);
  return graph;
}

bool is_live(cudaGraph_t graph) { return graph != nullptr && world().graphs.count(graph) > 0; }

void destroy_graph(cudaGraph_t graph) {
  for (const auto& node : graph->nodes) {
    for (const cudaGraph_t inside : node->inside) destroy_graph(inside);
  }
  for (const cudaGraphConditionalHandle handle : graph->handles) forget_handle(handle);
  forget_source(graph);
  world().graphs.erase(graph);
  delete graph;
}

/// What the driver neither clones nor takes as a child.
bool is_unique(const CUgraph_st& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
    return node->type == cudaGraphNodeTypeConditional || node->type == cudaGraphNodeTypeMemAlloc ||
           std::any_of(node->inside.begin(), node->inside.end(), [](cudaGraph_t inside) { return is_unique(*inside); });
  });
}

/// The nodes of the copy know those of the original.
void copy_nodes(const CUgraph_st& from, cudaGraph_t to) {
  std::map<cudaGraphNode_t, cudaGraphNode_t> copies;
  for (const auto& node : from.nodes) {
    const cudaGraphNode_t copy = add_node(to, node->type, {}, node->work);
    copy->original = node.get();
    for (const cudaGraph_t inside : node->inside) {
      const cudaGraph_t inner = make_graph();
      inner->owner = copy;
      copy_nodes(*inside, inner);
      copy->inside.push_back(inner);
    }
    copies[node.get()] = copy;
  }
  for (const auto& node : from.nodes) {
    for (const cudaGraphNode_t before : node->behind) connect(copies[before], copies[node.get()]);
  }
}

cudaError_t add_child(cudaGraphNode_t* node, cudaGraph_t graph, const Nodes& behind, cudaGraph_t child) {
  if (!is_live(graph) || !is_live(child)) return cudaErrorInvalidValue;
  if (is_unique(*child)) return cudaErrorNotSupported;
  const cudaGraph_t copy = make_graph();
  copy_nodes(*child, copy);
  *node = add_node(graph, cudaGraphNodeTypeGraph, behind, {});
  copy->owner = *node;
  (*node)->inside = {copy};
  return cudaSuccess;
}

cudaError_t add_any(cudaGraphNode_t* node, cudaGraph_t graph, const Nodes& behind, cudaGraphNodeParams& parameters) {
  if (!is_live(graph)) return cudaErrorInvalidValue;
  if (parameters.type == cudaGraphNodeTypeEmpty) {
    *node = add_node(graph, cudaGraphNodeTypeEmpty, behind, {});
    return cudaSuccess;
  }
  if (parameters.type != cudaGraphNodeTypeConditional) return cudaErrorNotSupported;
  cudaConditionalNodeParams& condition = parameters.conditional;
  if (std::find(graph->handles.begin(), graph->handles.end(), condition.handle) == graph->handles.end()) {
    return cudaErrorInvalidValue;
  }
  *node = add_node(graph, cudaGraphNodeTypeConditional, behind, {});
  (*node)->handle = condition.handle;
  (*node)->condition = condition.type;
  for (unsigned i = 0; i < condition.size; ++i) {
    const cudaGraph_t body = make_graph();
    body->owner = *node;
    body->body = true;
    (*node)->inside.push_back(body);
  }
  condition.phGraph_out = (*node)->inside.data();
  return cudaSuccess;
}

cudaError_t list(const Nodes& all, cudaGraphNode_t* nodes, std::size_t* count) {
  if (nodes == nullptr) {
    *count = all.size();
    return cudaSuccess;
  }
  std::copy_n(all.begin(), std::min(*count, all.size()), nodes);
  *count = std::min(*count, all.size());
  return cudaSuccess;
}

cudaError_t add_edges(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i] || contains(from[i]->before, to[i])) {
      return cudaErrorInvalidValue;
    }
    connect(from[i], to[i]);
  }
  return cudaSuccess;
}

cudaError_t destroy_node(cudaGraphNode_t node) {
  for (const cudaGraphNode_t before : node->behind) std::erase(before->before, node);
  for (const cudaGraphNode_t after : node->before) std::erase(after->behind, node);
  for (const cudaGraph_t inside : node->inside) destroy_graph(inside);
  std::erase_if(node->graph->nodes, [&](const auto& one) { return one.get() == node; });
  return cudaSuccess;
}

cudaError_t find_in_clone(cudaGraphNode_t* found, cudaGraphNode_t original, cudaGraph_t clone) {
  for (const auto& node : clone->nodes) {
    if (node->original != original) continue;
    *found = node.get();
    return cudaSuccess;
  }
  return cudaErrorInvalidValue;
}

}  // namespace

unsigned long long GraphObject::number() const {
  if (instance_ != nullptr) return world().instances.count(instance_) > 0 ? instance_->number : 0;
  cudaGraph_t graph = node_ != nullptr ? node_->graph : graph_;
  if (!is_live(graph)) return 0;
  while (graph->owner != nullptr) graph = graph->owner->graph;
  return graph->number;
}

InsideGraphs::InsideGraphs(const Site& site, std::initializer_list<GraphObject> objects) {
  const Hidden hidden;
  Call call{site.name(), std::unique_lock<std::mutex>(world().mutex), nullptr, {}};
  for (const GraphObject& object : objects) {
    const unsigned long long number = object.number();
    if (number == 0) continue;
    const auto [found, first] = world().inside.emplace(number, std::this_thread::get_id());
    if (first) {
      numbers_.push_back(number);
    } else if (found->second != std::this_thread::get_id()) {
      violate(call, "graph objects", "of one that another thread is in a call about");
    }
  }
}

InsideGraphs::~InsideGraphs() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  for (const unsigned long long number : numbers_) world().inside.erase(number);
}

cudaGraphNode_t add_node(cudaGraph_t graph, cudaGraphNodeType type, const Nodes& behind, Work work) {
  auto node = std::make_unique<CUgraphNode_st>();
  node->type = type;
  node->graph = graph;
  node->work = std::move(work);
  for (const cudaGraphNode_t before : behind) connect(before, node.get());
  graph->nodes.push_back(std::move(node));
  return graph->nodes.back().get();
}

cudaError_t set_kernel(Call&, cudaGraphNode_t node, const std::shared_ptr<const KernelCall>& kernel) {
  if (node->type != cudaGraphNodeTypeKernel) return cudaErrorInvalidValue;
  node->work.kernel = kernel;
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  FAKE_CALL(cudaGraphCreate, plain, {
    *graph = make_graph();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FAKE_GRAPH_CALL(cudaGraphDestroy, plain, (graph), {
    if (!is_live(graph) || graph->owner != nullptr) return cudaErrorInvalidValue;
    destroy_graph(graph);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t graph) {
  FAKE_GRAPH_CALL(cudaGraphClone, plain, (graph), {
    if (!is_live(graph)) return cudaErrorInvalidValue;
    if (is_unique(*graph)) return cudaErrorNotSupported;
    *clone = make_graph();
    copy_nodes(*graph, *clone);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* found, cudaGraphNode_t original, cudaGraph_t clone) {
  FAKE_GRAPH_CALL(cudaGraphNodeFindInClone, plain, (original, clone),
                  { return is_live(clone) ? find_in_clone(found, original, clone) : cudaErrorInvalidValue; });
}
cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind, size_t count,
                                 const cudaHostNodeParams* parameters) {
  FAKE_GRAPH_CALL(cudaGraphAddHostNode, plain, (graph), {
    Work work;
    work.function = parameters->fn;
    work.data = parameters->userData;
    *node = add_node(graph, cudaGraphNodeTypeHost, {behind, behind + count}, std::move(work));
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind,
                                       size_t count, cudaGraph_t child) {
  FAKE_GRAPH_CALL(cudaGraphAddChildGraphNode, plain, (graph, child), {
    return add_child(node, graph, {behind, behind + count}, child);
  });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* graph) {
  FAKE_GRAPH_CALL(cudaGraphChildGraphNodeGetGraph, plain, (node), {
    if (node->type != cudaGraphNodeTypeGraph) return cudaErrorInvalidValue;
    *graph = node->inside.front();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  FAKE_GRAPH_CALL(cudaGraphNodeGetType, plain, (node), {
    *type = node->type;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  FAKE_GRAPH_CALL(cudaGraphGetNodes, plain, (graph), {
    if (!is_live(graph)) return cudaErrorInvalidValue;
    Nodes all;
    for (const auto& node : graph->nodes) all.push_back(node.get());
    return list(all, nodes, count);
  });
}
cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  FAKE_GRAPH_CALL(cudaGraphDestroyNode, plain, (node), { return destroy_node(node); });
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph, unsigned value,
                                             unsigned flags) {
  FAKE_GRAPH_CALL(cudaGraphConditionalHandleCreate, plain, (graph), {
    if (!is_live(graph)) return cudaErrorInvalidValue;
    *handle = make_handle(value, flags != 0);
    graph->handles.push_back(*handle);
    return cudaSuccess;
  });
}

#if CUDART_VERSION >= 13000
#define FAKE_EDGES const cudaGraphEdgeData*,
#define FAKE_EDGES_OUT cudaGraphEdgeData*,
#else
#define FAKE_EDGES
#define FAKE_EDGES_OUT
#endif
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind,
                             FAKE_EDGES size_t count, cudaGraphNodeParams* parameters) {
  FAKE_GRAPH_CALL(cudaGraphAddNode, plain, (graph), {
    return add_any(node, graph, {behind, behind + count}, *parameters);
  });
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from, const cudaGraphNode_t* to,
                                     FAKE_EDGES size_t count) {
  FAKE_GRAPH_CALL(cudaGraphAddDependencies, plain, (graph), { return add_edges(graph, from, to, count); });
}
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* nodes, FAKE_EDGES_OUT size_t* count) {
  FAKE_GRAPH_CALL(cudaGraphNodeGetDependencies, plain, (node), { return list(node->behind, nodes, count); });
}
cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t* nodes, FAKE_EDGES_OUT size_t* count) {
  FAKE_GRAPH_CALL(cudaGraphNodeGetDependentNodes, plain, (node), { return list(node->before, nodes, count); });
}

}  // extern "C"
