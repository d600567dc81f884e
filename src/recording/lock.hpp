// The lock of a recorder: every call of the program takes it, and holds it for some hundred instructions.
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::recorded {

/// For std::lock_guard. Inline where nobody else has it; who waits looks for it for a while, and then sleeps.
class Lock {
 public:
  void lock() {
    std::uint32_t word = nobody;
    if (!word_.compare_exchange_strong(word, held, std::memory_order_acquire)) [[unlikely]]
      wait();
  }
  void unlock() {
    if (word_.exchange(nobody, std::memory_order_release) == awaited) [[unlikely]]
      word_.notify_one();
  }

 private:
  static constexpr std::uint32_t nobody = 0;
  static constexpr std::uint32_t held = 1;
  static constexpr std::uint32_t awaited = 2;  ///< held, and somebody may sleep

  void wait() {
    for (int looks = 0; looks < 200; ++looks) {
      std::uint32_t word = word_.load(std::memory_order_relaxed);
      if (word == nobody && word_.compare_exchange_strong(word, held, std::memory_order_acquire)) return;
    }
    while (word_.exchange(awaited, std::memory_order_acquire) != nobody) word_.wait(awaited, std::memory_order_relaxed);
  }

  std::atomic<std::uint32_t> word_{nobody};
};

}  // namespace weir::recorded
