// The lock of the threads that enter one stream while observers are told.
#pragma once

#include <atomic>
#include <cstdint>

#include "thread_safety.hpp"

namespace weir::detail {

/// Costs one operation that other cores see: it is given back by a plain store, so who waits looks again and again. Waits are
/// rare and short: two threads use one stream at once. It also says whether who has it is telling observers still, so that
/// telling needs no mark of its own.
class WEIR_LOCK EntryLock {
 public:
  void lock() WEIR_TAKES() {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    // With the exchange of the list of observers: whoever takes one away sees this, or the thread sees the new one.
    if ((word & state) != 0 || !word_.compare_exchange_strong(word, word + next, std::memory_order_seq_cst))
        [[unlikely]]
      lock_slowly();
    if (beside_.load(std::memory_order_seq_cst)) [[unlikely]]
      let_teller_beside_finish();
  }
  void unlock() WEIR_GIVES() { word_.store(word_.load(std::memory_order_relaxed) & ~state, std::memory_order_release); }
  /// By who has it: no observer is told by it from here on.
  void told() { word_.store(word_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  /// Returns once who has it now has told, or has given it back.
  void let_teller_finish() const;

  /// By who tells observers of the stream and enters nothing: waits for those that tell, not for who has told and enters. That one
  /// may wait in a full queue for what the thread is about to do.
  void lock_beside();
  void unlock_beside() { beside_.store(false, std::memory_order_release); }

 private:
  static constexpr std::uint32_t state = 3;  ///< 0: nobody has it; 1: who has it is telling; 2: has told
  static constexpr std::uint32_t telling = 1;
  static constexpr std::uint32_t next = 4 + telling;  ///< the rest counts those who have had it
  void lock_slowly();
  void let_teller_beside_finish() const;

  std::atomic<std::uint32_t> word_{0};
  std::atomic<bool> beside_{false};  ///< somebody tells, or asks whether it may, who does not enter
};

/// Of the thread that tells beside those that enter.
class TellingBeside {
 public:
  explicit TellingBeside(EntryLock& entry) : entry_(entry) { entry.lock_beside(); }
  ~TellingBeside() { entry_.unlock_beside(); }
  TellingBeside(const TellingBeside&) = delete;
  TellingBeside& operator=(const TellingBeside&) = delete;

 private:
  EntryLock& entry_;
};

}  // namespace weir::detail
