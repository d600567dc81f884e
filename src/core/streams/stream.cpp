// Streams: their calls, current streams, scopes.
#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/graphs/capture.hpp"
#include "core/ipc/imported_event.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "core/streams/bridge.hpp"

namespace weir {

using detail::any_state_of;
using detail::EventState;
using detail::Runtime;
using detail::state_of;
using detail::StreamState;

namespace {

bool hooked() { return detail::hooks.load(std::memory_order_relaxed) != 0; }

void submit_op(StreamRef stream, Op op, const char* operation, SourceLocation where) {
  Command command;
  command.where = where;
  command.op = op;
  detail::submit(stream, command, operation);
}

}  // namespace

Device StreamRef::device(SourceLocation where) const {
  return Device(state_of(*this, "weir::Stream::device", where).device);
}
int StreamRef::priority(SourceLocation where) const {
  return state_of(*this, "weir::Stream::priority", where).priority;
}
bool StreamRef::blocking(SourceLocation where) const {
  const StreamState& state = state_of(*this, "weir::Stream::blocking", where);
  return state.blocking && !state.legacy;
}
std::string StreamRef::name(SourceLocation where) const { return state_of(*this, "weir::Stream::name", where).name; }

void StreamRef::record(EventRef event, SourceLocation where) const {
  const StreamState& stream = state_of(*this, "weir::Stream::record", where);
  EventState& state = any_state_of(event, "weir::Stream::record", where);
  if (state.backend != stream.device->backend || state.device != stream.device->index) {
    if (detail::is_imported(state)) detail::refuse_imported_record(stream, where);
    throw Error(Errc::wrong_device, "weir::Stream::record", describe(stream),
                "the event is of " + event.device(where).name() + ": a stream records events of its own device only",
                where);
  }
  if (state.id.load(std::memory_order_relaxed) != event.id()) [[unlikely]]
    detail::forget_captured_record(event);
  if (hooked()) {
    submit_op(*this, Record{&state, event.id()}, "weir::Stream::record", where);
  } else {
    stream.queue->record(state, where);
    detail::count_record(state);
  }
}

Event StreamRef::record(SourceLocation where) const {
  detail::enter("weir::Stream::record", where);
  Event event(device(where), where);
  record(event, where);
  return event;
}

TimedEvent StreamRef::record_timed(SourceLocation where) const {
  detail::enter("weir::Stream::record_timed", where);
  TimedEvent event(device(where), where);
  record(event, where);
  return event;
}

void StreamRef::wait(EventRef event, SourceLocation where) const {
  const StreamState& stream = state_of(*this, "weir::Stream::wait", where);
  EventState& state = any_state_of(event, "weir::Stream::wait", where);
  if (state.backend != stream.device->backend) {
    detail::wait_across(*this, event, where);
    return;
  }
  if (state.id.load(std::memory_order_relaxed) != event.id()) [[unlikely]] {
    detail::wait_captured(*this, event, where);
    return;
  }
  if (hooked()) {
    submit_op(*this, Wait{&state, event.id()}, "weir::Stream::wait", where);
  } else {
    stream.queue->wait(state, where);
  }
}

void StreamRef::wait(StreamRef other, SourceLocation where) const {
  state_of(*this, "weir::Stream::wait", where);
  const StreamState& state = state_of(other, "weir::Stream::wait", where);
  if (other == *this && !state.legacy) return;  // in the legacy stream even this is a command, and orders others
  auto& marks = detail::thread_data().marks;
  const std::size_t position = detail::position_of(*state.device);
  if (marks.size() <= position) marks.resize(position + 1);
  if (!marks[position]) marks[position] = std::make_unique<Event>(Device(state.device), where);
  other.record(*marks[position], where);
  wait(*marks[position], where);
}

void StreamRef::wait(std::initializer_list<EventRef> events, SourceLocation where) const {
  for (const EventRef event : events) static_cast<void>(any_state_of(event, "weir::Stream::wait", where));
  for (const EventRef event : events) wait(event, where);
}

void StreamRef::wait(std::initializer_list<StreamRef> others, SourceLocation where) const {
  for (const StreamRef other : others) static_cast<void>(state_of(other, "weir::Stream::wait", where));
  for (const StreamRef other : others) wait(other, where);
}

void detail::synchronize(StreamRef stream, const char* operation, SourceLocation where) {
  StreamState& state = state_of(stream, operation, where);
  check_stream_wait(state, operation, where);
  wait_told([&] { return stream_wait(state, stream.id(), where); },
            [&] { state.queue->synchronize(operation, where); });
}
void StreamRef::synchronize(SourceLocation where) const {
  detail::synchronize(*this, "weir::Stream::synchronize", where);
}

bool StreamRef::done(SourceLocation where) const {
  StreamState& stream = state_of(*this, "weir::Stream::done", where);
  detail::check_stream_wait(stream, "weir::Stream::done", where);
  return detail::answer(detail::stream_wait(stream, id_, where, HostWait::Source::query),
                        [&] { return stream.queue->done(); });
}
void* StreamRef::native(SourceLocation where) const {
  StreamState& state = state_of(*this, "weir::Stream::native", where);
  Runtime::get().share_stream(state, id_, where);
  return state.real->native();
}

Stream::Stream(SourceLocation where)
    : Stream((detail::enter("weir::Stream", where), default_device(where)), {}, where) {}
Stream::Stream(Device device, const StreamOptions& options, SourceLocation where) {
  detail::enter("weir::Stream", where);
  static_cast<StreamRef&>(*this) = Runtime::get().open_stream(*device.state(), options, false, {}, where);
}
Stream::Stream(const StreamOptions& options, SourceLocation where)
    : Stream((detail::enter("weir::Stream", where), default_device(where)), options, where) {}
Stream::Stream(Stream&& other) noexcept : StreamRef(std::exchange(static_cast<StreamRef&>(other), StreamRef{})) {}
Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    Runtime::get().close_stream(*this);
    static_cast<StreamRef&>(*this) = std::exchange(static_cast<StreamRef&>(other), StreamRef{});
  }
  return *this;
}
Stream::~Stream() {
  if (state_ != nullptr) Runtime::get().close_stream(*this);
}

