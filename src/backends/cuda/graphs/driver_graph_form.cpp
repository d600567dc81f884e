// Graphs of forms: their nodes, made and replaced by captures of our own; what an instance and a parent want of them.
#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/condition_kernels.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/prepared_launch.hpp"

namespace weir::cuda {

using detail::FormNode;
using detail::GraphForm;

namespace {

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

const detail::CapturedCollective* collective_of(const FormNode& node) {
  const auto* launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  return launch != nullptr ? detail::captured_collective_of(*launch) : nullptr;
}

/// Kernels, copies and fills: what does its work only if the guard lets it.
bool is_guarded(const FormNode& node) {
  if (collective_of(node) != nullptr) return false;
  return node.kind == NodeKind::launch || node.kind == NodeKind::copy || node.kind == NodeKind::fill;
}

Command command_of(const FormNode& node) {
  Command command;
  command.where = node.payload->where();
  command.uses = node.payload->uses();
  command.op = node.payload->op();
  return command;
}

bool is_global(const FormNode& node) {
  const auto* launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
  return launch != nullptr && cuda::is_global(*launch->kernel);
}

}  // namespace

ForeignChild::~ForeignChild() {
  if (graph == nullptr) return;
  const DeviceScope scope(device);
  note(cudaGraphDestroy(graph));
}

/// Records what `make` submits by a stream of our own: into the graph, or into one that goes at once if there is none.
template <class Make>
void DriverGraph::record_into(cudaGraph_t graph, bool body, SourceLocation where, const Make& make) {
  Recording recording;
  recording.graph = graph;
  recording.main = &device_.take_capture_queue(0);
  recording.body = body;
  CudaQueue& main = *recording.main;
  try {
    const DeviceScope scope(device_.index());
    const cudaStream_t stream = main.stream(where);
    check(graph != nullptr ? begin_capture_to(stream, graph)
                           : cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed),
          making, device_.name(), where);
  } catch (...) {
    give_back(main);
    throw;
  }
  main.set_capture(this);
  Recording* const outer = std::exchange(recording_, &recording);
  const auto end = [&] {
    recording_ = outer;
    const cudaError_t answer = close(recording);
    give_back(main);
    if (graph == nullptr && recording.graph != nullptr) note(cudaGraphDestroy(recording.graph));
    broken_ = broken_ || (graph != nullptr && recording.graph == nullptr);
    return answer;
  };
  try {
    make();
  } catch (...) {
    note(end());
    throw;
  }
  check(end(), making, device_.name(), where);
}

void DriverGraph::insert(CudaQueue& queue, const GraphForm& form, std::size_t node) {
  const SourceLocation where = form.nodes[node].where;
  CudaQueue& origin = *recording_->main;
  const DeviceScope scope(queue.device().index());
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
  if (const auto* collective = collective_of(one)) return add_collective(form, node, behind, *collective);
  if (recording_->body || fixed_place_) try_out(one);
  CudaQueue& queue = queue_for(one);
  check(set_capture_tails(queue.stream(one.where), behind), making, queue.label(), one.where);
  queue.submit(command_of(one));
  captured(queue, form, node);
}

/// A command that the driver refuses makes a capture void, and a void capture costs the graph that it went into. So where
/// there is one to lose, a capture that goes into none is asked first.
void DriverGraph::try_out(const FormNode& node) {
  if (!is_guarded(node)) return;
  try {
    record_into(nullptr, recording_->body, node.where, [&] { queue_for(node).submit(command_of(node)); });
  } catch (...) {
    present_owned_.clear();
    throw;
  }
  present_owned_.clear();
}

