// Instances and their launches.
#include "backends/fake_cuda/graph_instance.hpp"

#include <algorithm>

#include "backends/fake_cuda/conditions.hpp"

namespace fake_cuda {

namespace {

struct Handle {
  unsigned value;
  unsigned at_launch;
  bool assign;
};
std::map<cudaGraphConditionalHandle, Handle>& handles() {
  static auto& all = *new std::map<cudaGraphConditionalHandle, Handle>;
  return all;
}

/// Nodes of one graph in an order; false where there is none (R151).
bool order_of(const CUgraph_st& graph, std::vector<cudaGraphNode_t>& order) {
  std::map<cudaGraphNode_t, std::size_t> open;
  std::vector<cudaGraphNode_t> ready;
  for (const auto& node : graph.nodes) {
    open[node.get()] = node->behind.size();
    if (node->behind.empty()) ready.push_back(node.get());
  }
  while (!ready.empty()) {
    const cudaGraphNode_t node = ready.back();
    ready.pop_back();
    order.push_back(node);
    for (const cudaGraphNode_t after : node->before) {
      if (--open[after] == 0) ready.push_back(after);
    }
  }
  return order.size() == graph.nodes.size();
}

bool fits_body(cudaGraphNodeType type) {
  return type == cudaGraphNodeTypeKernel || type == cudaGraphNodeTypeEmpty || type == cudaGraphNodeTypeGraph ||
         type == cudaGraphNodeTypeMemset || type == cudaGraphNodeTypeMemcpy || type == cudaGraphNodeTypeConditional;
}

cudaError_t plan_of(const CUgraph_st& graph, bool body, CUgraphExec_st& instance, Plan& plan) {
  std::vector<cudaGraphNode_t> order;
  if (!order_of(graph, order)) return cudaErrorInvalidValue;
  std::map<cudaGraphNode_t, std::size_t> places;
  for (const cudaGraphConditionalHandle handle : graph.handles) {
    if (handles()[handle].assign) instance.assigned.push_back(handle);
  }
  plan.nodes.reserve(order.size());
  for (const cudaGraphNode_t node : order) {
    if (body && !fits_body(node->type)) return cudaErrorNotSupported;
    PlanNode one;
    one.key = node;
    one.type = node->type;
    one.work = node->work;
    one.handle = node->handle;
    one.condition = node->condition;
    for (const cudaGraphNode_t before : node->behind) one.behind.push_back(places[before]);
    instance.conditional = instance.conditional || node->type == cudaGraphNodeTypeConditional;
    for (const cudaGraph_t inside : node->inside) {
      auto inner = std::make_shared<Plan>();
      if (const cudaError_t no = plan_of(*inside, body || inside->body, instance, *inner)) return no;
      one.inside.push_back(std::move(inner));
    }
    places[node] = plan.nodes.size();
    plan.nodes.push_back(std::move(one));
  }
  for (PlanNode& node : plan.nodes) instance.nodes[node.key] = &node;
  return cudaSuccess;
}

bool holds_memory(const Plan& plan) {
  return std::any_of(plan.nodes.begin(), plan.nodes.end(),
                     [](const PlanNode& node) { return node.type == cudaGraphNodeTypeMemAlloc; });
}

cudaError_t instantiate(cudaGraphExec_t* made, cudaGraph_t graph) {
  auto instance = std::make_unique<CUgraphExec_st>();
  instance->plan = std::make_shared<Plan>();
  if (const cudaError_t no = plan_of(*graph, false, *instance, *instance->plan)) return no;
  if (instance->conditional || holds_memory(*instance->plan)) {
    if (graph->instances > 0) return cudaErrorNotSupported;  // R137
    ++graph->instances;
    instance->source = graph;
  }
  *made = instance.get();
  world().instances.insert(instance.release());
  return cudaSuccess;
}

/// Where the parts of a launch come from.
struct Launching {
  Call* call;
  int device;
  StreamRef stream;
  unsigned long long replay = world().next_id++;
};

OpRef add_plan(Launching& launching, const std::shared_ptr<Plan>& plan, const OpRef& start);

/// Runs a body, again and again where it is a loop's, and then finishes the node.
void run_condition(const Launching& from, const std::shared_ptr<Plan>& plan, std::size_t index, const OpRef& node);

OpRef new_part(Launching& launching, Op::Kind kind, std::function<void()> run = {}) {
  return new_op(*launching.call, kind, launching.device, std::move(run));
}

OpRef op_of(Launching& launching, const std::shared_ptr<Plan>& plan, std::size_t index) {
  const PlanNode& node = plan->nodes[index];
  if (!node.enabled) return new_part(launching, Op::Kind::marker);
  switch (node.type) {
    case cudaGraphNodeTypeKernel:
      if (node.work.prepare) {
        const OpRef op = new_part(launching, Op::Kind::work);
        op->deferred = true;
        node.work.prepare(op, launching.replay);
        return op;
      }
      return new_part(launching, Op::Kind::work, [kernel = node.work.kernel] { (*kernel)(); });
    case cudaGraphNodeTypeMemcpy:
    case cudaGraphNodeTypeMemset: return new_part(launching, Op::Kind::work, node.work.action);
    case cudaGraphNodeTypeHost:
      return new_part(launching, Op::Kind::host,
                      [function = node.work.function, data = node.work.data] { function(data); });
    case cudaGraphNodeTypeEventRecord: {
      const OpRef op = new_part(launching, Op::Kind::marker);
      node.work.event->op = op;
      node.work.event->capture = nullptr;
      return op;
    }
    case cudaGraphNodeTypeWaitEvent: {
      const OpRef op = new_part(launching, Op::Kind::marker);
      depend(op, node.work.event->op);
      return op;
    }
    case cudaGraphNodeTypeConditional: {
      const OpRef op = new_part(launching, Op::Kind::work);
      op->deferred = true;
      const Launching from{nullptr, launching.device, nullptr};
      op->run = [from, plan, index, weak = std::weak_ptr<Op>(op)] {
        const Hidden hidden;
        run_condition(from, plan, index, weak.lock());
      };
      return op;
    }
    default: return new_part(launching, Op::Kind::marker);
  }
}

OpRef add_plan(Launching& launching, const std::shared_ptr<Plan>& plan, const OpRef& start) {
  std::vector<OpRef> ends(plan->nodes.size());
  std::vector<bool> inner(plan->nodes.size());
  std::vector<OpRef> made;
  for (std::size_t i = 0; i < plan->nodes.size(); ++i) {
    const PlanNode& node = plan->nodes[i];
    const bool child = node.type == cudaGraphNodeTypeGraph && node.enabled;
    const OpRef op = child ? new_part(launching, Op::Kind::marker) : op_of(launching, plan, i);
    if (node.behind.empty()) depend(op, start);
    for (const std::size_t before : node.behind) {
      depend(op, ends[before]);
      inner[before] = true;
    }
    made.push_back(op);
    ends[i] = child ? add_plan(launching, node.inside.front(), op) : op;
  }
  const OpRef end = new_part(launching, Op::Kind::marker);
  depend(end, start);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    if (!inner[i]) depend(end, ends[i]);
  }
  for (const OpRef& op : made) submit(op);
  submit(end);
  return end;
}

void run_condition(const Launching& from, const std::shared_ptr<Plan>& plan, std::size_t index, const OpRef& node) {
  Call call{"a conditional node", std::unique_lock<std::mutex>(world().mutex), nullptr, {}};
  const PlanNode& one = plan->nodes[index];
  const unsigned value = handles()[one.handle].value;
  std::size_t body = one.inside.size();
  if (one.condition == cudaGraphCondTypeSwitch) {
    body = value;
  } else if (value != 0) {
    body = 0;
  } else if (one.condition == cudaGraphCondTypeIf && one.inside.size() == 2) {
    body = 1;
  }
  if (body >= one.inside.size() || world().failure != cudaSuccess) {
    {
      const Shown shown;
      release(node.get());
    }
    finish(node);
    return;
  }
  Launching launching{&call, from.device, nullptr};
  // Of the body: behind the node, which ThreadSanitizer is told here.
  {
    const Shown shown;
    release(node.get());
  }
  const OpRef start = new_op(call, Op::Kind::marker, from.device);
  if constexpr (watched) start->behind.push_back(node);
  const OpRef end = add_plan(launching, one.inside[body], start);
  const OpRef after = new_op(call, Op::Kind::work, from.device);
  after->deferred = true;
  const bool again = one.condition == cudaGraphCondTypeWhile;
  after->run = [from, plan, index, node, again, weak = std::weak_ptr<Op>(after)] {
    {
      release(node.get());
      const Hidden hidden;
      const std::lock_guard guard(world().mutex);
      finish(weak.lock());
      if (!again) finish(node);
    }
    const Hidden hidden;
    if (again) run_condition(from, plan, index, node);
  };
  depend(after, end);
  submit(after);
  submit(start);
}

}  // namespace

