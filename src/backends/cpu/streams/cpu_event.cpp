// Events on the CPU.
#include "backends/cpu/streams/cpu_event.hpp"

#include <memory>

#include "backends/cpu/cpu_device.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

void CpuEvent::record(CpuQueue& queue, const Origin& command) {
  Mark next;
  next.queue = &queue;
  if (timed) {
    auto stamp = std::make_unique<Stamp>();
    next.sequence = queue.append_stamp(stamp.get(), command);
    next.stamp = stamp.release();  // once nothing can fail: the record owns it, too
  } else if (command.id == 0) {
    next.sequence = queue.mark();
  } else {
    next.sequence = queue.append_empty(command);  // observers want to see it run
  }
  release_stamp(replace(next));
}

std::uint32_t CpuEvent::lock() {
  std::uint32_t version = version_.load(std::memory_order_relaxed);
  for (int tries = 0;; ++tries) {
    if ((version & 1) == 0 && version_.compare_exchange_weak(version, version + 1, std::memory_order_acq_rel))
      return version;
    if (tries < 100) {
      pause();
    } else {
      back_off(tries);
    }
    version = version_.load(std::memory_order_relaxed);
  }
}

Stamp* CpuEvent::replace(const Mark& next) {
  const std::uint32_t version = lock();
  Stamp* old = stamp_.load(std::memory_order_relaxed);
  // With release: who reads one of these and then the version finds it changed.
  queue_.store(next.queue, std::memory_order_release);
  sequence_.store(next.sequence, std::memory_order_release);
  stamp_.store(next.stamp, std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  return old;
}

CpuEvent::Kept CpuEvent::keep() {
  const std::uint32_t version = lock();
  const Mark last{queue_.load(std::memory_order_relaxed), sequence_.load(std::memory_order_relaxed),
                  stamp_.load(std::memory_order_relaxed)};
  if (last.stamp != nullptr) last.stamp->owners.fetch_add(1, std::memory_order_relaxed);
  version_.store(version, std::memory_order_release);
  return Kept(last);
}

void CpuEvent::record_elsewhere(CpuQueue& timeline, std::uint64_t sequence, Stamp* stamp) {
  if (stamp != nullptr) stamp->owners.fetch_add(1, std::memory_order_relaxed);
  release_stamp(replace(Mark{&timeline, sequence, stamp}));
}

void CpuQueue::record(detail::EventState& event, SourceLocation where) {
  static_cast<CpuEvent&>(event).record(*this, where);
}

void CpuQueue::wait(detail::EventState& event, SourceLocation where) {
  static_cast<CpuEvent&>(event).hold(*this, where);
}

CpuEvent::Mark CpuEvent::mark() const {
  for (int tries = 0;; ++tries) {
    const std::uint32_t before = version_.load(std::memory_order_acquire);
    const Mark seen{queue_.load(std::memory_order_acquire), sequence_.load(std::memory_order_acquire),
                    stamp_.load(std::memory_order_acquire)};
    if ((before & 1) == 0 && version_.load(std::memory_order_relaxed) == before) [[likely]]
      return seen;
    if (tries < 100) {
      pause();
    } else {
      back_off(tries);
    }
  }
}

void CpuEvent::hold(CpuQueue& waiting, const Origin& command) {
  const Mark last = mark();
  if (last.queue != nullptr) {
    waiting.append_wait(*last.queue, last.sequence, command);
  } else {
    waiting.append_idle_wait(command);
  }
}

bool CpuEvent::done() {
  const Mark last = mark();
  return last.queue == nullptr || last.queue->poll(last.sequence);
}

bool CpuEvent::passed() {
  const Mark last = mark();
  return last.queue == nullptr || last.queue->passed(last.sequence);
}

void CpuEvent::signal_after(std::unique_ptr<detail::Signal>& signal, SourceLocation) {
  const Mark last = mark();
  if (last.queue != nullptr) {
    last.queue->signal_behind(last.sequence, signal);
  } else {
    signal->give();
    signal.reset();
  }
}

void CpuEvent::synchronize(const char*, SourceLocation) {
  const Mark last = mark();
  if (last.queue != nullptr) {
    last.queue->wait_until(last.sequence);
    last.queue->throw_failure(last.sequence, false);
  }
  owner_.after_synchronize();
}

Milliseconds CpuEvent::elapsed_since(detail::EventState& start, SourceLocation where) {
  const Kept a = static_cast<CpuEvent&>(start).keep();
  const Kept b = keep();
  if (a->stamp == nullptr || b->stamp == nullptr) {
    throw Error(Errc::invalid_handle, "weir::elapsed", a->stamp == nullptr ? "the start event" : "the end event",
                "it was never recorded", where);
  }
  const bool a_done = a->queue->reached(a->sequence);
  if (!a_done || !b->queue->reached(b->sequence)) {
    throw Error(Errc::not_ready, "weir::elapsed", a_done ? "the end event" : "the start event",
                "its stream has not reached it yet: synchronise first", where);
  }
  const auto ticks =
      b->stamp->nanoseconds.load(std::memory_order_acquire) - a->stamp->nanoseconds.load(std::memory_order_acquire);
  return Milliseconds(static_cast<float>(static_cast<double>(ticks) * 1e-6));
}

void CpuEvent::close() noexcept {
  release_stamp(replace(Mark{}));
  owner_.use_again(*this);
}

CpuEvent& CpuDevice::open_event(bool timed) {
  const detail::LockGuard guard(events_mutex_);
  if (free_events_.empty()) {
    // Room for all of them: an event is given back without fail.
    if (free_events_.capacity() <= made_events_) free_events_.reserve(2 * made_events_ + 16);
    free_events_.push_back(new CpuEvent(*this));
    ++made_events_;
  }
  CpuEvent& event = *free_events_.back();
  free_events_.pop_back();
  event.backend = &backend_;
  event.device = index_;
  event.timed = timed;
  return event;
}

void CpuDevice::use_again(CpuEvent& event) noexcept {
  const detail::LockGuard guard(events_mutex_);
  free_events_.push_back(&event);
}

}  // namespace weir::cpu
