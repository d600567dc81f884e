// Observers: who is attached, and the order in which they are told.
#include "core/observers.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/host_call.hpp>

#include "back_off.hpp"
#include "core/runtime.hpp"
#include "core/seats.hpp"
#include "function_clock.hpp"
#include "thread_safety.hpp"

namespace weir {

namespace detail {

std::atomic<const Attached*> attached{nullptr};
constinit thread_local Seat* seat_of_thread = nullptr;

namespace {

constexpr CommandId ids_at_once = 4096;

std::atomic<CommandId> next_ids{1};
std::atomic<std::uint32_t> next_thread{1};
std::atomic<std::uint64_t> watchers_of_graphs{1};

std::atomic<Seat*> all_seats{nullptr};
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

/// Returns once nobody tells by a list that was taken away before.
void let_tellers_finish() {
  Runtime::get().let_tellers_finish();
  for (const Seat* seat = all_seats.load(std::memory_order_seq_cst); seat != nullptr; seat = seat->next) {
    const std::uint64_t calls = seat->calls.load(std::memory_order_seq_cst);
    if (calls % 2 == 0) continue;
    for (int tries = 0; seat->calls.load(std::memory_order_acquire) == calls; ++tries) {
      back_off(tries);
    }
  }
}

}  // namespace

Seat& Seat::take() noexcept {
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
  seat->plain_launch.thread = next_thread.fetch_add(1, std::memory_order_relaxed);
  seat_of_thread = seat;
  thread_local SeatOwner owner;
  static_cast<void>(owner);
  return *seat;
}

void Seat::take_ids() noexcept {
  next_id = next_ids.fetch_add(ids_at_once, std::memory_order_relaxed);
  end_of_ids = next_id + ids_at_once;
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

std::uint64_t observed_graphs() noexcept { return watchers_of_graphs.load(std::memory_order_acquire); }

std::uint32_t thread_number() noexcept { return Seat::mine().number(); }

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
  list->of_commands.clear();
  for (const Attached::One& one : list->all) {
    watches |= one.watch;
    if ((one.watch & static_cast<std::uint32_t>(Watch::commands)) != 0) list->of_commands.push_back(one.observer);
  }
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
std::atomic<FunctionClock*> function_clock{nullptr};

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
