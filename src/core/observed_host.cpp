// What observers are told of the host: its waits, its accesses to memory, and its hand-offs.
#include <atomic>
#include <string>

#include <weir/error.hpp>
#include <weir/host_access.hpp>
#include <weir/host_call.hpp>
#include <weir/sim.hpp>

#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "function_clock.hpp"

namespace weir::detail {

namespace {

std::atomic<std::uint64_t> next_guard{1};
std::atomic<std::uint64_t> next_hand_off{1};

}  // namespace

HostWait stream_wait(const StreamState& stream, StreamId id, SourceLocation where, HostWait::Source source) {
  HostWait wait{HostWait::Kind::stream, stream.device->index, id, 0, where, source, {}};
  if (watched(Watch::host)) wait.backend = stream.device->backend->name();
  return wait;
}
HostWait device_wait(const DeviceState& device, SourceLocation where) {
  HostWait wait{HostWait::Kind::device, device.index, 0, 0, where};
  if (watched(Watch::host)) wait.backend = device.backend->name();
  return wait;
}

void tell_wait_now(HostWait wait) noexcept {
  wait.thread = thread_number();
  tell(Watch::host, [&](Observer& observer) { observer.waited(wait); });
  if (watched(Watch::times)) report_translated();
}

bool ask_clock(DeviceClock& clock, HostWait& question) {
  question.thread = thread_number();
  const DeviceClock::Answer answer = clock.done(question);
  if (answer.taken_back.count() != 0) {
    const HostWork none{-answer.taken_back, question.where, question.thread};
    tell(Watch::host, [&](Observer& observer) { observer.worked(none); });
  }
  if (!answer.done) tell(Watch::host, [&](Observer& observer) { observer.asked(question); });
  return answer.done;
}

void tell_failed_wait(HostWait wait, const Error& error) noexcept {
  const Errc code = error.errc();
  if (code != Errc::kernel_failed && code != Errc::host_function_failed && code != Errc::device_failed) return;
  wait.failure = &error;
  tell_wait(wait);
}

std::uint64_t begin_host_access(const Region& region, SourceLocation where) {
  if (thread_state == ThreadState::running || forked()) return 0;  // a host function's: it declares what it uses
  const HostAccess access{next_guard.fetch_add(1, std::memory_order_relaxed), true, region, where, thread_number()};
  if (asked()) {
    const Telling telling(Watch::nothing);
    for (OrderPolicy* policy : telling.policies()) policy->before(access);
  }
  tell(Watch::host, [&](Observer& observer) { observer.accessed(access); });
  return access.guard;
}

void end_host_access(std::uint64_t guard, const Region& region, SourceLocation where) noexcept {
  const HostAccess access{guard, false, region, where, thread_number()};
  tell(Watch::host, [&](Observer& observer) { observer.accessed(access); });
}

#if WEIR_CHECKS_INDICES
void tell_element_read(Storage& storage, const void* element, std::size_t bytes, SourceLocation where) {
  if (!host_access_is_watched()) return;
  const AnyView<const std::byte> view(static_cast<const std::byte*>(element), Shape(bytes));
  const Region region = region_of(Argument<const std::byte>{view, &storage, Access::read, {}});
  const std::uint64_t guard = begin_host_access(region, where);
  if (guard != 0) end_host_access(guard, region, where);
}
#endif

void tell_host_gone(const void* data, std::size_t bytes, SourceLocation where) {
  const std::uint32_t thread = thread_number();
  if (asked()) {
    const Telling telling(Watch::nothing);
    for (OrderPolicy* policy : telling.policies()) policy->before_host_gone(data, bytes, where, thread);
  }
  tell(Watch::memory, [&](Observer& observer) { observer.host_gone(data, bytes, where, thread); });
}

std::uint64_t new_hand_off() noexcept { return next_hand_off.fetch_add(1, std::memory_order_relaxed); }

void tell_hand_off(std::uint64_t hand_off, bool gives, SourceLocation where) noexcept {
  const bool in_function = thread_state == ThreadState::running;
  const CommandId command = in_function && running_function != nullptr ? running_function->command : 0;
  const HandOffCall call{hand_off, gives, where, in_function ? 0 : thread_number(), command};
  tell(Watch::host, [&](Observer& observer) { observer.handed(call); });
}

}  // namespace weir::detail

namespace weir::sim {

void host_work(std::chrono::nanoseconds time, SourceLocation where) {
  if (time < std::chrono::nanoseconds(0))
    throw Error(Errc::invalid_value, "weir::sim::host_work", std::to_string(time.count()) + " ns", "it is below 0",
                where);
  if (detail::thread_state == detail::ThreadState::running) {
    detail::FunctionClock* clock = detail::function_clock.load(std::memory_order_acquire);
    if (clock != nullptr && detail::running_function != nullptr)
      clock->function_worked(*detail::running_function, time);
    return;
  }
  const std::uint32_t thread = detail::thread_number();
  detail::DeviceClock* clock = detail::device_clock.load(std::memory_order_acquire);
  const HostWork work{time, where, thread, clock != nullptr && clock->may_take_back(thread)};
  detail::tell(Watch::host, [&](Observer& observer) { observer.worked(work); });
}

}  // namespace weir::sim
