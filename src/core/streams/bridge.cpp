// Waits across backends: the waiting queue makes a signal, and the event's backend gives it.
#include "core/streams/bridge.hpp"

#include <memory>

#include "core/graphs/capture.hpp"
#include "core/ipc/imported_event.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

void hold(Queue& queue, EventState& event, const Command& command) {
  std::unique_ptr<Signal> signal = queue.wait_for_signal(command);
  if (!signal) return;
  try {
    event.signal_after(signal, command.where);
  } catch (...) {
    signal->give();  // the caller hears that this is no wait: the stream must not wait for ever
    throw;
  }
}

}  // namespace

void follow_across(Queue& waiting, Queue& other, StreamId owner, const DeviceState& device, SourceLocation where) {
  if (other.is_over(owner)) return;
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = "waits of other backends for " + device.name;
  Queue& end = device.backend->open_queue(device.index, options);
  EventState* mark = nullptr;
  const auto close = [&] {
    if (mark != nullptr) mark->close();
    end.retire();
  };
  try {
    mark = &device.backend->open_event(device.index, false);
    end.follow(other, owner);
    end.record(*mark, where);
    Command command;
    command.where = where;
    command.op = Wait{mark, 0};
    hold(waiting, *mark, command);
  } catch (...) {
    close();
    throw;
  }
  close();
}

void wait_across(StreamRef stream, EventRef event, SourceLocation where) {
  StreamState& state = *stream.state();
  EventState& target = *event.state();
  if (is_imported(target)) {
    wait_imported(stream, event, where);
    return;
  }
  if (target.id.load(std::memory_order_acquire) != event.id()) {
    refuse_captured_event(event, "weir::Stream::wait", where);  // a capture takes streams of one backend
  }
  Queue& queue = *state.queue;
  Command command;
  command.stream = stream.id();
  command.where = where;
  command.op = Wait{&target, event.id()};
  const bool runs_now = &queue == state.real;
  if (runs_now && (watched(commands_watched) || asked())) {
    const auto enter = [&] { hold(queue, target, command); };
    submit_observed(
        state, command, [](const void* f) { (*static_cast<decltype(&enter)>(f))(); }, &enter);
    return;
  }
  // For a command of the legacy stream others wait, even for one that has nothing to wait for itself.
  if (runs_now && !state.legacy && target.passed()) return;
  hold(queue, target, command);
}

}  // namespace weir::detail
