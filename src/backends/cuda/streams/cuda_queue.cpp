// A queue's life: opened, asked, waited for, retired, used again; events in it.
#include "backends/cuda/streams/cuda_queue.hpp"

#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
constexpr const char* ordering = "weir: ordering streams";
}  // namespace

void CudaQueue::open(const QueueOptions& options) {
  label_ = options.label;
  priority_ = options.priority;
  legacy_ = options.kind == QueueOptions::Kind::legacy;
  of_current_device_ = legacy_;
  blocking_ = options.kind == QueueOptions::Kind::stream && options.blocking;
  internal_ = options.kind == QueueOptions::Kind::internal;
  legacy_handle_.store(legacy_, std::memory_order_relaxed);
  legacy_work_seen_.store(0, std::memory_order_relaxed);
  handle_known_.store(false, std::memory_order_relaxed);
  rest();
  times_.begin_anew();
  owner_.store(options.stream, std::memory_order_release);
}

void LegacyWork::count_in_device() noexcept {
  queue_->device_.count_legacy_work();
  queue_->device_.hold_all_deferred();
}

int CudaQueue::device_index() const { return device_.index(); }

cudaStream_t CudaQueue::make_stream(SourceLocation where) {
  device_.start(where);
  const cudaStream_t made =
      legacy_ ? cudaStreamLegacy : device_.stocks().take_stream(blocking_, priority_, "weir::Stream", label_, where);
  cudaStream_t nobody = nullptr;
  if (stream_.compare_exchange_strong(nobody, made)) return made;
  if (!legacy_) device_.stocks().give_stream(made, blocking_, priority_);  // another thread was first
  return nobody;
}

void CudaQueue::ensure_flag(SourceLocation where) {
  if (failures().has_flag()) return;
  volatile unsigned long long* flag = device_.stocks().take_flag(where);
  if (!failures().set_flag(flag)) device_.stocks().give_flag(flag);  // another thread was first
}

void CudaQueue::record(detail::EventState& state, SourceLocation where) {
  auto& event = static_cast<CudaEvent&>(state);
  if (capture_ != nullptr) return record_fork(event, where);
  const cudaStream_t queue = stream(where);
  const cudaEvent_t native = event.to_record(where);
  const std::uint64_t legacy_work = ordered_with_legacy() ? device_.legacy_work() : 0;
  const bool behind_legacy_work = legacy_work != legacy_work_seen_.load(std::memory_order_relaxed);
  // Behind legacy work the driver says that a stream is done with nothing but records in it; a timed record makes it pending.
  const StockEvent pending = behind_legacy_work && !event.timed ? StockEvent(device_, true, where) : StockEvent();
  const LegacyWork legacy(*this);
  const RoomCall room;
  const auto record_one = [&](cudaEvent_t one) {
    const cudaError_t answer =
        in_context([&] { return driver().record_event(one, queue); }, [&] { return cudaEventRecord(one, queue); });
    check(answer, "weir::Stream::record", label_, where);
  };
  record_one(native);
  if (behind_legacy_work) [[unlikely]] {
    if (pending) record_one(pending.get());
    legacy_work_seen_.store(legacy_work, std::memory_order_relaxed);
  }
  if (failures().in_doubt()) [[unlikely]] {
    event.set_failure_place({&failures(), failures().place()});
  } else if (event.failures.load(std::memory_order_relaxed) != nullptr) {
    event.failures.store(nullptr, std::memory_order_release);
  }
  event.recorder.store(this, std::memory_order_relaxed);
  event.recorded.store(true, std::memory_order_release);
}

void CudaQueue::wait(detail::EventState& state, SourceLocation where) {
  auto& event = static_cast<CudaEvent&>(state);
  if (capture_ != nullptr) return fork_from(event, where);
  if (!event.recorded.load(std::memory_order_acquire)) return;
  const cudaStream_t queue = stream(where);
  const cudaEvent_t native = event.native.load(std::memory_order_acquire);
  const LegacyWork legacy(*this);
  const RoomCall room;
  const cudaError_t answer = in_context([&] { return driver().wait_for_event(queue, native, CU_EVENT_WAIT_DEFAULT); },
                                        [&] { return cudaStreamWaitEvent(queue, native, cudaEventWaitDefault); });
  check(answer, "weir::Stream::wait", label_, where);
  waited_.store(true, std::memory_order_relaxed);
  if (const auto source = event.failure_place(); source.failures != nullptr) [[unlikely]] {
    ensure_flag(where);
    failures().depend_on(*source.failures, source.place);
  }
}

