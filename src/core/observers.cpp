// Observers: who is attached, and the order in which they are told.
#include "core/observers.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/host_call.hpp>

#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir {

namespace detail {

namespace {

/// Those who are attached. A list that was published is never changed.
struct Attached {
  struct One {
    Observer* observer;
    std::uint32_t watch;
  };
  std::vector<One> all;
  std::vector<OrderPolicy*> policies;
};

constexpr CommandId ids_at_once = 4096;
/// Who is told of commands themselves, and so of what they come behind.
constexpr Watch told_of_commands = Watch::commands | Watch::refusals;

std::atomic<const Attached*> attached{nullptr};
std::atomic<CommandId> next_ids{1};
std::atomic<std::uint32_t> next_thread{1};
std::atomic<std::uint64_t> watchers_of_graphs{1};
/// The policies asked for what this thread submits now.
constinit thread_local bool asking = false;

}  // namespace

/// Used again when its thread is gone, never deleted.
class Seat {
 public:
  /// Odd while the thread tells observers.
  std::atomic<std::uint64_t> calls{0};
  std::atomic<bool> taken{true};
  Seat* next = nullptr;  ///< of all that there are

  // The thread's own.
  std::uint32_t depth = 0;
  std::uint32_t number = 0;
  CommandId next_id = 0;
  CommandId end_of_ids = 0;

  static Seat& mine() noexcept;

