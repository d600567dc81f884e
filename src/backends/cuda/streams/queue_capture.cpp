// A queue while its stream is captured: commands become nodes.
#include <memory>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

bool CudaQueue::in_doubt() const { return capture_ != nullptr ? capture_->in_doubt() : failures_.in_doubt(); }

detail::DeviceGuard CudaQueue::guard() const {
  if (capture_ != nullptr) return capture_->guard();
  return failures_.in_doubt() ? failures_.guard() : detail::DeviceGuard{nullptr, 0};
}

bool CudaQueue::begin_capture(SourceLocation where) {
  auto graph = std::make_unique<DriverGraph>(device_);
  graph->begin(*this, where);
  static_cast<void>(graph.release());  // end_capture() gives it away
  return true;
}

void CudaQueue::join_capture(Queue& origin, SourceLocation where) {
  static_cast<void>(stream(where));
  static_cast<CudaQueue&>(origin).capture_->join(*this);
}

void* CudaQueue::end_capture(bool discard, SourceLocation where) {
  std::unique_ptr<DriverGraph> graph(capture_);
  graph->end(discard, where);
  return discard ? nullptr : graph.release();
}

void CudaQueue::captured(const detail::GraphForm& form, std::size_t node) { capture_->captured(*this, form, node); }

void CudaQueue::capture_inside(const detail::GraphForm& form, std::size_t node) { capture_->insert(*this, form, node); }

void CudaQueue::record_in_graph(CudaEvent& event, SourceLocation where) {
  capture_->check_not_in_body("recording an event", label_, where);
  const DeviceScope scope(device_.index());
  check(cudaEventRecordWithFlags(event.made(where), stream(where), cudaEventRecordExternal), "weir::record_external",
        label_, where);
  capture_->note_recorded(event);
  if (!event.timed) return;
  if (event.fork == nullptr) {
    check(cudaEventCreateWithFlags(&event.fork, cudaEventDisableTiming), "weir::TimedEvent", label_, where);
  }
  check(cudaEventRecord(event.fork, stream(where)), "weir::Stream::record", label_, where);
}

/// To where another stream of the capture recorded the event.
void CudaQueue::fork_from(CudaEvent& event, SourceLocation where) {
  const cudaEvent_t fork = event.timed ? event.fork : event.native.load(std::memory_order_acquire);
  if (fork == nullptr) return;
  const DeviceScope scope(device_.index());
  check(cudaStreamWaitEvent(stream(where), fork, cudaEventWaitDefault), "weir::Stream::wait", label_, where);
}

void CudaQueue::wait_in_graph(CudaEvent& event, SourceLocation where) {
  capture_->check_not_in_body("waiting for an event", label_, where);
  const DeviceScope scope(device_.index());
  check(cudaStreamWaitEvent(stream(where), event.made(where), cudaEventWaitExternal), "weir::wait_external", label_,
        where);
}

}  // namespace weir::cuda
