// Who waits for room in a stream: while one thread does (R3), the driver lets no other one enqueue a host function (beside R214).
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::cuda {

/// This thread is in a call that may wait for room while this lives. May be nested. Costs two stores.
class RoomCall {
 public:
  RoomCall() noexcept
      : calls_(calls != nullptr ? *calls : calls_of_thread()), number_(calls_.load(std::memory_order_relaxed)) {
    calls_.store(number_ | 1, std::memory_order_relaxed);
  }
  ~RoomCall() {
    if ((number_ & 1) == 0) calls_.store(number_ + 2, std::memory_order_relaxed);
  }
  RoomCall(const RoomCall&) = delete;
  RoomCall& operator=(const RoomCall&) = delete;

  /// Whether another thread has been in the same call for some ten microseconds, longer than any that finds room. Waits that
  /// long if one is in a call now.
  static bool others_wait() noexcept;

 private:
  using Calls = std::atomic<std::uint64_t>;
  static Calls& calls_of_thread() noexcept;

  static constinit thread_local Calls* calls;  ///< odd: in a call

  Calls& calls_;
  std::uint64_t number_;
};

}  // namespace weir::cuda
