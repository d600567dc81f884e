// Events: taken, polled, and used again once nobody looks at their records.
#include "backends/cuda/streams/cuda_event.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
detail::Mutex& failure_places_lock() {
  static auto& lock = *new detail::Mutex;
  return lock;
}
}  // namespace

CudaEvent::FailurePlace CudaEvent::failure_place() const {
  if (failures.load(std::memory_order_acquire) == nullptr) return {};
  const detail::LockGuard guard(failure_places_lock());
  return {failures.load(std::memory_order_relaxed), place.load(std::memory_order_relaxed)};
}

void CudaEvent::set_failure_place(const FailurePlace& now) {
  const detail::LockGuard guard(failure_places_lock());
  place.store(now.place, std::memory_order_relaxed);
  failures.store(now.failures, std::memory_order_release);
}

void CudaEvent::close() noexcept { CudaDevice::at(device).close_event(*this); }

bool CudaEvent::done() {
  if (!is_recorded()) return true;
  const DeviceScope scope(device);
  const cudaError_t answer = cudaEventQuery(native.load(std::memory_order_acquire));
  if (answer == cudaErrorNotReady) return false;
  check(answer, "weir::Event::done", CudaDevice::at(device).name(), {});
  return true;
}

bool CudaEvent::passed() {
  // With failures, something before the record may have failed, or may yet.
  return failures.load(std::memory_order_acquire) == nullptr && done();
}

void CudaEvent::synchronize(const char* operation, SourceLocation where) {
  if (!is_recorded()) return;
  const DeviceScope scope(device);
  CudaDevice& its_device = CudaDevice::at(device);
  check(its_device.wait_for(native.load(std::memory_order_acquire)), operation, its_device.name(), where);
  if (const auto source = failure_place(); source.failures != nullptr) {
    // It throws, and leaves the failure to the stream.
    const auto error = source.failures->failure_at(source.place);
    if (error) detail::throw_seen(*error);
  }
}

Milliseconds CudaEvent::elapsed_since(detail::EventState& start, SourceLocation where) {
  constexpr const char* operation = "weir::elapsed";
  auto& since = static_cast<CudaEvent&>(start);
  const bool since_recorded = since.is_recorded();
  if (!since_recorded || !is_recorded()) {
    throw Error(Errc::invalid_handle, operation, since_recorded ? "the end event" : "the start event",
                "it was never recorded", where);
  }
  const bool since_done = since.done();
  if (!since_done || !done()) {
    throw Error(Errc::not_ready, operation, since_done ? "the end event" : "the start event",
                "its stream has not reached it yet: synchronise first", where);
  }
  float milliseconds = 0;
  const DeviceScope scope(device);
  check(cudaEventElapsedTime(&milliseconds, since.native.load(), native.load()), operation,
        CudaDevice::at(device).name(), where);
  return Milliseconds(milliseconds);
}

void CudaEvent::signal_after(std::unique_ptr<detail::Signal>& signal, SourceLocation where) {
  if (is_recorded()) {
    cuda::signal_after(*this, signal, where);
  } else {
    std::exchange(signal, nullptr)->give();
  }
}

cudaEvent_t CudaEvent::made(SourceLocation where) {
  cudaEvent_t event = native.load(std::memory_order_acquire);
  if (event != nullptr) [[likely]]
    return event;
  CudaDevice& owner = CudaDevice::at(device);
  owner.start(where);
  event = owner.stocks().take_event(timed, where);
  cudaEvent_t nothing = nullptr;
  if (native.compare_exchange_strong(nothing, event)) return event;
  owner.stocks().give_event(event, timed);
  return nothing;
}

cudaEvent_t CudaEvent::replaced(SourceLocation where) {
  CudaDevice& owner = CudaDevice::at(device);
  cudaEvent_t fresh = owner.take_spare(*this);
  if (fresh == nullptr) fresh = owner.stocks().take_event(timed, where);
  return owner.replace(*this, fresh);
}

PolledRecord::PolledRecord(CudaEvent& event)
    : event_(&event), native_(CudaDevice::at(event.device).begin_poll(event)) {}

PolledRecord::~PolledRecord() {
  if (event_ != nullptr) CudaDevice::at(event_->device).end_poll(*event_, native_);
}

