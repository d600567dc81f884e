// Who is attached, and what a thread has for telling them: the parts of observers that the ways into a stream use.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include <weir/observer.hpp>

#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

/// Those who are attached. A list that was published is never changed.
struct Attached {
  struct One {
    Observer* observer;
    std::uint32_t watch;
  };
  std::vector<One> all;
  std::vector<OrderPolicy*> policies;
  std::vector<Observer*> of_commands;  ///< those of all who watch commands
};
extern std::atomic<const Attached*> attached;

/// Who is told of commands themselves, and so of what they come behind.
inline constexpr Watch told_of_commands = Watch::commands | Watch::refusals;

class Seat;
extern constinit thread_local Seat* seat_of_thread;

/// What a host thread has for telling observers. Used again when its thread is gone, never deleted.
class Seat {
 public:
  /// Odd while the thread tells observers.
  std::atomic<std::uint64_t> calls{0};
  std::atomic<bool> taken{true};
  Seat* next = nullptr;  ///< of all that there are

  // The thread's own.
  std::uint32_t depth = 0;
  CommandId next_id = 0;
  CommandId end_of_ids = 0;  ///< the first that is not this thread's
  /// A Launch as most are: who submits one writes what differs.
  Command plain_launch;

  /// Null: it has none yet, or none any more.
  static Seat* present() noexcept { return seat_of_thread; }
  static Seat& mine() noexcept {
    Seat* const seat = present();
    return seat != nullptr ? *seat : take();
  }
  std::uint32_t number() const noexcept { return plain_launch.thread; }
  /// Threads take numbers in lots: a counter for all would be what they meet at.
  CommandId new_id() noexcept {
    if (next_id == end_of_ids) [[unlikely]]
      take_ids();
    return next_id++;
  }

 private:
  static Seat& take() noexcept;
  void take_ids() noexcept;
};

/// Tells of a command. The thread has the lock of its stream's entrance, by which it has not told() so far.
inline void tell_entering(const Command& command) noexcept {
  const Attached* const list = attached.load(std::memory_order_seq_cst);
  if (list == nullptr) return;
  const ThreadState state = std::exchange(thread_state, ThreadState::running);
  const RunningCommand* const running = std::exchange(running_node, &an_observer);
  for (Observer* const observer : list->of_commands) {
    try {
      observer->submitted(command);
    } catch (...) {
    }
  }
  thread_state = state;
  running_node = running;
}

/// Whether the stream's next command comes behind others by the default stream's rules, as observers count.
inline bool default_order_is_new(const StreamState& stream) noexcept {
  return stream.legacy ||
         (stream.blocking && stream.generation.load(std::memory_order_relaxed) !=
                                 stream.device->default_order.generation.load(std::memory_order_relaxed));
}

}  // namespace weir::detail