bool CudaQueue::stands_for(cudaStream_t stream) const {
  if (stream == cudaStreamLegacy) return legacy_handle();
  if (stream == cudaStreamPerThread || ended()) return false;  // the one is another stream in each thread
  return stream_.load(std::memory_order_acquire) == stream;
}

void CudaQueue::wrap(cudaStream_t stream, FailureState& failures) {
  failures.set_stream(owner());
  failures_.store(&failures, std::memory_order_release);
  of_current_device_ = stream == cudaStreamLegacy || stream == cudaStreamPerThread;
  legacy_handle_.store(stream == cudaStreamLegacy, std::memory_order_relaxed);
  if (stream == cudaStreamLegacy) device_.note_legacy_handle();
  stream_.store(stream, std::memory_order_release);
  wrapped_.store(true, std::memory_order_relaxed);
  end_unknown_.store(false, std::memory_order_relaxed);
  if (ended_.exchange(false)) gate_.open();
}

void CudaQueue::unwrap() noexcept {
  bool known = !used();
  try {
    bool free = false;
    {
      const InsideGate inside(*this);
      free = static_cast<bool>(inside);
    }
    if (!known && free) {
      set_standing_mark({});
      known = true;
    }
  } catch (const Error&) {
    // The driver answers no more.
  }
  end_unknown_.store(!known, std::memory_order_relaxed);
  if (legacy_handle()) return;  // that stream never goes
  ended_.store(true, std::memory_order_relaxed);
  gate_.close();  // the stream may be gone once this returns
}

InsideGate::InsideGate(CudaQueue& queue) noexcept : queue_(queue), legacy_(queue.legacy_handle()) {
  if (!queue.gate_.try_enter()) return;
  if (legacy_ && !queue.device_.legacy_gate().try_enter()) {
    queue.gate_.leave();
    return;
  }
  inside_ = true;
  if (!legacy_ && !queue.wrapped()) return;
  const DeviceScope scope(queue.device_.index());
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t answer = cudaStreamIsCapturing(queue.stream_.load(std::memory_order_acquire), &status);
  note(answer);
  // Of the legacy stream the answer is an error while a blocking stream captures, which leaves that capture as it is (R125).
  captured_elsewhere_ = answer == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone;
  if (captured_elsewhere_) leave();
}

void InsideGate::leave() noexcept {
  if (!std::exchange(inside_, false)) return;
  if (legacy_) queue_.device_.legacy_gate().leave();
  queue_.gate_.leave();
}

cudaError_t CudaQueue::ask() noexcept { return may_call_driver() ? ask_driver() : cudaErrorNotPermitted; }

cudaError_t CudaQueue::ask_driver() noexcept {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr) return cudaSuccess;
  if (deferred_.any()) return cudaErrorNotReady;
  const DeviceScope scope(device_.index());
  const InsideGate inside(*this);
  if (inside) return cudaStreamQuery(queue);
  if (inside.captured_elsewhere() || end_unknown_.load(std::memory_order_relaxed)) {
    return cudaErrorStreamCaptureUnsupported;
  }
  const cudaEvent_t mark = standing_mark();
  return mark != nullptr ? cudaEventQuery(mark) : cudaSuccess;
}

cudaEvent_t CudaQueue::standing_mark() const {
  return legacy_handle() ? device_.legacy_mark() : standing_mark_.load(std::memory_order_acquire);
}

EndMark CudaQueue::mark_end(const char* operation, SourceLocation where) {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr) return {};
  if (deferred_.any()) hold_deferred(where);
  const DeviceScope scope(device_.index());
  // A record in the legacy stream orders all blocking streams; in a blocking stream without work of its own it stands for
  // the legacy work so far, and orders nobody.
  const cudaStream_t end = legacy_handle() ? device_.legacy_mirror(where) : queue;
  StockEvent mark(device_, false, where);  // taken before: inside of the gate nothing waits
  const InsideGate inside(*this);
  if (inside) {
    cudaError_t answer = cudaStreamQuery(queue);
    if (answer == cudaSuccess) return {};
    const RoomCall room;
    if (answer == cudaErrorNotReady) answer = cudaEventRecord(mark.get(), end);
    check(answer, operation, device_.name(), where);
    return EndMark(std::move(mark));
  }
  if (inside.captured_elsewhere() || end_unknown_.load(std::memory_order_relaxed)) {
    throw Error(Errc::capture_unsupported, operation, device_.name(),
                "another library captures the stream: what it was given before is known again when that has ended",
                where);
  }
  return EndMark(standing_mark());
}

