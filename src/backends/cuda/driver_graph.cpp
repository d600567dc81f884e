// Captures, and graphs made of forms by captures.
#include "backends/cuda/driver_graph.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/condition_kernels.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/cuda_event.hpp"
#include "backends/cuda/cuda_queue.hpp"
#include "backends/cuda/host_functions.hpp"
#include "backends/cuda/prepared_launch.hpp"

namespace weir::cuda {

using detail::FormNode;
using detail::GraphForm;

namespace {

constexpr const char* making = "weir: making a graph";

void append_new(Nodes& to, const Nodes& from) {
  for (cudaGraphNode_t node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}
bool contains(const Nodes& nodes, cudaGraphNode_t node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

Members members_of(const GraphForm& form) {
  Members members(form.nodes.size() + 1);
  for (std::size_t i = 0; i < form.nodes.size(); ++i) {
    members[static_cast<std::size_t>(form.nodes[i].parent + 1)].push_back(static_cast<std::uint32_t>(i));
  }
  return members;
}

/// Nodes of one scope, each behind what it depends on.
std::vector<std::uint32_t> in_order(const GraphForm& form, const std::vector<std::uint32_t>& scope) {
  std::vector<std::uint32_t> order;
  order.reserve(scope.size());
  std::vector<std::uint32_t> open;  // a path, depth first
  std::vector<char> state(form.nodes.size());
  for (const std::uint32_t root : scope) {
    open.push_back(root);
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      if (state[node] == 0) {
        state[node] = 1;
        for (const std::uint32_t before : form.nodes[node].depends) {
          if (state[before] == 0) open.push_back(before);
        }
        continue;
      }
      open.pop_back();
      if (state[node] == 1) order.push_back(node);
      state[node] = 2;
    }
  }
  return order;
}

bool is_empty_launch(const FormNode& node) {
  const auto* launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  return launch != nullptr && launch->extent.count() == 0;
}

bool is_work(const FormNode& node) {
  if (!node.payload || is_empty_launch(node)) return false;
  return node.kind != NodeKind::alloc && node.kind != NodeKind::free && node.kind != NodeKind::empty;
}

bool is_global(const FormNode& node) {
  const auto* launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  return launch != nullptr && cuda::is_global(*launch->kernel);
}

CudaQueue& open_internal(CudaDevice& device, int priority) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.priority = priority;
  options.blocking = false;
  options.label = "graph on " + device.name();
  return device.open_queue(options);
}

struct GraphCall {
  std::shared_ptr<Replays> replays;
  detail::HostFunction* function;
  std::uint64_t place;
  SourceLocation where;
  std::string label;
};

void run_graph_call(void* data) {
  if (is_exiting()) return;
  const GraphCall& call = *static_cast<GraphCall*>(data);
  if (call.replays->skips(call.place)) return;
  if (auto error = call_function(*call.function, call.label, call.where)) call.replays->fail(call.place, error);
}

}  // namespace

/// One capture of the driver's into a graph.
struct DriverGraph::Recording {
  cudaGraph_t graph = nullptr;
  CudaQueue* main = nullptr;
  std::vector<CudaQueue*> joined;   ///< the user's
  std::vector<CudaQueue*> helpers;  ///< ours: other devices, other priorities
  bool body = false;
};

ForeignChild::~ForeignChild() {
  if (graph != nullptr) note(cudaGraphDestroy(graph));
}

DriverGraph::DriverGraph(CudaDevice& device) : device_(device), replays_(std::make_shared<Replays>(device)) {}

DriverGraph::~DriverGraph() {
  if (graph_ != nullptr) note(cudaGraphDestroy(graph_));
  for (CudaEvent* event : recorded_) CudaDevice::at(event->device).forget_graph_of(*event);
}

DriverNodes& DriverGraph::made(std::size_t node) {
  if (nodes_.size() <= node) nodes_.resize(node + 1);
  return nodes_[node];
}

void DriverGraph::begin(CudaQueue& origin, SourceLocation where) {
  const cudaStream_t stream = origin.stream(where);
  const DeviceScope scope(origin.device().index());
  auto capture = std::make_unique<Recording>();
  capture->main = &origin;
  // The core forbids what a mode of the driver's would: it knows the user's line, and the driver would forbid the library's own questions, too.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "weir::capture_begin", origin.label(), where);
  origin.set_capture(this);
  Nodes none;
  const cudaError_t answer = capture_tails(stream, none, &capture->graph);
  capture_ = std::move(capture);
  recording_ = capture_.get();
  if (answer == cudaSuccess) return;
  end(true, where);
  refuse(answer, "weir::capture_begin", origin.label(), where);
}

void DriverGraph::join(CudaQueue& queue) {
  capture_->joined.push_back(&queue);
  queue.set_capture(this);
}

void DriverGraph::end(bool discard, SourceLocation where) {
  for (CudaQueue* queue : capture_->joined) queue->set_capture(nullptr);
  const cudaError_t answer = close(*capture_);
  graph_ = capture_->graph;
  recording_ = nullptr;
  for (CudaQueue* queue : std::exchange(retired_, {})) queue->retire();
  if (discard || answer != cudaSuccess) {
    if (graph_ != nullptr) note(cudaGraphDestroy(graph_));
    graph_ = nullptr;
  }
  if (discard) return note(answer);
  check(answer, "weir::capture_end", capture_->main->label(), where);
}

/// The streams of a recording go out of it. Its graph is null then if the driver gave none.
cudaError_t DriverGraph::close(Recording& recording) {
  CudaQueue& main = *recording.main;
  const DeviceScope scope(main.device().index());
  Nodes tails;
  const cudaStream_t stream = main.stream({});
  cudaError_t answer = capture_tails(stream, tails);
  for (CudaQueue* helper : recording.helpers) {
    if (answer == cudaSuccess) answer = set_capture_tails(helper->stream({}), tails);
  }
  recording.graph = nullptr;
  const cudaError_t ended = cudaStreamEndCapture(stream, &recording.graph);
  if (answer == cudaSuccess) answer = ended;
  main.set_capture(nullptr);
  for (CudaQueue* helper : recording.helpers) {
    helper->set_capture(nullptr);
    helper->retire();
  }
  static_cast<void>(cudaGetLastError());
  return answer;
}

/// Records what `make` submits into a graph by a stream of our own.
template <class Make>
void DriverGraph::record_into(cudaGraph_t graph, bool body, SourceLocation where, const Make& make) {
  Recording recording;
  recording.graph = graph;
  recording.main = &open_internal(device_, 0);
  recording.body = body;
  CudaQueue& main = *recording.main;
  {
    const DeviceScope scope(device_.index());
    const cudaError_t answer = begin_capture_to(main.stream(where), graph);
    if (answer != cudaSuccess) {
      main.retire();
      refuse(answer, making, device_.name(), where);
    }
  }
  main.set_capture(this);
  Recording* const outer = std::exchange(recording_, &recording);
  try {
    make();
  } catch (...) {
    recording_ = outer;
    note(close(recording));
    main.retire();
    throw;
  }
  recording_ = outer;
  const cudaError_t answer = close(recording);
  main.retire();
  check(answer, making, device_.name(), where);
}

CudaQueue& DriverGraph::helper(CudaDevice& device, int priority, SourceLocation where) {
  for (CudaQueue* queue : recording_->helpers) {
    if (&queue->device() == &device && queue->priority() == priority) return *queue;
  }
  CudaQueue& queue = open_internal(device, priority);
  const cudaStream_t main = recording_->main->stream(where);
  const cudaStream_t stream = queue.stream(where);
  cudaEvent_t fork = nullptr;
  cudaError_t answer = cudaSuccess;
  {
    const DeviceScope scope(recording_->main->device().index());
    answer = cudaEventCreateWithFlags(&fork, cudaEventDisableTiming);
    if (answer == cudaSuccess) answer = cudaEventRecord(fork, main);
  }
  const DeviceScope scope(device.index());
  if (answer == cudaSuccess) answer = cudaStreamWaitEvent(stream, fork, cudaEventWaitDefault);
  if (fork != nullptr) note(cudaEventDestroy(fork));
  if (answer != cudaSuccess) {
    queue.retire();
    refuse(answer, making, queue.label(), where);
  }
  queue.set_capture(this);
  recording_->helpers.push_back(&queue);
  return queue;
}

CudaQueue& DriverGraph::queue_for(const FormNode& node) {
  CudaQueue& main = *recording_->main;
  CudaDevice& device = CudaDevice::at(node.device);
  if (&main.device() == &device && main.priority() == node.priority) return main;
  return helper(device, node.priority, node.where);
}

CudaQueue& DriverGraph::helper_behind(CudaQueue& queue, CudaDevice& device, SourceLocation where) {
  CudaQueue& other = helper(device, queue.priority(), where);
  Nodes tails;
  check(capture_tails(queue.stream(where), tails), making, queue.label(), where);
  check(set_capture_tails(other.stream(where), tails), making, queue.label(), where);
  return other;
}

void DriverGraph::rejoin(CudaQueue& queue, CudaQueue& helper, SourceLocation where) {
  Nodes tails;
  check(capture_tails(helper.stream(where), tails), making, queue.label(), where);
  check(set_capture_tails(queue.stream(where), tails), making, queue.label(), where);
}

void DriverGraph::expect(CudaQueue& queue, SourceLocation where) {
  check(capture_tails(queue.stream(where), before_), making, queue.label(), where);
}

void DriverGraph::captured(CudaQueue& queue, const GraphForm& form, std::size_t node) {
  DriverNodes& became = made(node);
  const SourceLocation where = form.nodes[node].where;
  became.graph = recording_->graph;
  became.nodes.clear();
  check(capture_tails(queue.stream(where), became.ends), making, queue.label(), where);
  Nodes open = became.ends;
  Nodes behind;
  while (!open.empty()) {
    cudaGraphNode_t one = open.back();
    open.pop_back();
    if (contains(before_, one) || contains(became.nodes, one)) continue;
    became.nodes.push_back(one);
    check(dependencies_of(one, behind), making, queue.label(), where);
    open.insert(open.end(), behind.begin(), behind.end());
  }
  became.place = place();
  if (form.nodes[node].kind == NodeKind::host_call) own(form.nodes[node].payload);
  became.owned = std::exchange(present_owned_, {});
}

void DriverGraph::insert(CudaQueue& queue, const GraphForm& form, std::size_t node) {
  const SourceLocation where = form.nodes[node].where;
  CudaQueue& origin = *recording_->main;
  Nodes of_origin;
  Nodes behind;
  check(capture_tails(origin.stream(where), of_origin), making, origin.label(), where);
  check(capture_tails(queue.stream(where), behind), making, queue.label(), where);
  made(form.nodes.size() - 1);
  add(form, members_of(form), static_cast<std::uint32_t>(node), behind);
  check(set_capture_tails(origin.stream(where), of_origin), making, origin.label(), where);
  check(set_capture_tails(queue.stream(where), made(node).ends), making, queue.label(), where);
}

void DriverGraph::build(const GraphForm& form) {
  device_.start({});
  const DeviceScope scope(device_.index());
  check(cudaGraphCreate(&graph_, 0), making, device_.name(), {});
  nodes_.resize(form.nodes.size());
  record_into(graph_, false, {}, [&] { add_scope(form, members_of(form), -1, 0, {}); });
}

Nodes DriverGraph::add_scope(const GraphForm& form, const Members& members, std::int32_t parent, std::uint32_t branch,
                             const Nodes& behind) {
  std::vector<std::uint32_t> scope;
  for (const std::uint32_t node : members[static_cast<std::size_t>(parent + 1)]) {
    if (form.nodes[node].branch == branch) scope.push_back(node);
  }
  if (scope.empty()) return behind;
  std::vector<char> inner(form.nodes.size());
  for (const std::uint32_t node : in_order(form, scope)) {
    Nodes before = form.nodes[node].depends.empty() ? behind : Nodes{};
    for (const std::uint32_t earlier : form.nodes[node].depends) {
      append_new(before, nodes_[earlier].ends);
      inner[earlier] = 1;
    }
    add(form, members, node, before);
  }
  Nodes ends;
  for (const std::uint32_t node : scope) {
    if (inner[node] == 0) append_new(ends, nodes_[node].ends);
  }
  return ends;
}

void DriverGraph::add(const GraphForm& form, const Members& members, std::uint32_t node, const Nodes& behind) {
  const FormNode& one = form.nodes[node];
  DriverNodes& became = made(node);
  became = {};
  became.graph = recording_->graph;
  if (one.kind == NodeKind::graph) {
    if (one.beyond) {
      add_child(form, node, behind);
    } else {
      Nodes ends = add_scope(form, members, static_cast<std::int32_t>(node), 0, behind);
      nodes_[node].ends = std::move(ends);
    }
  } else if (one.kind == NodeKind::conditional) {
    add_conditional(form, members, node, behind);
  } else if (!is_work(one) || !one.enabled) {
    add_empty(became, behind, one.where);
  } else {
    add_command(form, node, behind);
  }
}

void DriverGraph::add_empty(DriverNodes& became, const Nodes& behind, SourceLocation where) {
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeEmpty;
  cudaGraphNode_t node = nullptr;
  check(add_node(recording_->graph, behind, parameters, &node), making, device_.name(), where);
  became.nodes = became.ends = {node};
}

void DriverGraph::add_command(const GraphForm& form, std::uint32_t node, const Nodes& behind) {
  const FormNode& one = form.nodes[node];
  CudaQueue& queue = queue_for(one);
  check(set_capture_tails(queue.stream(one.where), behind), making, queue.label(), one.where);
  Command command;
  command.where = one.payload->where();
  command.uses = one.payload->uses();
  command.op = one.payload->op();
  queue.submit(command);
  captured(queue, form, node);
}

/// A copy of a graph with nodes that only the driver knows, under a node of the driver's.
void DriverGraph::add_child(const GraphForm& form, std::uint32_t node, const Nodes& behind) {
  const FormNode& one = form.nodes[node];
  const auto child = std::static_pointer_cast<const ForeignChild>(one.beyond);
  DriverNodes& became = made(node);
  cudaGraphNode_t added = nullptr;
  check(cudaGraphAddChildGraphNode(&added, recording_->graph, behind.data(), behind.size(), child->graph), making,
        device_.name(), one.where);
  became.nodes = became.ends = {added};
  cudaGraph_t inside = nullptr;
  check(cudaGraphChildGraphNodeGetGraph(added, &inside), making, device_.name(), one.where);
  for (std::size_t i = 0; i < child->nodes.size(); ++i) {
    DriverNodes& below = made(node + 1 + i);
    below.graph = inside;
    append_clones(child->nodes[i], inside, below.nodes);
  }
  became.owned = child->owned;
  owns_things_ = owns_things_ || !child->owned.empty();
}

void DriverGraph::set_condition(const FormNode& node, cudaGraphConditionalHandle handle, const Nodes& behind,
                                DriverNodes& became) {
  CudaQueue& main = *recording_->main;
  const cudaStream_t stream = main.stream(node.where);
  check(set_capture_tails(stream, behind), making, main.label(), node.where);
  const bool number = node.condition.kind == detail::Condition::Kind::switch_;
  const ValueCondition condition(handle, node.condition.value, number, guard());
  check(condition.launch(stream), making, main.label(), node.where);
  check(capture_tails(stream, became.ends), making, main.label(), node.where);
  if (condition.guard.failed_at == nullptr) {
    unguarded_.push_back({became.ends.front(), handle, node.condition.value, number});
  }
}

void DriverGraph::add_conditional(const GraphForm& form, const Members& members, std::uint32_t node,
                                  const Nodes& behind) {
  using Kind = detail::Condition::Kind;
  const FormNode& one = form.nodes[node];
  const DeviceScope scope(device_.index());
  cudaGraphConditionalHandle handle{};
  check(cudaGraphConditionalHandleCreate(&handle, recording_->graph, 0, 0), making, device_.name(), one.where);
  DriverNodes became;
  became.graph = recording_->graph;
  set_condition(one, handle, behind, became);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = handle;
  parameters.conditional.size = one.condition.bodies;
  parameters.conditional.type = one.condition.kind == Kind::while_    ? cudaGraphCondTypeWhile
                                : one.condition.kind == Kind::switch_ ? cudaGraphCondTypeSwitch
                                                                      : cudaGraphCondTypeIf;
  cudaGraphNode_t conditional = nullptr;
  check(add_node(recording_->graph, became.ends, parameters, &conditional), making, device_.name(), one.where);
  became.nodes = became.ends;
  became.nodes.push_back(conditional);
  became.ends = {conditional};
  made(node) = became;
  for (std::uint32_t body = 0; body < one.condition.bodies; ++body) {
    record_into(parameters.conditional.phGraph_out[body], true, one.where, [&] {
      const Nodes ends = add_scope(form, members, static_cast<std::int32_t>(node), body, {});
      if (one.condition.kind != Kind::while_) return;
      DriverNodes again;
      set_condition(one, handle, ends, again);
    });
  }
}

void DriverGraph::check_not_in_body(const char* what, const std::string& object, SourceLocation where) const {
  if (!recording_->body) return;
  throw Error(
      Errc::not_supported, making, object,
      std::string(what) +
          " in the body of a conditional node: the driver takes kernels, copies, fills and more conditional nodes "
          "there; do it before or after the node",
      where);
}

void DriverGraph::add_call(CudaQueue& queue, const Command& command, detail::HostFunction& function) {
  check_not_in_body("a host function", queue.label(), command.where);
  note_exit();
  const std::uint64_t place = fixed_place_ ? *fixed_place_ : replays_->open_place(command.where);
  auto call = std::make_shared<GraphCall>(GraphCall{replays_, &function, place, command.where, queue.label()});
  const DeviceScope scope(queue.device().index());
  check(cudaLaunchHostFunc(queue.stream(command.where), &run_graph_call, call.get()), "weir::host_call", queue.label(),
        command.where);
  own(std::move(call));
}

void DriverGraph::note_recorded(CudaEvent& event) {
  recorded_.push_back(&event);
  CudaDevice::at(event.device).keep_for_graph(event);
}

/// What was captured before the first host function: the stream that a replay is launched into may have failed.
void DriverGraph::guard_first_commands(const GraphForm& form) {
  for (std::size_t i = 0; i < form.nodes.size(); ++i) {
    const FormNode& node = form.nodes[i];
    const bool has_guard = node.kind == NodeKind::launch || node.kind == NodeKind::copy || node.kind == NodeKind::fill;
    if (nodes_[i].place == 0 && has_guard && is_work(node) && node.enabled && !is_global(node)) replace(form, i);
  }
}

void DriverGraph::complete(const GraphForm& form, SourceLocation where) {
  if (!has_calls() || end_node_ != nullptr) return;
  guard_first_commands(form);
  const DeviceScope scope(device_.index());
  for (const Unguarded& one : unguarded_) {
    const ValueCondition condition(one.handle, one.value, one.number, replays_->guard(0));
    check(cudaGraphKernelNodeSetParams(one.node, &condition.parameters), making, device_.name(), where);
  }
  Nodes all;
  check(nodes_in(graph_, all), making, device_.name(), where);
  Nodes roots;
  Nodes leaves;
  Nodes others;
  for (cudaGraphNode_t node : all) {
    check(dependencies_of(node, others), making, device_.name(), where);
    if (others.empty()) roots.push_back(node);
    check(dependents_of(node, others), making, device_.name(), where);
    if (others.empty()) leaves.push_back(node);
  }
  cudaHostNodeParams parameters{};
  parameters.userData = replays_.get();
  parameters.fn = [](void* data) {
    if (!is_exiting()) static_cast<Replays*>(data)->begin();
  };
  cudaGraphNode_t first = nullptr;
  check(cudaGraphAddHostNode(&first, graph_, nullptr, 0, &parameters), making, device_.name(), where);
  for (cudaGraphNode_t root : roots) check(add_dependency(graph_, first, root), making, device_.name(), where);
  parameters.fn = [](void* data) {
    if (!is_exiting()) static_cast<Replays*>(data)->end();
  };
  check(cudaGraphAddHostNode(&end_node_, graph_, leaves.data(), leaves.size(), &parameters), making, device_.name(),
        where);
}

void DriverGraph::replace(const GraphForm& form, std::size_t node) {
  const DriverNodes old = nodes_[node];
  const SourceLocation where = form.nodes[node].where;
  if (old.nodes.empty() || old.graph == nullptr) {
    throw Error(Errc::not_supported, making, std::string(to_text(form.nodes[node].kind)) + " node",
                "the driver's graph has no node of its own for it: capture the graph again", where);
  }
  const DeviceScope scope(device_.index());
  Nodes behind;
  Nodes after;
  Nodes others;
  for (cudaGraphNode_t one : old.nodes) {
    check(dependencies_of(one, others), making, device_.name(), where);
    append_new(behind, others);
    check(dependents_of(one, others), making, device_.name(), where);
    append_new(after, others);
  }
  const auto outside = [&](cudaGraphNode_t one) { return contains(old.nodes, one); };
  std::erase_if(behind, outside);
  std::erase_if(after, outside);
  Nodes all;
  check(nodes_in(old.graph, all), making, device_.name(), where);
  fixed_place_ = old.place;
  try {
    record_into(old.graph, old.graph != graph_, where, [&] {
      add(form, members_of(form), static_cast<std::uint32_t>(node), behind);
      for (cudaGraphNode_t end : nodes_[node].ends) {
        for (cudaGraphNode_t later : after) check(add_dependency(old.graph, end, later), making, device_.name(), where);
      }
    });
  } catch (...) {
    fixed_place_.reset();
    Nodes present;
    note(nodes_in(old.graph, present));
    for (cudaGraphNode_t one : present) {
      if (!contains(all, one)) note(cudaGraphDestroyNode(one));
    }
    nodes_[node] = old;
    present_owned_.clear();
    throw;
  }
  fixed_place_.reset();
  replaced_.insert(replaced_.end(), old.owned.begin(), old.owned.end());
  for (cudaGraphNode_t one : old.nodes) check(cudaGraphDestroyNode(one), making, device_.name(), where);
}

bool DriverGraph::is_foreign(const GraphForm& form) const {
  std::size_t present = 0;
  note(cudaGraphGetNodes(graph_, nullptr, &present));
  std::size_t known = 0;
  for (std::size_t i = 0; i < form.nodes.size() && i < nodes_.size(); ++i) {
    if (nodes_[i].graph == graph_) known += nodes_[i].nodes.size();
    if (is_global(form.nodes[i])) return true;
  }
  return present > known;
}

std::shared_ptr<const ForeignChild> DriverGraph::as_child(const std::vector<std::size_t>& without) const {
  constexpr const char* operation = "weir::Graph::launch";
  auto child = std::make_shared<ForeignChild>();
  check(cudaGraphClone(&child->graph, graph_), operation, "graph on " + device_.name(), {});
  for (const DriverNodes& one : nodes_) child->owned.insert(child->owned.end(), one.owned.begin(), one.owned.end());
  child->nodes.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) append_clones(nodes_[i].nodes, child->graph, child->nodes[i]);
  for (const std::size_t i : without) {
    for (cudaGraphNode_t& node : child->nodes[i]) {
      check(replace_by_empty(child->graph, node), operation, "graph on " + device_.name(), {});
    }
  }
  return child;
}

}  // namespace weir::cuda