/// A copy of a graph with nodes that only the driver knows, under a node of the driver's.
void DriverGraph::add_child(const GraphForm& form, std::uint32_t node, const Nodes& behind) {
  const FormNode& one = form.nodes[node];
  const auto child = std::static_pointer_cast<const ForeignChild>(one.beyond);
  DriverNodes& became = made(node);
  cudaGraphNode_t added = nullptr;
  const detail::LockGuard guard(child->mutex);
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

/// What was captured before the first host function: the stream that a replay is launched into may have failed.
void DriverGraph::guard_first_commands(const GraphForm& form) {
  for (std::size_t i = 0; i < form.nodes.size(); ++i) {
    const FormNode& node = form.nodes[i];
    if (nodes_[i].place == 0 && is_guarded(node) && is_work(node) && node.enabled && !is_global(node)) replace(form, i);
  }
}

/// For kernels of many threads: the first thing of a replay.
cudaGraphNode_t DriverGraph::add_copy_behind(cudaGraphNode_t first, SourceLocation where) {
  Nodes ends;
  record_into(graph_, false, where, [&] {
    const cudaStream_t stream = recording_->main->stream(where);
    check(set_capture_tails(stream, {first}), making, device_.name(), where);
    check(replays_->set_copy(stream), making, device_.name(), where);
    check(capture_tails(stream, ends), making, device_.name(), where);
  });
  return ends.front();
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
  if (replays_->has_copy()) first = add_copy_behind(first, where);
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
  if (old.nodes.empty() || old.graph == nullptr || broken()) {
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
  replaced_.reserve(replaced_.size() + old.owned.size());
  fixed_place_ = old.place;
  try {
    record_into(old.graph, old.graph != graph_, where, [&] {
      add(form, members_of(form), static_cast<std::uint32_t>(node), behind);
      for (cudaGraphNode_t end : nodes_[node].ends) {
        for (cudaGraphNode_t later : after) check(add_dependency(old.graph, end, later), making, device_.name(), where);
      }
    });
    fixed_place_.reset();
    // As long as all of them are there, the new ones can go instead.
    check(cudaGraphDestroyNode(old.nodes.front()), making, device_.name(), where);
  } catch (...) {
    fixed_place_.reset();
    take_back_nodes(old.graph, all);
    nodes_[node] = old;
    present_owned_.clear();
    throw;
  }
  replaced_.insert(replaced_.end(), old.owned.begin(), old.owned.end());
  for (std::size_t i = 1; i < old.nodes.size(); ++i) {
    const cudaError_t answer = cudaGraphDestroyNode(old.nodes[i]);
    torn_ = torn_ || answer != cudaSuccess;
    check(answer, making, device_.name(), where);
  }
}

/// What a change that failed has added.
void DriverGraph::take_back_nodes(cudaGraph_t graph, const Nodes& before) noexcept {
  if (broken_) return;  // the driver has destroyed it
  try {
    Nodes present;
    torn_ = torn_ || nodes_in(graph, present) != cudaSuccess;
    for (cudaGraphNode_t one : present) {
      if (!contains(before, one)) torn_ = cudaGraphDestroyNode(one) != cudaSuccess || torn_;
    }
  } catch (...) {
    torn_ = true;
  }
  static_cast<void>(cudaGetLastError());
}

bool DriverGraph::is_foreign(const GraphForm& form) const {
  std::size_t present = 0;
  const DeviceScope scope(device_.index());
  note(cudaGraphGetNodes(graph_, nullptr, &present));
  std::size_t known = 0;
  for (std::size_t i = 0; i < form.nodes.size() && i < nodes_.size(); ++i) {
    if (nodes_[i].graph == graph_) known += nodes_[i].nodes.size();
  }
  return present > known;
}

std::shared_ptr<ForeignChild> DriverGraph::as_child(const std::vector<std::size_t>& without, const char* operation,
                                                    SourceLocation where) const {
  const DeviceScope scope(device_.index());
  auto child = std::make_shared<ForeignChild>();
  child->device = device_.index();
  const detail::LockGuard guard(child->mutex);  // nobody else's yet
  check(cudaGraphClone(&child->graph, graph_), operation, "graph on " + device_.name(), where);
  for (const DriverNodes& one : nodes_) child->owned.insert(child->owned.end(), one.owned.begin(), one.owned.end());
  child->nodes.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) append_clones(nodes_[i].nodes, child->graph, child->nodes[i]);
  for (const std::size_t i : without) {
    for (cudaGraphNode_t& node : child->nodes[i]) {
      check(replace_by_empty(child->graph, node), operation, "graph on " + device_.name(), where);
    }
  }
  return child;
}

std::unique_ptr<DriverGraph> DriverGraph::copy(const std::vector<std::size_t>& without, SourceLocation where) const {
  const std::shared_ptr<ForeignChild> child = as_child(without, "weir::Graph::clone", where);
  auto made = std::make_unique<DriverGraph>(device_);
  const detail::LockGuard guard(child->mutex);  // nobody else's
  made->graph_ = std::exchange(child->graph, nullptr);
  made->nodes_.resize(nodes_.size());
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    DriverNodes& one = made->nodes_[i];
    one.nodes = child->nodes[i];
    one.graph = nodes_[i].graph == graph_ && !one.nodes.empty() ? made->graph_ : nullptr;
    if (std::find(without.begin(), without.end(), i) != without.end()) {
      one.ends = one.nodes;
    } else {
      append_clones(nodes_[i].ends, made->graph_, one.ends);
    }
    one.owned = nodes_[i].owned;
  }
  made->owns_things_ = owns_things_;
  for (CudaEvent* event : recorded_) made->note_recorded(*event);
  return made;
}

}  // namespace weir::cuda
