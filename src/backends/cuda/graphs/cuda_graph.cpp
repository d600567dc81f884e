// Replays and updates.
#include "backends/cuda/graphs/cuda_graph.hpp"

#include <algorithm>
#include <utility>

#include <weir/kernel.hpp>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/guarded_graph.hpp"
#include "backends/cuda/graphs/kernel_nodes.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/prepared_launch.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

using detail::FormNode;
using detail::GraphForm;

namespace {

constexpr const char* instantiating = "weir: instantiating a graph";
constexpr const char* launching = "weir::Graph::launch";
constexpr const char* updating = "weir::Graph::update";

bool has_conditional(const GraphForm& form) {
  return std::any_of(form.nodes.begin(), form.nodes.end(),
                     [](const FormNode& node) { return node.kind == NodeKind::conditional; });
}

bool is_kind(cudaGraphNode_t node, std::initializer_list<cudaGraphNodeType> kinds) {
  cudaGraphNodeType kind{};
  if (cudaGraphNodeGetType(node, &kind) != cudaSuccess) return false;
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

}  // namespace

struct CudaGraph::Told {
  Told(cudaGraphNode_t n, const LoadedCode& code, const Launch& one, const detail::DeviceGuard& guard)
      : node(n), launch(code, one, guard), parameters(parameters_of(launch)) {}

  cudaGraphNode_t node;
  PreparedLaunch launch;
  CUDA_KERNEL_NODE_PARAMS parameters;
};
void CudaGraph::ToldDeleter::operator()(Told* told) const noexcept { delete told; }

constinit std::atomic<std::size_t> CudaGraph::buried{0};

CudaGraph::CudaGraph(CudaDevice& device, const GraphForm& form, std::unique_ptr<DriverGraph> graph,
                     SourceLocation where)
    : GraphExecutable(true), device_(device), graph_(std::move(graph)) {
  collect();
  if (!graph_) {
    graph_ = std::make_unique<DriverGraph>(device);
    graph_->build(form);
  }
  foreign_ = graph_->is_foreign(form);
  note_collectives(form);
  conditional_ = has_conditional(form);
  applied_.resize(form.nodes.size());
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    applied_[i].payload = form.nodes[i].payload.get();
    applied_[i].device = form.nodes[i].device;
    applied_[i].enabled = form.nodes[i].enabled;
    priorities_ = priorities_ || form.nodes[i].priority != form.nodes[0].priority;
  }
  done_.resize(static_cast<std::size_t>(driver().device_count));
  make_end(device.index(), where);
  instantiate(form, where);
}

void CudaGraph::InstanceDeleter::operator()(cudaGraphExec_t instance) const noexcept {
  if (conditional) return DeadInstances::add(instance, device, device_of_all);
  note(cudaGraphExecDestroy(instance));
}

CudaGraph::~CudaGraph() {
  const DeviceScope scope(device_.index());
  earlier_guarded_.clear();
  earlier_.clear();
  guarded_.reset();
  instance_.reset();
  device_.times_memory().give_by_graph(times_);
}

/// The runtime's call where the driver's does not succeed: it makes the context current, and says what is wrong.
cudaError_t launch_instance(cudaGraphExec_t instance, cudaStream_t stream) {
  const auto answer = static_cast<cudaError_t>(driver().launch_graph(instance, stream));
  return answer == cudaSuccess ? answer : cudaGraphLaunch(instance, stream);
}

/// A new instance of the graph as it is; the old one goes when its replays have ended (R159).
void CudaGraph::instantiate(const GraphForm& form, SourceLocation where) {
  const DeviceScope scope(device_.index());
  Instance instance = instance_of(*graph_, form, where);
  if (instance_) behind_ = last_queue_;
  instance_ = std::move(instance);
  times_noted_ = false;
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    applied_[i].times = nullptr;
    if (applied_[i].switched_off) switch_on(i, false);
  }
}

CudaGraph::Instance CudaGraph::instance_of(DriverGraph& graph, const GraphForm& form, SourceLocation where) {
  graph.complete(form, where);
  cudaGraphExec_t instance = nullptr;
  const unsigned long long flags = priorities_ ? cudaGraphInstantiateFlagUseNodePriority : 0;
  check(cudaGraphInstantiate(&instance, graph.graph(), flags), instantiating, "graph on " + device_.name(), where);
  tracked_ = tracked_ || graph.owns_things() || conditional_;
  return Instance(instance, InstanceDeleter(conditional_, device_.index(), device_of_all()));
}

/// Of the nodes, in bodies, too; and of what another library captured, which may be elsewhere.
int CudaGraph::device_of_all() const {
  const bool one = !foreign_ && std::all_of(applied_.begin(), applied_.end(),
                                            [&](const Applied& node) { return node.device == device_.index(); });
  return one ? device_.index() : DeadInstances::several;
}