CudaEvent& CudaDevice::open_event(bool timed) {
  {
    const detail::LockGuard guard(events_mutex_);
    std::vector<CudaEvent*>& free = free_events_[timed ? 1 : 0];
    if (!free.empty()) {
      CudaEvent& kept = *free.back();
      free.pop_back();
      return kept;
    }
  }
  auto event = std::make_unique<CudaEvent>();
  event->backend = &backend_;
  event->device = index_;
  event->timed = timed;
  return *event.release();
}

void CudaDevice::close_event(CudaEvent& event) noexcept {
  event.recorded.store(false, std::memory_order_relaxed);
  event.failures.store(nullptr, std::memory_order_relaxed);
  const detail::LockGuard guard(events_mutex_);
  event.closed = true;
  use_again_if_free(event);
}

cudaEvent_t CudaDevice::take_fork(SourceLocation where) {
  {
    const detail::LockGuard guard(events_mutex_);
    if (!forks_.empty()) {
      const cudaEvent_t fork = forks_.back();
      forks_.pop_back();
      return fork;
    }
    forks_.reserve(made_forks_ + 1);
    ++made_forks_;
  }
  return stocks_.take_event(false, where);
}

void CudaDevice::give_fork(cudaEvent_t fork) noexcept {
  const detail::LockGuard guard(events_mutex_);
  forks_.push_back(fork);
}

/// Closed, and nobody looks at its records any more.
void CudaDevice::use_again_if_free(CudaEvent& event) noexcept {
  if (!event.closed || event.graphs > 0 || event.polls.load(std::memory_order_relaxed) > 0 || !event.older.empty()) {
    return;
  }
  event.closed = false;
  event.recorded.store(false, std::memory_order_relaxed);
  try {
    free_events_[event.timed ? 1 : 0].push_back(&event);
  } catch (...) {
    // Without memory for the list the event is not used again.
  }
}

void CudaDevice::keep_for_graph(CudaEvent& event) {
  const detail::LockGuard guard(events_mutex_);
  ++event.graphs;
}

void CudaDevice::forget_graph_of(CudaEvent& event) noexcept {
  const detail::LockGuard guard(events_mutex_);
  --event.graphs;
  use_again_if_free(event);
}

bool CudaDevice::is_in_graphs(const CudaEvent& event) {
  const detail::LockGuard guard(events_mutex_);
  return event.graphs > 0;
}

cudaEvent_t CudaDevice::begin_poll(CudaEvent& event) {
  const detail::LockGuard guard(events_mutex_);
  event.polls.fetch_add(1, std::memory_order_release);
  return event.native.load(std::memory_order_acquire);
}

void CudaDevice::end_poll(CudaEvent& event, cudaEvent_t native) noexcept {
  const detail::LockGuard guard(events_mutex_);
  if (event.native.load(std::memory_order_relaxed) == native) {
    event.polls.fetch_sub(1, std::memory_order_release);
  } else {
    const auto older = std::find_if(event.older.begin(), event.older.end(),
                                    [&](const CudaEvent::Older& one) { return one.native == native; });
    if (--older->polls == 0) {
      event.spares.push_back(native);  // there is room, from replace()
      event.older.erase(older);
    }
  }
  use_again_if_free(event);
}

cudaEvent_t CudaDevice::take_spare(CudaEvent& event) {
  const detail::LockGuard guard(events_mutex_);
  if (event.spares.empty()) return nullptr;
  const cudaEvent_t spare = event.spares.back();
  event.spares.pop_back();
  return spare;
}

/// Unless nobody polls it any more.
cudaEvent_t CudaDevice::replace(CudaEvent& event, cudaEvent_t fresh) {
  const detail::LockGuard guard(events_mutex_);
  event.spares.reserve(event.spares.size() + event.older.size() + 2);
  event.older.reserve(event.older.size() + 1);
  const cudaEvent_t former = event.native.load(std::memory_order_relaxed);
  const int polls = event.polls.load(std::memory_order_relaxed);
  if (polls == 0) {
    event.spares.push_back(fresh);
    return former;
  }
  event.older.push_back({former, polls});
  event.native.store(fresh, std::memory_order_release);
  event.polls.store(0, std::memory_order_release);
  return fresh;
}

}  // namespace weir::cuda