StreamRef legacy_stream(Device device, SourceLocation where) {
  detail::enter("weir::legacy_stream", where);
  return device.state()->legacy;
}

StreamRef per_thread_stream(Device device, SourceLocation where) {
  detail::enter("weir::per_thread_stream", where);
  auto& streams = detail::thread_data().per_thread;
  const std::size_t position = detail::position_of(*device.state());
  if (streams.size() <= position) streams.resize(position + 1);
  if (!streams[position])
    streams[position] = std::make_unique<Stream>(device, StreamOptions{.name = "per-thread default"}, where);
  return *streams[position];
}

Stream wrap_stream(Device device, void* native_handle, SourceLocation where) {
  detail::enter("weir::wrap_stream", where);
  return Stream(Runtime::get().open_stream(*device.state(), {.priority = 0, .blocking = true, .name = "wrapped"}, false,
                                           native_handle, where));
}

StreamRef get_stream(Device device, SourceLocation where) {
  detail::enter("weir::get_stream", where);
  const auto& current = detail::thread_data().current;
  const std::size_t position = detail::position_of(*device.state());
  return position < current.size() && current[position].id() != 0 ? current[position] : device.state()->own;
}
StreamRef get_stream(SourceLocation where) { return get_stream(default_device(where), where); }

void set_stream(StreamRef stream, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::set_stream", where);
  auto& current = detail::thread_data().current;
  const std::size_t position = detail::position_of(*state.device);
  if (current.size() <= position) current.resize(position + 1);
  current[position] = stream;
}
void set_stream(StreamRef stream, Device device, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::set_stream", where);
  if (state.device != device.state()) {
    throw Error(Errc::wrong_device, "weir::set_stream", describe(state), "it is no stream of " + device.name(), where);
  }
  set_stream(stream, where);
}