/// The driver makes no second instance of a graph with conditional nodes while there is one, and replays of that may be
/// pending. So a change makes another graph, as it does where an earlier change broke this one; and the old one stays until
/// nothing of it is pending.
void CudaGraph::make_anew(const GraphForm& form, SourceLocation where) {
  if (foreign_) {
    throw Error(
        Errc::not_supported, updating, "graph on " + device_.name(),
        "it holds work that was captured from outside Weir, beside conditional nodes, behind a change that failed "
        "halfway, or while a launch waits for what is before it: capture the graph again",
        where);
  }
  const DeviceScope scope(device_.index());
  forget_earlier();
  earlier_.reserve(earlier_.size() + 1);
  auto graph = std::make_unique<DriverGraph>(device_);
  graph->build(form);
  Instance instance = instance_of(*graph, form, where);
  earlier_.push_back({std::exchange(graph_, std::move(graph)), std::exchange(instance_, std::move(instance))});
  behind_ = last_queue_;
  for (Applied& one : applied_) {
    one.stale = one.switched_off = one.astray = false;
    one.times = nullptr;
    one.told.reset();
  }
  times_noted_ = false;
}

void CudaGraph::launch(CudaQueue& queue, SourceLocation where, Watched& watched) {
  static_cast<void>(queue.stream(where));
  queue.check_no_foreign_capture(launching, where);
  if (queue.failures().skips_all()) return;
  const DeviceScope scope(queue.device().index());
  if (queue.device().index() != device_.index()) make_end(queue.device().index(), where);
  if (!transports_.empty()) return launch_in_order(queue, where, watched);
  const detail::LockGuard lock(mutex_);
  replay(queue, where, watched);
}

void CudaGraph::replay(CudaQueue& queue, SourceLocation where, Watched& watched) {
  const cudaStream_t stream = queue.stream(where);
  FailureState& failures = queue.failures();
  GuardedGraph* guarded_graph = nullptr;
  if (failures.in_doubt() && !graph_->has_calls() && transports_.empty()) [[unlikely]] {
    guarded_graph = guarded(where);
  }
  const bool timed = watched && guarded_graph == nullptr;
  if (guarded_graph == nullptr) note_times(timed);
  if (launched_ && last_guarded_ != (guarded_graph != nullptr)) behind_ = last_queue_;
  if (behind_.queue != nullptr) {
    queue.follow(*behind_.queue, behind_.owner);
  }
  // What the kernels of the last replay noted is copied behind it, and written anew by this one.
  if (times_copied_ && end_known_ && last_queue_.queue != &queue) {
    note(cudaStreamWaitEvent(stream, done_[static_cast<std::size_t>(last_device_)].get(), cudaEventWaitDefault));
  }
  watched.begin_replay(timed && times_noted_ && all_noted_);
  std::uint64_t place = 0;
  if (graph_->has_calls()) {
    queue.ensure_flag(where);
    place = failures.open_place();
    graph_->replays().launched(failures, place);
  }
  const cudaError_t answer = guarded_graph != nullptr ? guarded_graph->launch(failures.guard(), stream)
                                                      : launch_instance(instance_.get(), stream);
  if (answer != cudaSuccess) {
    if (place != 0) {
      graph_->replays().take_back_launch();
      failures.settle(place, nullptr);
    }
    refuse(answer, launching, queue.label(), where);
  }
  behind_ = {};
  last_queue_ = {&queue, queue.owner()};
  last_guarded_ = guarded_graph != nullptr;
  launched_ = true;
  for (CudaEvent* event : graph_->recorded_events()) {
    event->failures.store(nullptr, std::memory_order_relaxed);
    event->recorder.store(nullptr, std::memory_order_relaxed);
    event->recorded.store(true, std::memory_order_release);
  }
  times_copied_ = timed && times_noted_;
  if (times_copied_) watched.end_replay(timed_nodes_, times_);
  if (tracked_) note_end(queue.device().index(), stream);
}

/// The graph under a condition, as it is now; null where there can be none, or where nodes are switched off in the instance.
GuardedGraph* CudaGraph::guarded(SourceLocation where) {
  if (guarded_made_) return guarded_.get();
  if (last_guarded_) behind_ = last_queue_;  // the driver does not know that the next one is the same graph
  bring_up_to_date(applied_.size(), where);
  const bool whole =
      std::none_of(applied_.begin(), applied_.end(), [](const Applied& one) { return one.switched_off || one.astray; });
  std::unique_ptr<GuardedGraph> made = whole ? GuardedGraph::make(device_, graph_->graph(), device_of_all()) : nullptr;
  if (guarded_) {
    earlier_guarded_.reserve(earlier_guarded_.size() + 1);
    forget_earlier();
    earlier_guarded_.push_back(std::move(guarded_));
  }
  guarded_ = std::move(made);
  tracked_ = tracked_ || guarded_ != nullptr;
  guarded_made_ = true;
  return guarded_.get();
}

