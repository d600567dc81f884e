// Who is in a call that submits something. While one thread waits for room in a stream (R3), the driver lets no other one enqueue a host
// function (beside R214).
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::cuda {

/// This thread is in a call that may wait for room while this lives. May be nested. Costs two stores and a load. Waits for the end of
/// another thread's RoomPause.
class RoomCall {
 public:
  RoomCall() noexcept
      : calls_(calls != nullptr ? *calls : calls_of_thread()), number_(calls_.load(std::memory_order_relaxed)) {
    calls_.store(number_ | 1, std::memory_order_relaxed);
    // The pause makes the store seen by others before the load, as a fence here would.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (paused.load(std::memory_order_relaxed)) [[unlikely]]
      wait_for_pause();
  }
  ~RoomCall() {
    // With RoomCalls: who sees that it is over sees what it has submitted.
    if ((number_ & 1) == 0) calls_.store(number_ + 2, std::memory_order_release);
  }
  RoomCall(const RoomCall&) = delete;
  RoomCall& operator=(const RoomCall&) = delete;

  /// Whether another thread has been in the same call for some ten microseconds, longer than any that finds room. Waits that
  /// long if one is in a call now.
  static bool others_wait() noexcept;

 private:
  friend class RoomCalls;
  friend class RoomPause;
  using Calls = std::atomic<std::uint64_t>;
  static Calls& calls_of_thread() noexcept;
  void wait_for_pause() noexcept;

  static constinit thread_local Calls* calls;  ///< odd: in a call
  /// Each call looks at it, so nothing that others write to is beside it.
  struct alignas(64) Paused : std::atomic<bool> {};
  static Paused paused;

  Calls& calls_;
  std::uint64_t number_;
};

/// How many calls the other threads have made.
class RoomCalls {
 public:
  RoomCalls() noexcept;
  /// Whether one of them was in a call.
  bool any() const { return any_; }
  bool operator==(const RoomCalls&) const = default;

 private:
  std::uint64_t number_ = 0;  ///< of all: each thread's grows
  bool any_ = false;
};

/// No other thread enters a call while this lives, if it holds: if none has been in one since `before`. One at a time. Whoever has it takes no
/// lock that others have while they make calls: they may wait for its end.
class RoomPause {
 public:
  explicit RoomPause(const RoomCalls& before) noexcept;
  ~RoomPause();
  RoomPause(const RoomPause&) = delete;
  RoomPause& operator=(const RoomPause&) = delete;
  bool holds() const { return holds_; }
  /// Where the kernel has no barrier for all threads of a process, a call that begins at the same moment may be overlooked.
  static bool is_exact() noexcept;

 private:
  bool holds_;
};

}  // namespace weir::cuda
