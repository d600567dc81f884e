// A queue's life: opened, asked, waited for, retired, used again; events in it.
#include "backends/cuda/streams/cuda_queue.hpp"

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
constexpr const char* ordering = "weir: ordering streams";
}  // namespace

void CudaQueue::open(const QueueOptions& options) {
  label_ = options.label;
  id_ = options.stream;
  priority_ = options.priority;
  legacy_ = options.kind == QueueOptions::Kind::legacy;
  of_current_device_ = legacy_;
  blocking_ = options.kind == QueueOptions::Kind::stream && options.blocking;
  internal_ = options.kind == QueueOptions::Kind::internal;
  used_.store(false, std::memory_order_relaxed);
}

int CudaQueue::device_index() const { return device_.index(); }

cudaStream_t CudaQueue::make_stream(SourceLocation where) {
  constexpr const char* operation = "weir::Stream";
  const detail::LockGuard guard(mutex_);
  if (const cudaStream_t made = stream_.load(std::memory_order_relaxed)) return made;
  const DeviceScope scope(device_.index());
  device_.start(where);
  cudaStream_t stream = cudaStreamLegacy;
  if (!legacy_) {
    check(cudaStreamCreateWithPriority(&stream, blocking_ ? cudaStreamDefault : cudaStreamNonBlocking, priority_),
          operation, label_, where);
  }
  stream_.store(stream, std::memory_order_release);
  return stream;
}

void CudaQueue::ensure_flag(SourceLocation where) {
  if (failures_.has_flag()) return;
  failures_.set_flag(device_.take_flag(where));
}

cudaEvent_t CudaEvent::made(SourceLocation where) {
  cudaEvent_t event = native.load(std::memory_order_acquire);
  if (event != nullptr) [[likely]]
    return event;
  const DeviceScope scope(device);
  check(cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming), "weir::Event", "event",
        where);
  cudaEvent_t nothing = nullptr;
  if (native.compare_exchange_strong(nothing, event)) return event;
  static_cast<void>(cudaEventDestroy(event));
  return nothing;
}

void CudaQueue::record(detail::EventState& state, SourceLocation where) {
  auto& event = static_cast<CudaEvent&>(state);
  const cudaStream_t queue = stream(where);
  const cudaEvent_t native = event.made(where);
  const cudaError_t answer =
      in_context([&] { return driver().record_event(native, queue); }, [&] { return cudaEventRecord(native, queue); });
  check(answer, "weir::Stream::record", label_, where);
  if (failures_.in_doubt() && capture_ == nullptr) [[unlikely]] {
    event.place.store(failures_.place(), std::memory_order_relaxed);
    event.queue.store(this, std::memory_order_release);
  } else if (event.queue.load(std::memory_order_relaxed) != nullptr) {
    event.queue.store(nullptr, std::memory_order_release);
  }
  if (capture_ == nullptr) {
    const std::uint64_t number =
        records_.load(std::memory_order_relaxed) + 1;  // one that two records share does no harm
    records_.store(number, std::memory_order_relaxed);
    event.number.store(number, std::memory_order_relaxed);
    event.recorder.store(this, std::memory_order_relaxed);
  }
  event.recorded.store(true, std::memory_order_release);
}

void CudaQueue::wait(detail::EventState& state, SourceLocation where) {
  auto& event = static_cast<CudaEvent&>(state);
  if (capture_ != nullptr) return fork_from(event, where);
  if (!event.recorded.load(std::memory_order_acquire)) return;
  const cudaStream_t queue = stream(where);
  const cudaEvent_t native = event.native.load(std::memory_order_acquire);
  const cudaError_t answer = in_context([&] { return driver().wait_for_event(queue, native, CU_EVENT_WAIT_DEFAULT); },
                                        [&] { return cudaStreamWaitEvent(queue, native, cudaEventWaitDefault); });
  check(answer, "weir::Stream::wait", label_, where);
  if (CudaQueue* source = event.queue.load(std::memory_order_acquire)) [[unlikely]] {
    ensure_flag(where);
    failures_.depend_on(source->failures_, event.place.load(std::memory_order_relaxed));
  }
}

void CudaQueue::wrap(cudaStream_t stream) {
  if (stream == nullptr) stream = cudaStreamLegacy;
  of_current_device_ = stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  stream_.store(stream, std::memory_order_release);
  wrapped_ = true;
  ended_.store(false, std::memory_order_release);
}