cudaGraphConditionalHandle make_handle(unsigned value, bool assign) {
  const cudaGraphConditionalHandle handle = world().next_id++;
  handles()[handle] = Handle{value, value, assign};
  return handle;
}
void forget_handle(cudaGraphConditionalHandle handle) { handles().erase(handle); }

void forget_source(cudaGraph_t graph) {
  for (CUgraphExec_st* instance : world().instances) {
    if (instance->source == graph) instance->source = nullptr;
  }
}

void set_conditional(cudaGraphConditionalHandle handle, unsigned value) {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  handles()[handle].value = value;
}

cudaError_t launch_graph(Call& call, cudaGraphExec_t instance, cudaStream_t handle) {
  if (world().instances.count(instance) == 0) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);  // R142
  wait_for_room(call, stream, false);
  if (world().instances.count(instance) == 0) return cudaErrorInvalidValue;
  for (const cudaGraphConditionalHandle one : instance->assigned) handles()[one].value = handles()[one].at_launch;
  // The start takes its place in the stream; the end is what comes last in it.
  const OpRef start = new_op(call, Op::Kind::marker, stream->device);
  depend(start, instance->last);  // R153
  Launching launching{&call, stream->device, stream};
  const OpRef hold = new_op(call, Op::Kind::marker, stream->device);
  depend(hold, start);
  enqueue(call, stream, start);
  const OpRef end = add_plan(launching, instance->plan, hold);
  const OpRef last = new_op(call, Op::Kind::marker, stream->device);
  last->room = 1;
  depend(last, end);
  enqueue(call, stream, last);
  instance->last = last;
  submit(hold);
  return cudaSuccess;
}