void CudaGraph::update(const GraphForm& form, std::size_t index) {
  const CallOrderLock order(!transports_.empty());
  const detail::LockGuard guard(mutex_);
  update_node(form, index);
}

/// Whether the driver changes the instance for it: else an instance is made.
bool CudaGraph::has_call_for(const detail::NodeChange& change) const {
  const Applied& applied = applied_[change.node];
  const detail::Payload* const payload = change.other.payload.get();
  return payload == applied.payload || (applied.enabled && is_updatable(launch_of(payload)));
}

/// An instance of all nodes takes its time, and one for each of many changes the square of that.
void CudaGraph::update_by_one_instance(GraphForm& form, std::vector<detail::NodeChange>& changes) {
  const auto exchange = [&] {
    for (detail::NodeChange& change : changes) std::swap(form.nodes[change.node], change.other);
  };
  exchange();
  try {
    make_anew(form, form.nodes[changes.front().node].where);
  } catch (...) {
    exchange();
    throw;
  }
  guarded_made_ = false;
  for (const detail::NodeChange& change : changes) {
    const FormNode& node = form.nodes[change.node];
    applied_[change.node].payload = node.payload.get();
    applied_[change.node].enabled = node.enabled;
  }
}

void CudaGraph::update_all(GraphForm& form, std::vector<detail::NodeChange>& changes) {
  const CallOrderLock order(!transports_.empty());
  const detail::LockGuard guard(mutex_);
  if (late_ != 0) return update_by_one_instance(form, changes);
  const auto calls =
      std::count_if(changes.begin(), changes.end(),
                    [&](const detail::NodeChange& change) WEIR_NOT_ANALYSED { return has_call_for(change); });
  if (static_cast<std::size_t>(calls) + 1 < changes.size() && !foreign_) return update_by_one_instance(form, changes);
  // Called under the lock, at once.
  detail::exchange_all(form, changes, [&](std::size_t index) WEIR_NOT_ANALYSED { update_node(form, index); });
}

void CudaGraph::update_node(const GraphForm& form, std::size_t index) {
  const FormNode& node = form.nodes[index];
  Applied& applied = applied_[index];
  guarded_made_ = false;
  applied.told.reset();
  if (late_ != 0) {  // the instance that they are to launch stays as it is
    make_anew(form, node.where);
    applied.payload = node.payload.get();
    applied.enabled = node.enabled;
    return;
  }
  if (node.payload.get() != applied.payload) {
    const Launch* launch = launch_of(node.payload.get());
    const bool set = applied.enabled && is_updatable(launch) && set_launch(index, node.device, *launch);
    if (!set) update_graph(form, index);
    applied.payload = node.payload.get();
  }
  if (node.enabled == applied.enabled) return;
  if (switch_on(index, node.enabled)) {
    applied.switched_off = !node.enabled;
  } else {
    update_graph(form, index);
  }
  applied.enabled = node.enabled;
  all_noted_ = all_noted_ && !node.enabled;  // it was not chosen
}

/// The driver's own call for a kernel's node: false where it does not apply.
bool CudaGraph::set_launch(std::size_t index, int device, const Launch& launch) {
  const DriverNodes& became = graph_->nodes_of(index);
  if (became.nodes.size() != 1) return false;
  const LoadedCode* loaded = CudaDevice::at(device).known(*code_of(*launch.kernel));
  if (loaded == nullptr) return false;
  PreparedLaunch prepared(*loaded, launch, guard_of(index, launch));
  const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(prepared);
  const ContextScope scope(device);
  if (driver().update_kernel_node(instance_.get(), became.nodes.front(), &parameters) != CUDA_SUCCESS) return false;
  applied_[index].stale = true;
  guarded_made_ = false;
  return true;
}

bool CudaGraph::update_arguments(std::size_t node, detail::Payload& payload, const void* closure) {
  const detail::LockGuard guard(mutex_);
  if (late_ != 0) return false;
  Applied& applied = applied_[node];
  if (!applied.told && !prepare_to_tell(node, *launch_of(&payload))) return false;
  Told& told = *applied.told;
  told.launch.take(closure);
  const ContextScope scope(applied.device);
  if (driver().update_kernel_node(instance_.get(), told.node, &told.parameters) != CUDA_SUCCESS) return false;
  payload.take_arguments(closure);
  applied.stale = true;
  guarded_made_ = false;
  return true;
}