  /// Threads take numbers in lots: a counter for all would be what they meet at.
  CommandId new_id() noexcept {
    if (next_id == end_of_ids) {
      next_id = next_ids.fetch_add(ids_at_once, std::memory_order_relaxed);
      end_of_ids = next_id + ids_at_once;
    }
    return next_id++;
  }
};

namespace {

std::atomic<Seat*> all_seats{nullptr};
constinit thread_local Seat* seat_of_thread = nullptr;
/// The thread's objects come down: a seat is taken for one telling at a time.
constinit thread_local bool leaving = false;

void leave_seat() {
  if (Seat* seat = std::exchange(seat_of_thread, nullptr)) seat->taken.store(false, std::memory_order_release);
}

struct SeatOwner {
  ~SeatOwner() {
    leave_seat();
    leaving = true;
  }
};

Seat& take_seat() noexcept {
  Seat* seat = all_seats.load(std::memory_order_acquire);
  for (; seat != nullptr; seat = seat->next) {
    bool taken = false;
    if (seat->taken.compare_exchange_strong(taken, true, std::memory_order_acquire)) break;
  }
  if (seat == nullptr) {
    seat = new Seat;  // a few words: without memory for them the process ends
    seat->next = all_seats.load(std::memory_order_relaxed);
    while (!all_seats.compare_exchange_weak(seat->next, seat, std::memory_order_seq_cst)) {
    }
  }
  seat->number = next_thread.fetch_add(1, std::memory_order_relaxed);
  seat_of_thread = seat;
  thread_local SeatOwner owner;
  static_cast<void>(owner);
  return *seat;
}

/// Returns once nobody tells by a list that was taken away before.
void let_tellers_finish() {
  for (const Seat* seat = all_seats.load(std::memory_order_seq_cst); seat != nullptr; seat = seat->next) {
    const std::uint64_t calls = seat->calls.load(std::memory_order_seq_cst);
    if (calls % 2 == 0) continue;
    for (int tries = 0; seat->calls.load(std::memory_order_acquire) == calls; ++tries) {
      if (tries < 1000) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
  }
}

/// Commands whose calls wait for their end, or run the user's code: others may enter the stream meanwhile.
bool leaves_order(const Command& command) {
  if (std::holds_alternative<External>(command.op)) return true;
  const auto* copy = std::get_if<Copy>(&command.op);
  const auto* fill = std::get_if<Fill>(&command.op);
  return (copy && (copy->to_kind == MemoryKind::pageable || copy->from_kind == MemoryKind::pageable)) ||
         (fill && fill->kind == MemoryKind::pageable);
}

}  // namespace

inline Seat& Seat::mine() noexcept {
  Seat* seat = seat_of_thread;
  return seat != nullptr ? *seat : take_seat();
}

Telling::Telling(Watch what) noexcept
    : seat_(Seat::mine()), what_(static_cast<std::uint32_t>(what)), state_(thread_state), running_(running_node) {
  // With the exchange of the list: whoever takes one away sees this thread, or this thread sees the new one.
  if (seat_.depth++ == 0) seat_.calls.store(seat_.calls.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  list_ = attached.load(std::memory_order_seq_cst);
  thread_state = ThreadState::running;
  running_node = &an_observer;
}

Telling::~Telling() {
  thread_state = state_;
  running_node = running_;
  if (--seat_.depth == 0) {
    seat_.calls.store(seat_.calls.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    if (leaving) [[unlikely]]
      leave_seat();
  }
}

Observer* Telling::next() noexcept {
  const auto* list = static_cast<const Attached*>(list_);
  if (list == nullptr) return nullptr;
  while (place_ < list->all.size()) {
    const Attached::One& one = list->all[place_++];
    if ((one.watch & what_) != 0) return one.observer;
  }
  return nullptr;
}

namespace {

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
  command.thread = seat.number;
  if (asked()) ask_policies(StreamRef(&stream, command.stream), command);
  const CommandId id = command.id;
  std::vector<StreamId> behind;
  UniqueLock guard(stream.entering);
  add_default_order(stream, false, behind);
  command.behind = behind;
  number(command.op);
  name_function(command);
  tell(Watch::commands, [&](Observer& observer) { observer.submitted(command); });
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
    take_number_back(command.op);
    take_default_order_back(stream, behind);
    throw;
  }
  command.id = id;
}

void submit_observed(StreamState& stream, Command& command) {
  const auto enter = [&] { stream.queue->submit(command); };
  submit_observed(
      stream, command, [](const void* f) { (*static_cast<decltype(&enter)>(f))(); }, &enter);
}

void submit_for_times(StreamState& stream, Command& command) {
  if (watched(told_of_commands)) {
    submit_observed(stream, command);
    return;
  }
  command.id = Seat::mine().new_id();
  stream.queue->submit(command);
}

void observe_refused(const Command& command, const Error& error) noexcept {
  tell(Watch::refusals, [&](Observer& observer) { observer.refused({command, error, true}); });
}

void ask_policies(StreamRef stream, Command& command) {
  if (asking) return;
  Seat& seat = Seat::mine();
  if (command.id == 0) command.id = seat.new_id();
  command.thread = seat.number;
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
  command.thread = seat.number;
  command.stream = stream.id();
  try {
    std::vector<StreamId> behind(command.behind.begin(), command.behind.end());
    StreamState* state = stream.state();
    if (state != nullptr && state->id.load(std::memory_order_acquire) == stream.id()) {
      add_default_order(*state, true, behind);
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
  const LockGuard guard(stream.state()->entering);
  tell(Watch::commands, [&](Observer& observer) { observer.submitted(command); });
}

std::uint64_t observed_graphs() noexcept { return watchers_of_graphs.load(std::memory_order_acquire); }

std::uint32_t thread_number() noexcept { return Seat::mine().number; }

namespace {

struct Attachments {
  Mutex mutex;
  /// Lists that were taken away, until no thread can tell by them.
  std::vector<std::unique_ptr<const Attached>> old WEIR_GUARDED_BY(mutex);
};
Attachments& attachments() {
  static auto& instance = *new Attachments;
  return instance;
}

constexpr std::uint32_t all_watches = static_cast<std::uint32_t>(Watch::everything);

/// Streams that ended before anybody observed are nobody's business.
void forget_default_order() {
  for (DeviceState* device : Runtime::get().devices()) {
    DefaultOrder& order = device->default_order;
    const LockGuard guard(order.mutex);
    order.active.clear();
    order.any = false;
    order.generation.fetch_add(1, std::memory_order_relaxed);
  }
}

void publish(Attachments& all, std::unique_ptr<Attached> list) WEIR_NEEDS(all.mutex) {
  std::uint32_t watches = list->policies.empty() ? 0 : std::uint32_t{detail::policies};
  for (const Attached::One& one : list->all) watches |= one.watch;
  all.old.reserve(all.old.size() + 1);
  // The clock of simulated devices is there for itself.
  const Attached* now = attached.load(std::memory_order_relaxed);
  DeviceClock* clock = device_clock.load(std::memory_order_relaxed);
  if (clock != nullptr) clock->watch_times((watches & static_cast<std::uint32_t>(Watch::times)) != 0);
  const auto hears_of_commands = [&](const Attached::One& one) {
    return one.observer != clock && (one.watch & static_cast<std::uint32_t>(told_of_commands)) != 0;
  };
  const bool first =
      now == nullptr || (now->policies.empty() && std::none_of(now->all.begin(), now->all.end(), hears_of_commands));
  const Attached* before = attached.exchange(list.release(), std::memory_order_seq_cst);
  if (before != nullptr) all.old.emplace_back(before);
  if (first) forget_default_order();
  hooks.fetch_or(watches, std::memory_order_seq_cst);
  hooks.fetch_and(~(all_watches | policies) | watches, std::memory_order_seq_cst);
}

std::unique_ptr<Attached> present() {
  const Attached* now = attached.load(std::memory_order_relaxed);
  return now != nullptr ? std::make_unique<Attached>(*now) : std::make_unique<Attached>();
}

/// Without those that `keep` is false for; then nobody tells by what was before.
void leave(std::unique_ptr<Attached> list, Attachments& all) WEIR_NEEDS(all.mutex) {
  publish(all, std::move(list));
  let_tellers_finish();
  all.old.clear();
  if (!watched(Watch::memory)) forget_blocks();
}

}  // namespace

const std::vector<OrderPolicy*>& Telling::policies() const noexcept {
  static const auto& none = *new std::vector<OrderPolicy*>;
  return list_ != nullptr ? static_cast<const Attached*>(list_)->policies : none;
}

std::atomic<DeviceClock*> device_clock{nullptr};

constinit thread_local const HostFunction* running_function = nullptr;

}  // namespace detail

using namespace detail;

void attach(Observer& observer, Watch watch, SourceLocation where) {
  enter("weir::attach", where);
  Runtime& runtime = Runtime::get();
  Attachments& all = attachments();
  const LockGuard guard(all.mutex);
  std::unique_ptr<Attached> list = present();
  list->all.push_back({&observer, static_cast<std::uint32_t>(watch) & all_watches});
  // Called while the lock is held, which the analysis does not see.
  const auto published = [&]() WEIR_NOT_ANALYSED { publish(all, std::move(list)); };
  const bool memory = (watch & Watch::memory) != Watch::nothing;
  runtime.tell_open_streams(observer, [&] { memory ? tell_pins(observer, published) : published(); });
  watchers_of_graphs.fetch_add(1, std::memory_order_release);
  if (memory) tell_names(observer);
}

void detach(Observer& observer, SourceLocation where) {
  enter("weir::detach", where);
  for (Backend* backend : backends()) backend->report_times();
  Attachments& all = attachments();
  const LockGuard guard(all.mutex);
  std::unique_ptr<Attached> list = present();
  std::erase_if(list->all, [&](const Attached::One& one) { return one.observer == &observer; });
  leave(std::move(list), all);
}

void attach(OrderPolicy& policy, SourceLocation where) {
  enter("weir::attach", where);
  Runtime::get();
  Attachments& all = attachments();
  const LockGuard guard(all.mutex);
  std::unique_ptr<Attached> list = present();
  list->policies.push_back(&policy);
  publish(all, std::move(list));
}

void detach(OrderPolicy& policy, SourceLocation where) {
  enter("weir::detach", where);
  Attachments& all = attachments();
  const LockGuard guard(all.mutex);
  std::unique_ptr<Attached> list = present();
  std::erase(list->policies, &policy);
  leave(std::move(list), all);
}

}  // namespace weir
