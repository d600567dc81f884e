// Events: taken, polled, and used again once nobody looks at their records.
#include "backends/cuda/streams/cuda_event.hpp"

#include <algorithm>
#include <memory>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
detail::Mutex& failure_places_lock() {
  static auto& lock = *new detail::Mutex;
  return lock;
}
}  // namespace

CudaEvent::FailurePlace CudaEvent::failure_place() const {
  if (queue.load(std::memory_order_acquire) == nullptr) return {};
  const detail::LockGuard guard(failure_places_lock());
  return {queue.load(std::memory_order_relaxed), place.load(std::memory_order_relaxed)};
}

void CudaEvent::set_failure_place(const FailurePlace& now) {
  const detail::LockGuard guard(failure_places_lock());
  place.store(now.place, std::memory_order_relaxed);
  queue.store(now.queue, std::memory_order_release);
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
  event.queue.store(nullptr, std::memory_order_relaxed);
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
