// Linux futexes.
#include "backends/cpu/workers/futex.hpp"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

#include "back_off.hpp"

namespace weir::cpu {

namespace {
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* limit) {
  static_assert(sizeof(std::atomic<std::uint32_t>) == sizeof(std::uint32_t));
  return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, limit, nullptr, 0);
}
}  // namespace

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  futex(word, FUTEX_WAIT, expected, nullptr);
}

void futex_wait_for(std::atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds limit) {
  timespec time{};
  time.tv_sec = static_cast<time_t>(limit.count() / 1'000'000'000);
  time.tv_nsec = static_cast<long>(limit.count() % 1'000'000'000);
  futex(word, FUTEX_WAIT, expected, &time);
}

int futex_wake(std::atomic<std::uint32_t>& word, int threads) {
  return static_cast<int>(futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(threads), nullptr));
}

namespace {
constinit thread_local std::atomic<std::uint32_t>* naps_of_thread = nullptr;

void count_nap() {
  if (naps_of_thread != nullptr)
    naps_of_thread->store(naps_of_thread->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}
}  // namespace

void back_off(int looks) {
  count_nap();
  detail::back_off(static_cast<unsigned>(looks));
  count_nap();
}

void count_naps_in(std::atomic<std::uint32_t>* naps) { naps_of_thread = naps; }

void SpinLock::lock_slowly() {
  for (int tries = 0;; ++tries) {
    if (!taken_.load(std::memory_order_relaxed) && !taken_.exchange(true, std::memory_order_acquire)) return;
    if (tries < 100) {
      pause();
    } else {
      back_off(tries);
    }
  }
}

}  // namespace weir::cpu
