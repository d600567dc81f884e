// Sleeping and waking on a word of memory, and the pauses before one sleeps.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "thread_safety.hpp"

namespace weir::cpu {

/// Sleeps while `word` holds `expected`; may wake for no reason. Forever without a limit.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected);
void futex_wait_for(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit);
/// The number of threads that it woke.
int futex_wake(std::atomic<std::uint32_t>& word, int threads);

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
inline void pause(int times) {
  for (int i = 0; i < times; ++i) pause();
}
/// Asks for a line of memory that will be written soon, and that another core may have.
inline void prefetch_to_write(const void* at) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1);
#endif
}

/// Lets others run, of whom one is to leave a few instructions soon; `looks` as in detail::back_off(), which may sleep. A worker is not
/// held up by its command here: each call is counted, before and after.
void back_off(int looks);
/// Where back_off() counts the calls of this thread from now on; null: nowhere.
void count_naps_in(std::atomic<std::uint32_t>* naps);

/// For sections of a few instructions. A thread that loses its core inside one makes the others yield.
class WEIR_LOCK SpinLock {
 public:
  void lock() WEIR_TAKES() {
    if (!taken_.exchange(true, std::memory_order_acquire)) return;
    lock_slowly();
  }
  void unlock() WEIR_GIVES() { taken_.store(false, std::memory_order_release); }

 private:
  void lock_slowly();
  std::atomic<bool> taken_{false};
};

class WEIR_LOCK_HOLDER SpinGuard {
 public:
  explicit SpinGuard(SpinLock& lock) WEIR_TAKES(lock) : lock_(lock) { lock_.lock(); }
  ~SpinGuard() WEIR_GIVES() { lock_.unlock(); }
  SpinGuard(const SpinGuard&) = delete;
  SpinGuard& operator=(const SpinGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace weir::cpu
