// Waiting for the lock of a stream's entrance.
#include "core/streams/entry_lock.hpp"

#include "back_off.hpp"

namespace weir::detail {

void EntryLock::lock_slowly() {
  for (int tries = 0;; ++tries) {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    if ((word & state) == 0 && word_.compare_exchange_strong(word, word + next, std::memory_order_seq_cst)) return;
    back_off(tries);
  }
}

void EntryLock::let_teller_finish() const {
  const std::uint32_t first = word_.load(std::memory_order_seq_cst);
  if ((first & state) != telling) return;
  for (int tries = 0; word_.load(std::memory_order_acquire) == first; ++tries) back_off(tries);
}

void EntryLock::let_teller_beside_finish() const {
  for (int tries = 0; beside_.load(std::memory_order_seq_cst); ++tries) back_off(tries);
}

void EntryLock::lock_beside() {
  for (int tries = 0;; ++tries) {
    if (!beside_.exchange(true, std::memory_order_seq_cst)) {
      // Whoever takes the lock sees the mark, or is seen here.
      if ((word_.load(std::memory_order_seq_cst) & state) != telling) return;
      beside_.store(false, std::memory_order_release);
    }
    back_off(tries);
  }
}

}  // namespace weir::detail
