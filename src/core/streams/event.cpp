// Events.
#include <weir/event.hpp>

#include <utility>

#include "core/graphs/capture.hpp"
#include "core/ipc/exports.hpp"
#include "core/ipc/imported_event.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir {

using detail::any_state_of;
using detail::EventState;
using detail::state_of;

namespace {

EventRef open(Device device, bool timed, SourceLocation where) {
  detail::enter(timed ? "weir::TimedEvent" : "weir::Event", where);
  return detail::own_event(device.state()->backend->open_event(device.index(), timed));
}

void close(EventRef event) noexcept {
  if (event.state() == nullptr || detail::forked()) return;
  detail::ipc::forget_event(event.id());
  event.state()->id.store(0, std::memory_order_release);
  event.state()->close();
}

HostWait wait_for(const EventState& event, std::uint64_t id, SourceLocation where, HostWait::Source source) {
  HostWait wait{HostWait::Kind::event, event.device, 0, id, where, source, {}};
  if (detail::watched(Watch::host)) {
    wait.backend = event.backend->name();
    wait.record = event.records.load(std::memory_order_relaxed);
  }
  return wait;
}

Device device_of(const EventState& event) {
  if (detail::is_imported(event)) return detail::device_of_imported(event);
  for (detail::DeviceState* device : detail::Runtime::get().devices()) {
    if (device->backend == event.backend && device->index == event.device) return Device(device);
  }
  return default_device();
}

}  // namespace

EventRef detail::own_event(EventState& state) {
  static std::atomic<std::uint64_t> next_event{1};
  const std::uint64_t id = next_event.fetch_add(1, std::memory_order_relaxed);
  state.records.store(0, std::memory_order_relaxed);
  state.id.store(id, std::memory_order_release);
  return {&state, id};
}

Device EventRef::device(SourceLocation where) const {
  return device_of(any_state_of(*this, "weir::Event::device", where));
}

bool EventRef::done(SourceLocation where) const {
  EventState& state = state_of(*this, "weir::Event::done", where);
  detail::check_host_wait("weir::Event::done", "event", where);
  return detail::answer(wait_for(state, id_, where, HostWait::Source::query), [&] {
    return detail::is_imported(state) ? detail::imported_done(state, where) : state.done();
  });
}

void detail::synchronize(EventRef event, const char* operation, SourceLocation where) {
  EventState& state = state_of(event, operation, where);
  check_host_wait(operation, "event", where);
  wait_told([&] { return wait_for(state, event.id(), where, HostWait::Source::synchronize); },
            [&] { state.synchronize(operation, where); });
}
void EventRef::synchronize(SourceLocation where) const {
  detail::synchronize(*this, "weir::Event::synchronize", where);
}

Event::Event(SourceLocation where) : Event((detail::enter("weir::Event", where), default_device(where)), where) {}
Event::Event(Device device, SourceLocation where) : EventRef(open(device, false, where)) {}
Event::Event(Event&& other) noexcept : EventRef(std::exchange(static_cast<EventRef&>(other), EventRef{})) {}
Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    close(*this);
    static_cast<EventRef&>(*this) = std::exchange(static_cast<EventRef&>(other), EventRef{});
  }
  return *this;
}
Event::~Event() { close(*this); }

TimedEvent::TimedEvent(SourceLocation where)
    : TimedEvent((detail::enter("weir::TimedEvent", where), default_device(where)), where) {}
TimedEvent::TimedEvent(Device device, SourceLocation where) : EventRef(open(device, true, where)) {}
TimedEvent::TimedEvent(TimedEvent&& other) noexcept
    : EventRef(std::exchange(static_cast<EventRef&>(other), EventRef{})) {}
TimedEvent& TimedEvent::operator=(TimedEvent&& other) noexcept {
  if (this != &other) {
    close(*this);
    static_cast<EventRef&>(*this) = std::exchange(static_cast<EventRef&>(other), EventRef{});
  }
  return *this;
}
TimedEvent::~TimedEvent() { close(*this); }

Milliseconds elapsed(const TimedEvent& start, const TimedEvent& end, SourceLocation where) {
  EventState& a = state_of(start, "weir::elapsed", where);
  EventState& b = state_of(end, "weir::elapsed", where);
  if (a.backend != b.backend || a.device != b.device) {
    throw Error(Errc::wrong_device, "weir::elapsed", "events of " + device_of(a).name() + " and " + device_of(b).name(),
                "there is no time between events of two devices", where);
  }
  if (detail::DeviceClock* clock = a.backend->clock()) {
    return clock->elapsed(start.id(), end.id(), detail::thread_number(), where);
  }
  return b.elapsed_since(a, where);
}

void synchronize_event(EventRef event, SourceLocation where) {
  detail::synchronize(event, "weir::synchronize_event", where);
}

}  // namespace weir
