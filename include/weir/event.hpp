// Events: marks in streams that other streams, other devices and the host can wait for.
#pragma once

#include <cstdint>
#include <type_traits>

#include <weir/detail/durations.hpp>
#include <weir/device.hpp>
#include <weir/source_location.hpp>

namespace weir {

namespace detail {
struct EventState;
}

using Milliseconds = std::chrono::duration<float, std::milli>;

/// A non-owning handle of an event. Thread rule: any thread.
/// Every call throws Error(invalid_handle) for an event that was moved from or destroyed.
class EventRef {
 public:
  EventRef() = default;

  /// The device that it was made for.
  Device device(SourceLocation where = SourceLocation::current()) const;
  /// Whether the work of the last record is finished; true if never recorded (R68). Never blocks.
  bool done(SourceLocation where = SourceLocation::current()) const;
  /// Waits for the work before the last record (R9), not for later work of that stream. Throws that work's failure,
  /// which stays with the stream until the stream or its device is synchronised.
  void synchronize(SourceLocation where = SourceLocation::current()) const;

  /// Do not compile, and say what to write.
  template <class S>
  void record(const S&) const {
    static_assert(!std::is_same_v<S, S>, "streams record events: stream.record(event)");
  }
  template <class S>
  void wait(const S&) const {
    static_assert(!std::is_same_v<S, S>,
                  "streams wait for events: stream.wait(event); the host waits by event.synchronize()");
  }

  /// For the library.
  EventRef(detail::EventState* state, std::uint64_t id) : state_(state), id_(id) {}
  detail::EventState* state() const { return state_; }
  std::uint64_t id() const { return id_; }

 protected:
  detail::EventState* state_ = nullptr;
  std::uint64_t id_ = 0;
};

/// Owns an event without time. Destroying it at any moment is safe: streams that wait for it go on waiting (R78).
class Event : public EventRef {
 public:
  /// On the default device, or on `device`.
  Event(SourceLocation where = SourceLocation::current());
  explicit Event(Device device, SourceLocation where = SourceLocation::current());
  Event(const Event&) = delete;  // an event has one owner: std::move(event), or weir::EventRef ref = event
  Event(Event&& other) noexcept;
  Event& operator=(const Event&) = delete;  // an event has one owner: std::move(event), or weir::EventRef ref = event
  Event& operator=(Event&& other) noexcept;
  ~Event();

  /// For the library: the owner of an event that has none.
  Event(detail::EventState* state, std::uint64_t id) : EventRef(state, id) {}
};

/// Owns an event that takes the device's time when it is reached.
class TimedEvent : public EventRef {
 public:
  TimedEvent(SourceLocation where = SourceLocation::current());
  explicit TimedEvent(Device device, SourceLocation where = SourceLocation::current());
  TimedEvent(const TimedEvent&) = delete;  // an event has one owner: std::move(event), or weir::EventRef ref = event
  TimedEvent(const Event&) = delete;  // a weir::Event takes no time: weir::TimedEvent event = stream.record_timed()
  TimedEvent(TimedEvent&& other) noexcept;
  TimedEvent& operator=(TimedEvent&& other) noexcept;
  ~TimedEvent();
};

/// Device time from the last record of `start` to the last record of `end`; negative if they were reached the other way
/// round, 0 for one event twice (R77). Does not wait. Throws not_ready while either is not reached (R75), invalid_handle
/// if either was never recorded (R74), wrong_device for events of two devices (R195).
Milliseconds elapsed(const TimedEvent& start, const TimedEvent& end, SourceLocation where = SourceLocation::current());

template <class Start, class End>
  requires(std::is_base_of_v<EventRef, Start>&& std::is_base_of_v<EventRef, End> &&
           !(std::is_same_v<Start, TimedEvent> && std::is_same_v<End, TimedEvent>))
Milliseconds elapsed(const Start&, const End&) {
  static_assert(std::is_same_v<Start, TimedEvent> && std::is_same_v<End, TimedEvent>,
                "weir::elapsed needs two weir::TimedEvents: a plain weir::Event takes no time");
  return {};
}

/// The same as the member functions, named as in Warp (W13).
void synchronize_event(EventRef event, SourceLocation where = SourceLocation::current());

}  // namespace weir