void CudaQueue::set_standing_mark(SourceLocation where) {
  if (legacy_handle()) return;
  const DeviceScope scope(device_.index());
  cudaEvent_t mark = standing_mark_.load(std::memory_order_relaxed);
  if (mark == nullptr) {
    mark = device_.stocks().take_event(false, where);
    standing_mark_.store(mark, std::memory_order_release);
  }
  check(cudaEventRecord(mark, stream_.load(std::memory_order_acquire)), ordering, device_.name(), where);
}

void CudaQueue::come_after(cudaEvent_t event) {
  const cudaStream_t queue = stream({});
  const DeviceScope scope(device_.index());
  const LegacyWork legacy(*this);
  const RoomCall room;
  check(cudaStreamWaitEvent(queue, event, cudaEventWaitDefault), ordering, label_, {});
  waited_.store(true, std::memory_order_relaxed);
}

void CudaQueue::follow(Queue& other, StreamId owner) {
  auto& source = static_cast<CudaQueue&>(other);
  if (&source == this || !source.used() || source.owner() != owner) return;
  if (const EndMark mark = source.mark_end(ordering, {})) come_after(mark.event());
}

bool CudaQueue::done() {
  if (!legacy_ && stream_.load(std::memory_order_acquire) == nullptr) {
    check_not_failed("weir::Stream::done", label_, {});
    return true;
  }
  if (legacy_ && !device_.started()) return true;
  if (!may_call_driver() || deferred_.any()) return false;
  static_cast<void>(stream({}));
  const cudaError_t answer = ask();
  if (answer == cudaErrorNotReady) return false;
  check(answer, "weir::Stream::done", label_, {});
  return true;
}

cudaError_t CudaQueue::free_in_order(void* data) noexcept {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr) return cudaErrorInvalidResourceHandle;
  try {
    if (deferred_.any()) hold_deferred({});
  } catch (...) {
    return cudaErrorNotReady;
  }
  const DeviceScope scope(device_.index());
  const InsideGate inside(*this);
  const RoomCall room;
  return inside ? cudaFreeAsync(data, queue) : cudaErrorStreamCaptureUnsupported;
}

void CudaQueue::wait_for_all(const char* operation, SourceLocation where) {
  if (legacy_ ? !device_.started() : stream_.load(std::memory_order_acquire) == nullptr) {
    check_not_failed(operation, label_, where);
    return;
  }
  const cudaStream_t queue = stream(where);
  const CommandTimes::End end = times_.end();
  const cudaError_t answer =
      in_context([&] { return driver().synchronize_stream(queue); }, [&] { return cudaStreamSynchronize(queue); });
  check(answer, operation, label_, where);
  end.reached();
  CudaGraph::collect();
}

void CudaQueue::synchronize(const char* operation, SourceLocation where) {
  const std::uint64_t place =
      failures().place();  // before the wait: what fails later has commands behind it that are pending
  wait_for_all(operation, where);
  failures().settle_tagged(place);
  if (const auto error = failures().take(place)) detail::throw_seen(*error);
}

void CudaQueue::settle() noexcept {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  if (queue == nullptr || !may_call_driver() || deferred_.any()) return;
  const DeviceScope scope(device_.index());
  const InsideGate inside(*this);
  if (!inside || cudaStreamQuery(queue) != cudaSuccess) return;
  unsettled_.store(false, std::memory_order_relaxed);
  note(cudaStreamSynchronize(queue));
}

void CudaQueue::drain() noexcept {
  try {
    const EndMark mark = mark_end(ordering, {});
    const DeviceScope scope(device_.index());
    if (mark) note(device_.wait_for(mark.event()));
  } catch (...) {
    // The driver answers no more, or another library captures the stream.
  }
}

void CudaQueue::retire() noexcept {
  {
    const detail::LockGuard guard(mutex_);
    retires_at_end_ = captured_;
    if (captured_) return;
  }
  try {
    device_.take_back(*this);
  } catch (...) {
    // Without memory for the list the stream is not used again.
  }
}

}  // namespace weir::cuda