void CudaQueue::unwrap() noexcept {
  try {
    const detail::LockGuard guard(mutex_);
    if (used()) mark_end(End::own_work);
  } catch (const Error&) {
    // The driver answers no more: there is nothing to follow.
  }
  ended_.store(true, std::memory_order_release);
}

/// Records the event of follow() at the present end.
cudaEvent_t CudaQueue::mark_end(End end) {
  const DeviceScope scope(device_.index());
  if (follow_event_ == nullptr) {
    check(cudaEventCreateWithFlags(&follow_event_, cudaEventDisableTiming), ordering, label_, {});
  }
  // A record in the legacy stream orders all blocking streams; in a blocking stream without work of its own it stands for
  // the legacy work so far, and orders nobody.
  const bool aside = legacy_ && end == End::own_work;
  check(cudaEventRecord(follow_event_, aside ? device_.legacy_mirror({}) : stream({})), ordering, label_, {});
  return follow_event_;
}

void CudaQueue::come_after(cudaEvent_t event) {
  const cudaStream_t queue = stream({});
  const DeviceScope scope(device_.index());
  check(cudaStreamWaitEvent(queue, event, cudaEventWaitDefault), ordering, label_, {});
}

void CudaQueue::follow(Queue& other) {
  auto& source = static_cast<CudaQueue&>(other);
  if (source.capture_ != nullptr && &source != this) {
    const detail::LockGuard guard(source.mutex_);
    return come_after(source.mark_end(End::own_work));
  }
  if (&source == this || !source.used() || source.idle()) return;
  const detail::LockGuard guard(source.mutex_);
  const bool ended = source.ended_.load(std::memory_order_acquire);
  come_after(ended ? source.follow_event_ : source.mark_end(End::own_work));
}

bool CudaQueue::done() {
  if (!legacy_ && stream_.load(std::memory_order_acquire) == nullptr) {
    check_not_failed("weir::Stream::done", label_, {});
    return true;
  }
  if (legacy_ && !device_.started()) return true;
  if (ended_.load(std::memory_order_acquire)) return idle();
  const cudaStream_t queue = stream({});
  const DeviceScope scope(device_.index());
  const cudaError_t answer = cudaStreamQuery(queue);
  if (answer == cudaErrorNotReady) return false;
  check(answer, "weir::Stream::done", label_, {});
  return true;
}

bool CudaQueue::idle() noexcept {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr) return true;
  const DeviceScope scope(device_.index());
  cudaError_t answer = cudaSuccess;
  if (ended_.load(std::memory_order_acquire)) {
    const detail::LockGuard guard(mutex_);
    answer = follow_event_ != nullptr ? cudaEventQuery(follow_event_) : cudaSuccess;
  } else {
    answer = cudaStreamQuery(queue);
  }
  note(answer == cudaErrorNotReady ? cudaSuccess : answer);
  return answer != cudaErrorNotReady;
}

void CudaQueue::wait_for_all(const char* operation, SourceLocation where) {
  if (legacy_ ? !device_.started() : stream_.load(std::memory_order_acquire) == nullptr) {
    check_not_failed(operation, label_, where);
    return;
  }
  const cudaStream_t queue = stream(where);
  const cudaError_t answer =
      in_context([&] { return driver().synchronize_stream(queue); }, [&] { return cudaStreamSynchronize(queue); });
  check(answer, operation, label_, where);
  CudaGraph::collect();
}

void CudaQueue::throw_failure() {
  if (const std::shared_ptr<const Error> error = failures_.take()) detail::throw_seen(*error);
}

void CudaQueue::synchronize(const char* operation, SourceLocation where) {
  wait_for_all(operation, where);
  if (failures_.failed()) throw_failure();
}

void CudaQueue::drain() noexcept {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr || ended_.load(std::memory_order_acquire)) return;
  const DeviceScope scope(device_.index());
  note(cudaStreamSynchronize(queue));
}

void CudaQueue::retire() noexcept {
  if (capture_ != nullptr) {
    capture_->retire_at_end(*this);
    return;
  }
  try {
    device_.take_back(*this);
  } catch (...) {
    // Without memory for the list the stream is not used again.
  }
}

}  // namespace weir::cuda
