// Captures: of the user's streams, and of our own.
#include "backends/cuda/graphs/driver_graph.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "no_waits.hpp"

namespace weir::cuda {

using detail::FormNode;
using detail::GraphForm;

namespace {

struct GraphCall {
  std::shared_ptr<Replays> replays;
  detail::HostFunction* function;
  std::uint64_t place;
  SourceLocation where;
  std::string label;
};

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

void run_graph_call(void* data) {
  if (is_exiting()) return;
  const detail::NoWaits no_waits;
  const GraphCall& call = *static_cast<GraphCall*>(data);
  if (call.replays->skips(call.place)) return;
  if (auto error = call_function(*call.function, call.label, call.where)) call.replays->fail(call.place, error);
}

}  // namespace

DriverGraph::DriverGraph(CudaDevice& device) : device_(device), replays_(std::make_shared<Replays>(device)) {}

DriverGraph::~DriverGraph() {
  const DeviceScope scope(device_.index());
  if (graph_ != nullptr && !broken_) note(cudaGraphDestroy(graph_));
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
  capture->number = next_number();
  origin.close_for_capture(where);
  // The core forbids what a mode of the driver's would: it knows the user's line, and the driver would forbid the library's own questions, too.
  cudaError_t answer = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  if (answer != cudaSuccess) {
    if (origin.open_after_capture()) origin.retire();
    refuse(answer, "weir::capture_begin", origin.label(), where);
  }
  origin.set_capture(this);
  Nodes none;
  answer = capture_tails(stream, none, &capture->graph);
  capture_ = std::move(capture);
  recording_ = capture_.get();
  if (answer == cudaSuccess) return;
  end(true, where);
  refuse(answer, "weir::capture_begin", origin.label(), where);
}

void DriverGraph::join(CudaQueue& queue, SourceLocation where) {
  capture_->joined.reserve(capture_->joined.size() + 1);
  queue.close_for_capture(where);
  capture_->joined.push_back(&queue);
  queue.set_capture(this);
}

void DriverGraph::end(bool discard, SourceLocation where) {
  const DeviceScope scope(capture_->main->device().index());
  for (CudaQueue* queue : capture_->joined) queue->set_capture(nullptr);
  const cudaError_t answer = close(*capture_);
  graph_ = capture_->graph;
  recording_ = nullptr;
  const auto reopen = [](CudaQueue& queue) {
    if (queue.open_after_capture()) queue.retire();
  };
  for (CudaQueue* queue : capture_->joined) reopen(*queue);
  reopen(*capture_->main);
  if (answer == cudaSuccess) forget_unused_ends();
  device_.free_what_was_put_off_soon();  // the core's lock of captures is held
  if (discard || answer != cudaSuccess) {
    if (graph_ != nullptr && !broken_) note(cudaGraphDestroy(graph_));
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
  for (CudaQueue* helper : recording.helpers) give_back(*helper);
  for (const auto& [device, fork] : recording.forks) {
    if (fork != nullptr) device->give_fork(fork);
  }
  static_cast<void>(cudaGetLastError());
  return answer;
}

void DriverGraph::give_back(CudaQueue& queue) noexcept {
  queue.set_capture(nullptr);
  queue.device().give_capture_queue(queue);
}

cudaEvent_t DriverGraph::take_fork(CudaDevice& device, SourceLocation where) {
  recording_->forks.emplace_back(&device, nullptr);
  return recording_->forks.back().second = device.take_fork(where);
}

CudaQueue& DriverGraph::helper(CudaDevice& device, int priority, SourceLocation where) {
  for (CudaQueue* queue : recording_->helpers) {
    if (&queue->device() == &device && queue->priority() == priority) return *queue;
  }
  recording_->helpers.reserve(recording_->helpers.size() + 1);
  CudaQueue& queue = device.take_capture_queue(priority);
  const cudaStream_t main = recording_->main->stream(where);
  cudaStream_t stream = nullptr;
  cudaEvent_t fork = nullptr;
  try {
    stream = queue.stream(where);
    fork = take_fork(recording_->main->device(), where);
  } catch (...) {
    give_back(queue);
    throw;
  }
  cudaError_t answer = cudaSuccess;
  {
    const DeviceScope scope(recording_->main->device().index());
    answer = cudaEventRecord(fork, main);
  }
  const DeviceScope scope(device.index());
  if (answer == cudaSuccess) answer = cudaStreamWaitEvent(stream, fork, cudaEventWaitDefault);
  if (answer != cudaSuccess) {
    give_back(queue);
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
  const DeviceScope scope(queue.device().index());
  CudaQueue& other = helper(device, queue.priority(), where);
  Nodes tails;
  check(capture_tails(queue.stream(where), tails), making, queue.label(), where);
  check(set_capture_tails(other.stream(where), tails), making, queue.label(), where);
  return other;
}

void DriverGraph::rejoin(CudaQueue& queue, CudaQueue& helper, SourceLocation where) {
  const DeviceScope scope(queue.device().index());
  Nodes tails;
  check(capture_tails(helper.stream(where), tails), making, queue.label(), where);
  check(set_capture_tails(queue.stream(where), tails), making, queue.label(), where);
}

void DriverGraph::expect(CudaQueue& queue, SourceLocation where) {
  const DeviceScope scope(queue.device().index());
  check(capture_tails(queue.stream(where), before_), making, queue.label(), where);
}

void DriverGraph::captured(CudaQueue& queue, const GraphForm& form, std::size_t node) {
  DriverNodes& became = made(node);
  const SourceLocation where = form.nodes[node].where;
  const DeviceScope scope(queue.device().index());
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
  if (form.nodes[node].kind == NodeKind::host_call) own(form.nodes[node].payload.shared());
  became.owned = std::exchange(present_owned_, {});
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
  if (replays_->has_copy()) lower_copy(queue, command.where);
}

/// What is behind the host function heeds what it did, in whichever device's stream it is.
void DriverGraph::lower_copy(CudaQueue& queue, SourceLocation where) {
  const bool here = &queue.device() == &device_;
  CudaQueue& own_queue = here ? queue : helper_behind(queue, device_, where);
  {
    const DeviceScope scope(device_.index());
    check(replays_->lower_copy(own_queue.stream(where)), making, queue.label(), where);
  }
  if (!here) rejoin(queue, own_queue, where);
}

void DriverGraph::note_recorded(CudaEvent& event) {
  recorded_.push_back(&event);
  CudaDevice::at(event.device).keep_for_graph(event);
}

}  // namespace weir::cuda
