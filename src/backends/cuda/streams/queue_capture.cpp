// A queue while its stream is captured: commands become nodes.
#include <memory>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/flag_kernel.hpp"

namespace weir::cuda {

bool CudaQueue::in_doubt() const { return capture_ != nullptr ? capture_->in_doubt() : failures().in_doubt(); }

detail::DeviceGuard CudaQueue::guard() const {
  if (capture_ != nullptr) return capture_->guard();
  return failures().in_doubt() ? failures().guard() : detail::DeviceGuard{nullptr, 0};
}

detail::DeviceGuard CudaQueue::guard_of(std::size_t threads, SourceLocation where) {
  if (capture_ != nullptr) return capture_->guard_of(threads, device_);
  detail::DeviceGuard heeds = guard();
  if (heeds.failed_at == nullptr || threads <= most_distant_threads) return heeds;
  volatile unsigned long long* copy = flag_copy_.load(std::memory_order_acquire);
  if (copy == nullptr) {
    copy = device_.flag_words().take();
    if (copy == nullptr) return heeds;
    flag_copy_.store(copy, std::memory_order_release);
  }
  const cudaStream_t queue = stream(where);
  const DeviceScope scope(device_.index());
  check(launch_fetch_flag(heeds.failed_at, copy, queue), "weir: a command behind one that may fail", label_, where);
  heeds.failed_at = copy;
  return heeds;
}

void CudaQueue::begin_capture(SourceLocation where) {
  auto graph = std::make_unique<DriverGraph>(device_);
  graph->begin(*this, where);
  static_cast<void>(graph.release());  // end_capture() gives it away
}

void CudaQueue::join_capture(Queue& origin, SourceLocation where) {
  static_cast<CudaQueue&>(origin).capture_->join(*this, where);
}

void CudaQueue::capture_behind(Queue& other) {
  auto& source = static_cast<CudaQueue&>(other);
  const cudaEvent_t fork = source.capture_->take_fork(source.device_, {});
  cudaError_t answer = cudaSuccess;
  {
    const DeviceScope scope(source.device_.index());
    answer = cudaEventRecord(fork, source.stream({}));
  }
  const DeviceScope scope(device_.index());
  if (answer == cudaSuccess) answer = cudaStreamWaitEvent(stream({}), fork, cudaEventWaitDefault);
  check(answer, "weir::Stream::wait", label_, {});
}

void CudaQueue::check_no_foreign_capture(const char* operation, SourceLocation where) {
  if (!wrapped() || capture_ != nullptr) return;
  const InsideGate inside(*this);
  if (!inside.captured_elsewhere()) return;
  throw Error(Errc::capture_unsupported, operation, label_,
              "another library captures the stream, and takes along launches, device copies and fills alone: use "
              "weir::capture",
              where);
}

void CudaQueue::close_for_capture(SourceLocation where) {
  static_cast<void>(stream(where));
  {
    const InsideGate inside(*this);
    if (inside.captured_elsewhere()) {
      throw Error(Errc::capture_unsupported, "weir::capture_begin", label_, "another library captures the stream",
                  where);
    }
  }
  set_standing_mark(where);
  if (ordered_with_legacy()) device_.close_legacy(where);
  gate_.close();
  const detail::LockGuard guard(mutex_);
  captured_ = true;
}

bool CudaQueue::open_after_capture() noexcept {
  if (ordered_with_legacy()) device_.open_legacy();
  gate_.open();
  const detail::LockGuard guard(mutex_);
  captured_ = false;
  return std::exchange(retires_at_end_, false);
}

void* CudaQueue::end_capture(bool discard, SourceLocation where) {
  std::unique_ptr<DriverGraph> graph(capture_);
  graph->end(discard, where);
  return discard ? nullptr : graph.release();
}

void CudaQueue::captured(const detail::GraphForm& form, std::size_t node) { capture_->captured(*this, form, node); }

void CudaQueue::capture_inside(const detail::GraphForm& form, std::size_t node) { capture_->insert(*this, form, node); }

void CudaQueue::capture_part(std::size_t node, std::size_t index, SourceLocation where) {
  capture_->open_part(*this, node, index, where);
}

void CudaQueue::capture_collective(const detail::GraphForm& form, std::size_t node) {
  capture_->close_parts(form, node);
}

void CudaQueue::record_in_graph(CudaEvent& event, SourceLocation where) {
  capture_->check_not_in_body("recording an event", label_, where);
  const DeviceScope scope(device_.index());
  check(cudaEventRecordWithFlags(event.to_record(where), stream(where), cudaEventRecordExternal),
        "weir::record_external", label_, where);
  capture_->note_recorded(event);
  if (event.timed && capture_->number() != 0) record_fork(event, where);
}

/// Its own event stays out of the capture: the user may record it elsewhere meanwhile, or let go of it.
void CudaQueue::record_fork(CudaEvent& event, SourceLocation where) {
  if (event.fork_capture != capture_->number()) {
    event.fork = capture_->take_fork(device_, where);
    event.fork_capture = capture_->number();
  }
  const DeviceScope scope(device_.index());
  check(cudaEventRecord(event.fork, stream(where)), "weir::Stream::record", label_, where);
}

/// To where another stream of the capture recorded the event.
void CudaQueue::fork_from(CudaEvent& event, SourceLocation where) {
  if (event.fork_capture != capture_->number()) return;
  const DeviceScope scope(device_.index());
  check(cudaStreamWaitEvent(stream(where), event.fork, cudaEventWaitDefault), "weir::Stream::wait", label_, where);
}

void CudaQueue::wait_in_graph(CudaEvent& event, SourceLocation where) {
  capture_->check_not_in_body("waiting for an event", label_, where);
  const DeviceScope scope(device_.index());
  check(cudaStreamWaitEvent(stream(where), event.made(where), cudaEventWaitExternal), "weir::wait_external", label_,
        where);
}

}  // namespace weir::cuda
