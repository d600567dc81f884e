// Commands that observers are told: their numbers, what they come behind, and their way into their streams.
#include <algorithm>
#include <exception>
#include <new>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/host_call.hpp>

#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "core/seats.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

/// The policies asked for what this thread submits now.
constinit thread_local bool asking = false;

/// Commands whose calls wait for their end, or run the user's code: others may enter the stream meanwhile.
bool leaves_order(const Command& command) {
  if (std::holds_alternative<External>(command.op)) return true;
  const auto* copy = std::get_if<Copy>(&command.op);
  const auto* fill = std::get_if<Fill>(&command.op);
  return (copy && (copy->to_kind == MemoryKind::pageable || copy->from_kind == MemoryKind::pageable)) ||
         (fill && fill->kind == MemoryKind::pageable);
}

/// What the command comes behind by the default stream's rules, as observers count: from the calls alone, so that the
/// answer does not depend on when work runs. Memory is no barrier in the legacy stream.
void add_default_order(StreamState& stream, bool memory, std::vector<StreamId>& behind) {
  DefaultOrder& order = stream.device->default_order;
  if (stream.legacy) {
    if (memory) return;
    const LockGuard guard(order.mutex);
    behind.insert(behind.end(), order.active.begin(), order.active.end());
    order.active.clear();
    order.any = true;
    order.generation.fetch_add(1, std::memory_order_relaxed);
  } else if (stream.blocking) {
    if (stream.generation.load(std::memory_order_relaxed) == order.generation.load(std::memory_order_relaxed)) return;
    const LockGuard guard(order.mutex);
    const std::uint64_t now = order.generation.load(std::memory_order_relaxed);
    if (stream.generation.load(std::memory_order_relaxed) == now) return;
    const StreamId id = stream.id.load(std::memory_order_relaxed);
    behind.reserve(behind.size() + 1);
    if (std::find(order.active.begin(), order.active.end(), id) == order.active.end()) order.active.push_back(id);
    if (order.any) behind.push_back(stream.device->legacy.id());
    stream.generation.store(now, std::memory_order_relaxed);
  }
}

/// The same, but the command may not come.
void peek_default_order(StreamState& stream, bool memory, std::vector<StreamId>& behind) {
  DefaultOrder& order = stream.device->default_order;
  if (!stream.blocking || (stream.legacy && memory)) return;
  const LockGuard guard(order.mutex);
  if (stream.legacy) {
    behind.insert(behind.end(), order.active.begin(), order.active.end());
  } else if (order.any &&
             stream.generation.load(std::memory_order_relaxed) != order.generation.load(std::memory_order_relaxed)) {
    behind.push_back(stream.device->legacy.id());
  }
}

/// The command did not come: the next one is told what it comes behind.
void take_default_order_back(StreamState& stream, std::span<const StreamId> behind) {
  if (behind.empty()) return;
  DefaultOrder& order = stream.device->default_order;
  const LockGuard guard(order.mutex);
  if (!stream.legacy) {
    stream.generation.store(0, std::memory_order_relaxed);
    return;
  }
  for (const StreamId id : behind) {
    if (std::find(order.active.begin(), order.active.end(), id) == order.active.end()) order.active.push_back(id);
  }
}

/// Gives records and waits their numbers.
void number(Op& op) {
  if (auto* record = std::get_if<Record>(&op)) {
    record->number = record->event->records.fetch_add(1, std::memory_order_relaxed) + 1;
  } else if (auto* wait = std::get_if<Wait>(&op); wait != nullptr && wait->event != nullptr) {
    wait->record = wait->event->records.load(std::memory_order_relaxed);
  }
}

void name_function(const Command& command) {
  if (const auto* call = std::get_if<HostCall>(&command.op)) call->function->command = command.id;
  if (const auto* call = std::get_if<External>(&command.op)) call->function->command = command.id;
}

/// It was told, and something was thrown that is no error of Weir's: by foreign work that is called at once, or for want of memory.
void observe_thrown(const Command& command) noexcept {
  if (!watched(Watch::refusals)) return;
  const bool foreign = std::holds_alternative<External>(command.op);
  const FailedCommand failed{Errc::host_function_failed,
                             foreign ? "weir::external" : "weir: submitting a command",
                             foreign ? "foreign work" : "the call",
                             {},
                             "stream",
                             command.where};
  observe_refused(command, *failure_of(failed, std::current_exception()));
}

