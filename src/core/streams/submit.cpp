// The hot path: from a call to its stream's queue.
#include <variant>

#include <weir/host_call.hpp>

#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

[[gnu::noinline]] void submit_hooked(StreamState& stream, Command& command, const char* operation) {
  // What is recorded does not run now: nobody is told, nobody waits.
  const bool recorded = stream.recorder.load(std::memory_order_relaxed) != nullptr;
  const std::uint32_t now = recorded ? 0 : hooks.load(std::memory_order_relaxed);
  command.stream = stream.id.load(std::memory_order_relaxed);
  if (now & observed) {
    submit_observed(*stream.queue, command);
  } else {
    stream.queue->submit(command);
  }
  // As CUDA_LAUNCH_BLOCKING does: launches block, other commands do not (R184).
  const bool launch = std::holds_alternative<Launch>(command.op) || std::holds_alternative<GraphLaunch>(command.op);
  if ((now & launch_blocking) && launch) {
    stream.queue->synchronize(operation, command.where);
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
[[gnu::noinline]] void submit_plain_launch_hooked(StreamRef stream, const Kernel& kernel, const void* closure,
                                                  std::size_t size, const LaunchSite& site) {
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
    submit_plain_launch_hooked(stream, kernel, closure, size, site);
    return;
  }
  if constexpr (kind == ClosureCopy::none) {
    state->queue->launch_empty(stream.id(), kernel, closure, size, site);
  } else if constexpr (kind == ClosureCopy::bytes_32) {
    state->queue->launch_32(stream.id(), kernel, closure, size, site);
  } else if constexpr (kind == ClosureCopy::bytes_64) {
    state->queue->launch_64(stream.id(), kernel, closure, size, site);
  } else {
    state->queue->launch(stream.id(), kernel, closure, size, site);
  }
}
template void submit_plain_launch<ClosureCopy::none>(StreamRef, const Kernel&, const void*, std::size_t,
                                                     const LaunchSite&);
template void submit_plain_launch<ClosureCopy::bytes_32>(StreamRef, const Kernel&, const void*, std::size_t,
                                                         const LaunchSite&);
template void submit_plain_launch<ClosureCopy::bytes_64>(StreamRef, const Kernel&, const void*, std::size_t,
                                                         const LaunchSite&);
template void submit_plain_launch<ClosureCopy::other>(StreamRef, const Kernel&, const void*, std::size_t,
                                                      const LaunchSite&);

void refuse_no_function(bool external, SourceLocation where) {
  throw Error(Errc::invalid_value, external ? "weir::external" : "weir::host_call", "function", "it is null or empty",
              where);
}

void submit_host_function(StreamRef stream, std::unique_ptr<HostFunction> function, std::span<const Region> uses,
                          bool external, SourceLocation where) {
  Command command;
  command.where = where;
  command.uses = uses;
  if (external) {
    command.op = External{function.get()};
  } else {
    command.op = HostCall{function.get()};
  }
  submit(stream, command, external ? "weir::external" : "weir::host_call");
  static_cast<void>(function.release());  // the queue's now
}

}  // namespace weir::detail
