// The attached observers, and how the core tells them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <type_traits>
#include <utility>

#include <weir/observer.hpp>

#include "backend.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

/// Whether anybody is to be told of these.
inline bool watched(Watch what) {
  return (hooks.load(std::memory_order_relaxed) & static_cast<std::uint32_t>(what)) != 0;
}

/// What makes a command one that is told.
inline constexpr Watch commands_watched = Watch::commands | Watch::times | Watch::refusals;

/// What the thread is running in a callback.
inline constexpr RunningCommand an_observer{"an observer", {}, {}};

/// What a host thread has for telling observers. Its calls never meet those of others.
class Seat;

/// Tells those who watch `what`, on this thread. Holds no lock: whoever detaches waits for the threads that are telling.
class Telling {
 public:
  explicit Telling(Watch what) noexcept;
  ~Telling();
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

  /// The next observer; null behind the last one.
  Observer* next() noexcept;
  const std::vector<OrderPolicy*>& policies() const noexcept;

 private:
  Seat& seat_;
  const void* list_;
  std::size_t place_ = 0;
  std::uint32_t what_;
  ThreadState state_;
  const RunningCommand* running_;
};

/// What observers throw does not reach the program. Documented: they must not.
template <class F>
void tell(Watch what, F&& f) noexcept {
  Telling telling(what);
  while (Observer* observer = telling.next()) {
    try {
      f(*observer);
    } catch (...) {
    }
  }
}

/// The same for one observer that is not attached yet.
template <class F>
void tell_one(Observer& observer, F&& f) noexcept {
  const ThreadState state = std::exchange(thread_state, ThreadState::running);
  const RunningCommand* running = std::exchange(running_node, &an_observer);
  try {
    f(observer);
  } catch (...) {
  }
  thread_state = state;
  running_node = running;
}

/// Gives the command its id, tells the observers, and hands it to the stream's queue; in this order among the threads that
/// use the stream, but for commands whose calls wait or run the user's code. Policies are asked before anything has changed.
void submit_observed(StreamState& stream, Command& command);
/// The same with another way into the queue.
void submit_observed(StreamState& stream, Command& command, void (*enter)(const void* context), const void* context);
/// Asks the policies about a command that is recorded, or not submitted to a queue. Throws what they throw.
void ask_policies(StreamRef stream, Command& command);
inline bool asked() { return (hooks.load(std::memory_order_relaxed) & policies) != 0; }

/// Tells of an Alloc or Free, whose stream (or none) is `stream`: its `behind` is completed by the default stream's rules.
void observe_memory(StreamRef stream, Command& command) noexcept;
/// It was told, and refused.
void observe_refused(const Command& command, const Error& error) noexcept;
/// Later commands of the stream come behind what these have so far.
void observe_order(StreamRef stream, std::span<const StreamId> behind, SourceLocation where);

/// A record that nobody observes.
inline void count_record(EventState& event) {
  event.records.store(event.records.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

HostWait stream_wait(const StreamState& stream, StreamId id, SourceLocation where,
                     HostWait::Source source = HostWait::Source::synchronize);
HostWait device_wait(const DeviceState& device, SourceLocation where);
/// For HostWait::began.
inline std::chrono::steady_clock::time_point wait_begins() noexcept {
  return watched(Watch::host) ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
}
void tell_wait_now(HostWait wait) noexcept;
/// If it has waited: not after mistakes of the call.
void tell_failed_wait(HostWait wait, const Error& error) noexcept;
inline void tell_wait(const HostWait& wait) noexcept {
  if (watched(Watch::host)) [[unlikely]]
    tell_wait_now(wait);
}
/// Asks the clock of simulated devices, and tells what it answered unless that is yes.
bool ask_clock(DeviceClock& clock, HostWait& question);
/// done(), as it is for real, and by that clock; tells the answer.
template <class Done>
bool answer(HostWait question, Done&& done) {
  DeviceClock* clock = device_clock.load(std::memory_order_acquire);
  if (clock != nullptr && !ask_clock(*clock, question)) [[unlikely]]
    return false;
  if (!done()) {
    if (clock != nullptr) [[unlikely]]
      clock->late(question);
    return false;
  }
  // Now the bodies of all host functions that it depends on are over: the clock knows how long they last.
  if (clock != nullptr && !ask_clock(*clock, question)) [[unlikely]]
    return false;
  tell_wait(question);
  return true;
}
/// Waits, and tells that it did, also where it throws a failure.
template <class F>
void wait_told(HostWait wait, F&& f) {
  if (!watched(Watch::host)) [[likely]] {
    f();
    return;
  }
  wait.began = wait_begins();
  try {
    f();
  } catch (const Error& error) {
    tell_failed_wait(wait, error);
    throw;
  }
  tell_wait_now(wait);
}
/// The same for calls that must be short: `make_wait()` is called only if somebody is told.
template <class MakeWait, class F>
  requires std::is_invocable_r_v<HostWait, MakeWait>
void wait_told(MakeWait&& make_wait, F&& f) {
  if (!watched(Watch::host)) [[likely]] {
    f();
    return;
  }
  wait_told(make_wait(), f);
}

/// Tells those who watch times what simulated devices know by now.
void report_translated() noexcept;

/// Changes when somebody comes who is to be told of graphs; not 0.
std::uint64_t observed_graphs() noexcept;

// Memory (observed_memory.cpp).

BufferId new_buffer() noexcept;
/// Pool memory without an array, by its address.
struct PoolBlock {
  BufferId buffer = 0;
  std::size_t bytes = 0;
};
void note_block(const void* data, PoolBlock block);
PoolBlock take_block(const void* data) noexcept;
void forget_blocks() noexcept;
/// The array is gone.
void forget_name(BufferId buffer) noexcept;
/// Empty: it has none.
std::string name_of_buffer(BufferId buffer);
void tell_names(Observer& observer);
/// Of weir::pin, once it has pinned the memory; and of unpin, once it no longer is.
void note_pin(const void* data, std::size_t bytes, SourceLocation where) noexcept;
void forget_pin(const void* data, SourceLocation where) noexcept;
/// What is pinned, before `attached` makes the observer one who is told of the rest.
void tell_pins(Observer& observer, const std::function<void()>& attached);
inline void tell_exchange(BufferId buffer, bool imported, SourceLocation where) noexcept {
  if (!watched(Watch::memory)) return;
  tell(Watch::memory, [&](Observer& observer) { observer.exchanged(buffer, imported, where); });
}

}  // namespace weir::detail
