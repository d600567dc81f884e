// The hot path: from a call to its stream's queue.
#include <variant>

#include <weir/host_call.hpp>

#include "core/graphs/capture.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "core/seats.hpp"
#include "function_clock.hpp"

namespace weir::detail {

namespace {

[[gnu::noinline]] void submit_hooked(StreamState& stream, Command& command, const char* operation) {
  // What is recorded does not run now: nobody is told, nobody waits.
  const bool recorded = stream.recorder.load(std::memory_order_relaxed) != nullptr;
  const std::uint32_t now = recorded ? 0 : hooks.load(std::memory_order_relaxed);
  const StreamId id = stream.id.load(std::memory_order_relaxed);
  if (now & captures_watched)
    note_elsewhere(stream, operation, command.where);  // before anything changes: it may throw
  command.stream = id;
  const bool waits = !recorded && returns_when_over(command.op);
  const auto began = waits ? wait_begins() : std::chrono::steady_clock::time_point();
  if (now & (static_cast<std::uint32_t>(commands_watched) | policies)) {
    submit_observed(stream, command);
  } else {
    if (recorded && asked()) {
      ask_about_captured(StreamRef(&stream, id), command);
      command.id = 0;
    }
    stream.queue->submit(command);
    if (const auto* record = std::get_if<Record>(&command.op); record != nullptr && !recorded) {
      count_record(*record->event);
    }
  }
  if (recorded) return;
  if (waits) {
    HostWait wait = stream_wait(stream, id, command.where, HostWait::Source::pageable_copy);
    wait.kind = HostWait::Kind::command;
    wait.command = command.id;
    wait.began = began;
    tell_wait(wait);
  }
  // As CUDA_LAUNCH_BLOCKING does: launches block, other commands do not (R184).
  const bool launch = std::holds_alternative<Launch>(command.op) || std::holds_alternative<GraphLaunch>(command.op);
  if ((now & launch_blocking) && launch) {
    wait_told(stream_wait(stream, id, command.where, HostWait::Source::launch_blocking),
              [&] { stream.queue->synchronize(operation, command.where); });
  }
}

}  // namespace

void submit(StreamRef stream, Command& command, const char* operation) {
  StreamState* state = stream.state();
  if (thread_state != ThreadState::free) [[unlikely]]
    enter_slowly(operation, command.where);
  if (state == nullptr || state->id.load(std::memory_order_relaxed) != stream.id()) [[unlikely]] {
    refuse_stream(operation, command.where);
  }
  if (hooks.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    submit_hooked(*state, command, operation);
    return;
  }
  state->queue->submit(command);
}

namespace {
/// The way into a queue for a closure of this size.
template <ClosureCopy kind>
[[gnu::always_inline]] inline void enter_queue(Queue& queue, StreamId stream, const Kernel& kernel, const void* closure,
                                               std::size_t size, const LaunchSite& site) {
  if constexpr (kind == ClosureCopy::none) {
    queue.launch_empty(stream, kernel, closure, size, site);
  } else if constexpr (kind == ClosureCopy::bytes_32) {
    queue.launch_32(stream, kernel, closure, size, site);
  } else if constexpr (kind == ClosureCopy::bytes_64) {
    queue.launch_64(stream, kernel, closure, size, site);
  } else {
    queue.launch(stream, kernel, closure, size, site);
  }
}

/// A launch that is told enters its queue by the shortest way, too: as if nobody were told, unless its times are asked for. False
/// where more is to be thought of. Who watches times alone is told what ran, not of the command.
template <ClosureCopy kind>
bool submit_plain_launch_told(StreamRef stream, const Kernel& kernel, const void* closure, std::size_t size,
                              const LaunchSite& site) {
  constexpr auto told = static_cast<std::uint32_t>(commands_watched);
  constexpr auto slower = policies | launch_blocking | captures_watched;
  const std::uint32_t now = hooks.load(std::memory_order_relaxed);
  StreamState* const state = stream.state();
  Seat* const seat = Seat::present();
  if ((now & told) == 0 || (now & slower) != 0 || thread_state != ThreadState::free || seat == nullptr ||
      state == nullptr || state->id.load(std::memory_order_relaxed) != stream.id() ||
      state->recorder.load(std::memory_order_relaxed) != nullptr) {
    return false;
  }
  const bool times_alone = (now & static_cast<std::uint32_t>(told_of_commands)) == 0;
  if (!times_alone && default_order_is_new(*state)) return false;
  Command& command = seat->plain_launch;
  command.id = seat->new_id();
  command.stream = stream.id();
  command.where = site.where;
  command.asked_at = {};
  command.uses = std::span<const Region>(site.uses, kernel.regions);
  auto& launch = *std::get_if<Launch>(&command.op);
  launch.kernel = &kernel;
  launch.closure = closure;
  launch.extent = Shape(size);
  const bool timed = (now & static_cast<std::uint32_t>(Watch::times)) != 0;
  if (times_alone) {
    state->queue->submit(command);
    return true;
  }
  const LockGuard guard(state->entering);
  tell_entering(command);
  state->entering.told();
  try {
    if (timed) {
      state->queue->submit(command);
    } else {
      enter_queue<kind>(*state->queue, stream.id(), kernel, closure, size, site);
    }
  } catch (const Error& error) {
    observe_refused(command, error);
    throw;
  }
  return true;
}

/// Of its own, so that the hot path needs no stack frame.
template <ClosureCopy kind>
[[gnu::noinline]] void submit_plain_launch_slowly(StreamRef stream, const Kernel& kernel, const void* closure,
                                                  std::size_t size, const LaunchSite& site) {
  if (submit_plain_launch_told<kind>(stream, kernel, closure, size, site)) return;
  Command command{0, 0, site.where, std::span<const Region>(site.uses, kernel.regions),
                  Launch{&kernel, closure, Shape(size), 0, 0, 0, nullptr}};
  submit(stream, command, "weir::launch");
}
}  // namespace

template <ClosureCopy kind>
void submit_plain_launch(StreamRef stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const LaunchSite& site) {
  StreamState* state = stream.state();
  if (thread_state != ThreadState::free || state == nullptr ||
      state->id.load(std::memory_order_relaxed) != stream.id() || hooks.load(std::memory_order_relaxed) != 0)
      [[unlikely]] {
    submit_plain_launch_slowly<kind>(stream, kernel, closure, size, site);
    return;
  }
  enter_queue<kind>(*state->queue, stream.id(), kernel, closure, size, site);
}
template void submit_plain_launch<ClosureCopy::none>(StreamRef, const Kernel&, const void*, std::size_t,
                                                     const LaunchSite&);
template void submit_plain_launch<ClosureCopy::bytes_32>(StreamRef, const Kernel&, const void*, std::size_t,
                                                         const LaunchSite&);
template void submit_plain_launch<ClosureCopy::bytes_64>(StreamRef, const Kernel&, const void*, std::size_t,
                                                         const LaunchSite&);
template void submit_plain_launch<ClosureCopy::other>(StreamRef, const Kernel&, const void*, std::size_t,
                                                      const LaunchSite&);

void refuse_no_function(const char* operation, const char* object, SourceLocation where) {
  throw Error(Errc::invalid_value, operation, object, "it is null or empty", where);
}

void submit_host_function(StreamRef stream, HostFunction* given, std::span<const Region> uses, bool external,
                          SourceLocation where) {
  std::unique_ptr<HostFunction> function(given);
  Command command;
  command.where = where;
  command.uses = uses;
  if (external) {
    command.op = External{function.get()};
  } else {
    command.op = HostCall{function.get()};
  }
  try {
    submit(stream, command, external ? "weir::external" : "weir::host_call");
  } catch (...) {
    const FunctionBody never_called(*function);
    throw;
  }
  static_cast<void>(function.release());  // the queue's now
}

}  // namespace weir::detail