/// The record did not come about.
void take_number_back(const Op& op) {
  const auto* record = std::get_if<Record>(&op);
  if (record == nullptr) return;
  std::uint64_t number = record->number;
  record->event->records.compare_exchange_strong(number, number - 1, std::memory_order_relaxed);
}

}  // namespace

void submit_observed(StreamState& stream, Command& command, void (*enter)(const void*), const void* context) {
  Seat& seat = Seat::mine();
  command.id = seat.new_id();
  command.thread = seat.number();
  if (asked()) ask_policies(StreamRef(&stream, command.stream), command);
  const CommandId id = command.id;
  std::vector<StreamId> behind;
  UniqueLock guard(stream.entering);
  add_default_order(stream, false, behind);
  command.behind = behind;
  number(command.op);
  name_function(command);
  tell(Watch::commands, [&](Observer& observer) { observer.submitted(command); });
  stream.entering.told();
  if (!watched(Watch::times)) command.id = 0;  // for the backend: nobody asks when it runs
  if (leaves_order(command)) guard.unlock();
  try {
    enter(context);
  } catch (const Error& error) {
    command.id = id;
    take_number_back(command.op);
    take_default_order_back(stream, behind);
    observe_refused(command, error);
    throw;
  } catch (...) {
    command.id = id;
    take_number_back(command.op);
    take_default_order_back(stream, behind);
    observe_thrown(command);
    throw;
  }
  command.id = id;
}

void submit_observed(StreamState& stream, Command& command) {
  const auto enter = [&] { stream.queue->submit(command); };
  submit_observed(
      stream, command, [](const void* f) { (*static_cast<decltype(&enter)>(f))(); }, &enter);
}

void observe_refused(const Command& command, const Error& error) noexcept {
  tell(Watch::refusals, [&](Observer& observer) { observer.refused({command, error, true}); });
}

void ask_policies(StreamRef stream, Command& command) {
  if (asking) return;
  Seat& seat = Seat::mine();
  if (command.id == 0) command.id = seat.new_id();
  command.thread = seat.number();
  OrderPolicy::Waits waits;
  const std::span<const StreamId> known = command.behind;
  std::vector<StreamId> behind(known.begin(), known.end());
  if (stream.id() != 0 && command.graph == 0) {
    const bool memory = std::holds_alternative<Alloc>(command.op) || std::holds_alternative<Free>(command.op);
    peek_default_order(*stream.state(), memory, behind);
    if (auto* wait = std::get_if<Wait>(&command.op); wait != nullptr && wait->event != nullptr) {
      wait->record = wait->event->records.load(std::memory_order_relaxed);
    }
  }
  command.behind = behind;
  try {
    const Telling telling(Watch::nothing);
    for (OrderPolicy* policy : telling.policies()) policy->before(command, waits);
  } catch (const Error& error) {
    tell(Watch::refusals, [&](Observer& observer) { observer.refused({command, error, false}); });
    throw;
  }
  command.behind = known;
  if (stream.id() == 0 || (waits.events().empty() && waits.streams().empty())) return;
  asking = true;
  try {
    for (const StreamRef other : waits.streams()) stream.wait(other, command.where);
    for (const EventRef event : waits.events()) stream.wait(event, command.where);
  } catch (...) {
    asking = false;
    throw;
  }
  asking = false;
}

void observe_memory(StreamRef stream, Command& command) noexcept {
  Seat& seat = Seat::mine();
  if (command.id == 0) command.id = seat.new_id();
  command.thread = seat.number();
  command.stream = stream.id();
  try {
    std::vector<StreamId> behind(command.behind.begin(), command.behind.end());
    if (StreamState* const state = stream.state()) {
      const LockGuard still_the_same(state->reuse);
      if (state->id.load(std::memory_order_acquire) == stream.id()) add_default_order(*state, true, behind);
    }
    command.behind = behind;
    tell(Watch::memory, [&](Observer& observer) { observer.submitted(command); });
  } catch (const std::bad_alloc&) {
    // Without memory for more: it is told with what is known.
    tell(Watch::memory, [&](Observer& observer) { observer.submitted(command); });
  }
  command.behind = {};
}

void observe_order(StreamRef stream, std::span<const StreamId> behind, SourceLocation where) {
  Command command;
  command.id = Seat::mine().new_id();
  command.thread = thread_number();
  command.stream = stream.id();
  command.where = where;
  command.op = Wait{nullptr, 0};
  command.behind = behind;
  const TellingBeside beside(stream.state()->entering);
  tell(Watch::commands, [&](Observer& observer) { observer.submitted(command); });
}

}  // namespace weir::detail