cudaError_t set_kernel(Call&, cudaGraphExec_t instance, cudaGraphNode_t node,
                       const std::shared_ptr<const KernelCall>& kernel) {
  if (world().instances.count(instance) == 0) return cudaErrorInvalidValue;
  const auto found = instance->nodes.find(node);
  if (found == instance->nodes.end() || found->second->type != cudaGraphNodeTypeKernel) return cudaErrorInvalidValue;
  found->second->work.kernel = kernel;
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* instance, cudaGraph_t graph, unsigned long long) {
  FAKE_GRAPH_CALL(cudaGraphInstantiate, plain, (graph), {
    if (graph == nullptr || world().graphs.count(graph) == 0) return cudaErrorInvalidValue;
    return instantiate(instance, graph);
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t instance, cudaStream_t stream) {
  FAKE_GRAPH_CALL(cudaGraphLaunch, plain, (instance), { return launch_graph(call, instance, stream); });
}
CUresult cuGraphLaunch(CUgraphExec instance, CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_GRAPH_CALL(cuGraphLaunch, of_driver, (instance), { return launch_graph(call, instance, stream); });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t instance) {
  FAKE_GRAPH_CALL(cudaGraphExecDestroy, plain, (instance), {
    if (world().instances.count(instance) == 0) return cudaErrorInvalidValue;
    // R215, and more than it says: an H200 waits for all of the device's streams, with a lock held that others need.
    if (instance->conditional) {
      ++world().destroyers;
      for (const OpRef& op : last_ops(current_device())) wait_for(call, op);
      --world().destroyers;
      if (world().waiters > 0) world().done.notify_all();
    }
    if (world().instances.count(instance) == 0) return cudaErrorInvalidValue;
    if (instance->source != nullptr) --instance->source->instances;
    world().instances.erase(instance);
    delete instance;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t instance, cudaGraphNode_t node, unsigned enabled) {
  FAKE_GRAPH_CALL(cudaGraphNodeSetEnabled, plain, (instance, node), {
    const auto found = instance->nodes.find(node);
    if (found == instance->nodes.end()) return cudaErrorInvalidValue;
    const cudaGraphNodeType type = found->second->type;
    if (type != cudaGraphNodeTypeKernel && type != cudaGraphNodeTypeMemcpy && type != cudaGraphNodeTypeMemset) {
      return cudaErrorInvalidValue;
    }
    found->second->enabled = enabled != 0;
    return cudaSuccess;
  });
}

}  // extern "C"
