// Who may call the driver about a stream: anybody, or nobody but the thread that captures it.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::cuda {

/// The driver crashes, or voids the capture, where a thread calls it about a stream that another one captures (R115, R211).
/// Everything that is not a command of the stream's owner goes through its gate: an asker never waits, and a capture waits
/// only until the askers that are inside have left. docs/captures.md says who asks.
class CaptureGate {
 public:
  /// False while the stream is captured. What is true is followed by leave().
  bool try_enter() noexcept {
    std::uint64_t now = state_.load(std::memory_order_relaxed);
    do {
      if (now >= one_capture) return false;
    } while (!state_.compare_exchange_weak(now, now + 1, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
  void leave() noexcept {
    if (state_.fetch_sub(1, std::memory_order_release) > one_capture) state_.notify_all();
  }

  /// Nobody comes in any more, and all have left. Captures may share a gate: the legacy stream's is closed by each one of a
  /// blocking stream.
  void close() noexcept {
    state_.fetch_add(one_capture, std::memory_order_acquire);
    for (;;) {
      const std::uint64_t now = state_.load(std::memory_order_acquire);
      if (now % one_capture == 0) return;
      state_.wait(now, std::memory_order_acquire);
    }
  }
  void open() noexcept { state_.fetch_sub(one_capture, std::memory_order_release); }
  bool closed() const noexcept { return state_.load(std::memory_order_acquire) >= one_capture; }

 private:
  static constexpr std::uint64_t one_capture = std::uint64_t{1} << 32;
  std::atomic<std::uint64_t> state_{0};  ///< captures above, askers inside below
};

}  // namespace weir::cuda