ScopedStream::ScopedStream(StreamRef stream, SourceLocation where)
    : previous_device_((detail::enter("weir::ScopedStream", where), default_device(where))),
      previous_stream_(
          detail::in_name_of("weir::ScopedStream", [&] { return get_stream(stream.device(where), where); })) {
  detail::in_name_of("weir::ScopedStream", [&] {
    stream.wait(previous_stream_, where);
    set_stream(stream, where);
    set_default_device(stream.device(where), where);
  });
}

ScopedStream::~ScopedStream() {
  detail::ThreadData& thread = detail::thread_data();
  thread.default_device = previous_device_.state();
  const detail::StreamState* state = previous_stream_.state();
  thread.current[detail::position_of(*state->device)] = previous_stream_;
}

AutoSynchronize::AutoSynchronize(StreamRef stream, SourceLocation where) : stream_(stream), where_(where) {
  state_of(stream, "weir::AutoSynchronize", where);
}
AutoSynchronize::~AutoSynchronize() {
  try {
    StreamState& stream = state_of(stream_, "weir::AutoSynchronize", where_);
    detail::check_stream_wait(stream, "weir::AutoSynchronize", where_);
    detail::wait_told(detail::stream_wait(stream, stream_.id(), where_), [&] { stream.queue->drain(); });
  } catch (const Error&) {
    // The stream is gone, or captures: there is nothing to wait for.
  }
}

ScopedTimer::ScopedTimer(StreamRef stream, std::string name, Sink sink, SourceLocation where)
    : stream_((detail::enter("weir::ScopedTimer", where), stream)),
      name_(std::move(name)),
      sink_(std::move(sink)),
      start_(detail::in_name_of("weir::ScopedTimer", [&] { return stream.device(where); }), where),
      end_(stream.device(where), where) {
  detail::in_name_of("weir::ScopedTimer", [&] { stream.record(start_, where); });
}

Milliseconds ScopedTimer::stop(SourceLocation where) {
  if (running_) {
    running_ = false;
    detail::in_name_of("weir::ScopedTimer::stop", [&] { stream_.record(end_, where); });
    detail::synchronize(end_, "weir::ScopedTimer::stop", where);
  }
  return elapsed(start_, end_, where);
}

ScopedTimer::~ScopedTimer() {
  if (!running_) return;
  try {
    Milliseconds time{};
    try {
      time = stop();
    } catch (const Error&) {
      time = elapsed(start_, end_);  // a stream that failed takes the time all the same
    }
    if (sink_) {
      sink_(name_, time);
    } else {
      std::printf("%s%s%.3f ms\n", name_.c_str(), name_.empty() ? "" : ": ", static_cast<double>(time.count()));
    }
  } catch (...) {
    // The stream is gone, or captures: without a time there is nothing to say.
  }
}

void synchronize_stream(StreamRef stream, SourceLocation where) {
  detail::synchronize(stream, "weir::synchronize_stream", where);
}
void record_event(EventRef event, SourceLocation where) {
  const StreamRef current = get_stream(where);
  detail::in_name_of("weir::record_event", [&] { current.record(event, where); });
}
Event record_event(SourceLocation where) {
  const StreamRef current = get_stream(where);
  return detail::in_name_of("weir::record_event", [&] { return current.record(where); });
}
void wait_event(EventRef event, SourceLocation where) {
  const StreamRef current = get_stream(where);
  detail::in_name_of("weir::wait_event", [&] { current.wait(event, where); });
}
void wait_stream(StreamRef stream, SourceLocation where) {
  const StreamRef current = get_stream(where);
  detail::in_name_of("weir::wait_stream", [&] { current.wait(stream, where); });
}

}  // namespace weir