bool CudaGraph::prepare_to_tell(std::size_t node, const Launch& launch) {
  Applied& applied = applied_[node];
  const DriverNodes& became = graph_->nodes_of(node);
  if (!is_updatable(&launch) || !applied.enabled || became.nodes.size() != 1) return false;
  const LoadedCode* loaded = CudaDevice::at(applied.device).known(*code_of(*launch.kernel));
  if (loaded == nullptr) return false;
  applied.told.reset(new Told(became.nodes.front(), *loaded, launch, guard_of(node, launch)));
  return true;
}

/// The driver can do this for kernels, copies and fills.
bool CudaGraph::switch_on(std::size_t index, bool on) {
  const DriverNodes& became = graph_->nodes_of(index);
  if (became.nodes.empty()) return false;
  const DeviceScope scope(device_.index());
  for (cudaGraphNode_t node : became.nodes) {
    if (!is_kind(node, {cudaGraphNodeTypeKernel, cudaGraphNodeTypeMemcpy, cudaGraphNodeTypeMemset})) return false;
  }
  const auto set = [&](cudaGraphNode_t node, bool to) WEIR_NEEDS(mutex_) {
    const cudaError_t answer = cudaGraphNodeSetEnabled(instance_.get(), node, to ? 1 : 0);
    note(answer);
    return answer == cudaSuccess;
  };
  for (std::size_t i = 0; i < became.nodes.size(); ++i) {
    if (set(became.nodes[i], on)) continue;
    while (i-- > 0) set(became.nodes[i], !on);
    return false;
  }
  return true;
}

/// Gives the graph the parameters that only the instance has.
void CudaGraph::bring_up_to_date(std::size_t but, SourceLocation where) {
  const ContextScope scope(device_.index());
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    if (!applied_[i].stale || i == but) continue;
    const DriverNodes& became = graph_->nodes_of(i);
    const Launch& launch = *launch_of(applied_[i].payload);
    const CudaDevice& device = CudaDevice::at(applied_[i].device);
    const LoadedCode* loaded = device.known(*code_of(*launch.kernel));
    PreparedLaunch prepared(*loaded, launch, graph_->replays().guard_of(became.place, threads_of(launch), device));
    const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(prepared);
    const CUresult answer = driver().set_kernel_node(became.nodes.front(), &parameters);
    check(static_cast<cudaError_t>(answer), updating, "graph on " + device_.name(), where);
    applied_[i].stale = false;
  }
}

void CudaGraph::update_graph(const GraphForm& form, std::size_t index) {
  const SourceLocation where = form.nodes[index].where;
  const DeviceScope scope(device_.index());
  if (!conditional_ && !graph_->broken()) {
    try {
      replace(form, index, where);
      return;
    } catch (...) {
      // A change that this graph did not survive is made in another one.
      if (foreign_ || !graph_->broken()) throw;
    }
  }
  make_anew(form, where);
}

/// Other work in the place of the node, in the graph and in a new instance.
void CudaGraph::replace(const GraphForm& form, std::size_t index, SourceLocation where) {
  bring_up_to_date(index, where);
  forget_earlier();
  // What an earlier change put there, of which there is no instance, goes with this one.
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    if (!applied_[i].astray && i != index) continue;
    applied_[i].told.reset();
    graph_->replace(form, i);
    applied_[i].astray = true;
    applied_[i].stale = applied_[i].switched_off = false;
  }
  instantiate(form, where);
  for (Applied& one : applied_) one.astray = false;
}

bool CudaGraph::does_more() {
  const detail::LockGuard guard(mutex_);
  return foreign_;
}

std::shared_ptr<const void> CudaGraph::beyond_form() {
  const detail::LockGuard guard(mutex_);
  if (!foreign_) return nullptr;
  if (graph_->has_calls()) {
    throw Error(Errc::not_supported, "weir::Graph::launch", "graph on " + device_.name(),
                "as a child it cannot hold both host functions and work that was captured from outside Weir: launch it "
                "into a stream that does not capture",
                {});
  }
  bring_up_to_date(applied_.size(), {});
  return graph_->as_child(switched_off(), "weir::Graph::launch", {});
}

void* CudaGraph::driver_copy(SourceLocation where) {
  const detail::LockGuard guard(mutex_);
  if (!foreign_) return nullptr;
  if (graph_->has_calls()) {
    throw Error(Errc::not_supported, "weir::Graph::clone", "graph on " + device_.name(),
                "it holds both host functions and work that was captured from outside Weir: capture it once more",
                where);
  }
  bring_up_to_date(applied_.size(), where);
  return graph_->copy(switched_off(), where).release();
}

std::vector<std::size_t> CudaGraph::switched_off() const {
  std::vector<std::size_t> off;
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    if (applied_[i].switched_off) off.push_back(i);
  }
  return off;
}

}  // namespace weir::cuda
