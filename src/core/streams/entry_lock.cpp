// Waiting for the lock of a stream's entrance.
#include "core/streams/entry_lock.hpp"

#include <chrono>
#include <thread>

namespace weir::detail {

namespace {
/// Short waits stay on their core; longer ones leave it to whom they wait for.
void wait_a_little(int tries) {
  if (tries < 1000) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}
}  // namespace

void EntryLock::lock_slowly() {
  for (int tries = 0;; ++tries) {
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    if ((word & state) == 0 && word_.compare_exchange_strong(word, word + next, std::memory_order_seq_cst)) return;
    wait_a_little(tries);
  }
}

void EntryLock::let_teller_finish() const {
  const std::uint32_t first = word_.load(std::memory_order_seq_cst);
  if ((first & state) != telling) return;
  for (int tries = 0; word_.load(std::memory_order_acquire) == first; ++tries) wait_a_little(tries);
}

void EntryLock::let_teller_beside_finish() const {
  for (int tries = 0; beside_.load(std::memory_order_seq_cst); ++tries) wait_a_little(tries);
}

void EntryLock::lock_beside() {
  for (int tries = 0;; ++tries) {
    if (!beside_.exchange(true, std::memory_order_seq_cst)) {
      // Whoever takes the lock sees the mark, or is seen here.
      if ((word_.load(std::memory_order_seq_cst) & state) != telling) return;
      beside_.store(false, std::memory_order_release);
    }
    wait_a_little(tries);
  }
}

}  // namespace weir::detail
