// Events on the CPU.
#include "backends/cpu/cpu_event.hpp"

#include <utility>

namespace weir::cpu {

void CpuEvent::record(CpuQueue& queue, const Origin& command) {
  Mark next;
  next.queue = &queue;
  if (timed) {
    next.stamp = new Stamp;
    queue.append_stamp(next.stamp, command);
    next.sequence = queue.tail();
  } else if (command.id == 0) {
    next.sequence = queue.mark();
  } else {
    queue.append_empty(command);  // observers want to see it run
    next.sequence = queue.tail();
  }
  Stamp* old;
  {
    SpinGuard guard(lock_);
    old = std::exchange(mark_, next).stamp;
  }
  release_stamp(old);
}

void CpuQueue::record(detail::EventState& event, SourceLocation where) {
  static_cast<CpuEvent&>(event).record(*this, where);
}

void CpuQueue::wait(detail::EventState& event, SourceLocation where) {
  static_cast<CpuEvent&>(event).hold(*this, where);
}

CpuEvent::Mark CpuEvent::mark() {
  SpinGuard guard(lock_);
  return mark_;
}

void CpuEvent::hold(CpuQueue& waiting, const Origin& command) {
  const Mark last = mark();
  if (last.queue != nullptr) {
    waiting.append_wait(*last.queue, last.sequence, command);
  } else if (command.id != 0) {
    waiting.append_empty(command);
  }
}

bool CpuEvent::done() {
  const Mark last = mark();
  return last.queue == nullptr || last.queue->reached(last.sequence);
}

void CpuEvent::synchronize(const char*, SourceLocation) {
  const Mark last = mark();
  if (last.queue == nullptr) return;
  last.queue->wait_until(last.sequence);
  last.queue->throw_failure(last.sequence, false);
}

void CpuEvent::close() {
  Stamp* old;
  {
    SpinGuard guard(lock_);
    old = std::exchange(mark_, Mark{}).stamp;
  }
  release_stamp(old);
}

}  // namespace weir::cpu
