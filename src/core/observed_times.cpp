// What observers are told of work that is over: when commands and nodes ran, and which failed.
#include "core/observers.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

bool failures_are_watched() noexcept { return watched(Watch::refusals); }

void report_failed(StreamId stream, StreamId from, const Error& failure) noexcept {
  if (!failures_are_watched()) return;
  tell(Watch::refusals, [&](Observer& observer) { observer.failed({stream, from, failure}); });
}

void report_ran(CommandId command, StreamId stream, Span span) noexcept {
  if (DeviceClock* clock = device_clock.load(std::memory_order_acquire)) {
    if (clock->keep({command, stream, span})) return report_translated();
  }
  tell(Watch::times, [&](Observer& observer) { observer.ran(command, stream, span); });
}

void report_node_ran(CommandId launch, StreamId stream, std::uint32_t node, Span span) noexcept {
  DeviceClock* clock = device_clock.load(std::memory_order_acquire);
  if (clock != nullptr && clock->keeps(launch, stream)) return;  // the host's time of it is not the device's
  tell(Watch::times, [&](Observer& observer) { observer.ran_node(launch, stream, node, span); });
}

void report_translated() noexcept {
  DeviceClock* clock = device_clock.load(std::memory_order_acquire);
  if (clock == nullptr) return;
  // One after the other: of a stream in its order.
  static Mutex telling;
  const LockGuard guard(telling);
  for (const DeviceClock::Ran& one : clock->take_ran()) {
    for (const DeviceClock::NodeRan& node : one.nodes) {
      tell(Watch::times, [&](Observer& observer) { observer.ran_node(one.command, one.stream, node.node, node.span); });
    }
    tell(Watch::times, [&](Observer& observer) { observer.ran(one.command, one.stream, one.span); });
  }
}

}  // namespace weir::detail
