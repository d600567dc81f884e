// A lock for a few instructions.
#pragma once

#include <atomic>

#include "back_off.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

inline void take(std::atomic_flag& flag) {
  for (int tries = 0; flag.test_and_set(std::memory_order_acquire); ++tries) {
    if (tries > 100) back_off(tries);
  }
}

/// Nobody allocates, or calls anybody, under it. Costs one operation that other cores see: it is given back by a plain store.
class WEIR_LOCK ShortLock {
 public:
  void lock() WEIR_TAKES() { take(flag_); }
  void unlock() WEIR_GIVES() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

}  // namespace weir::detail
