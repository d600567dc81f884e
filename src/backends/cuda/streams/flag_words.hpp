// Device memory for words of failure: what kernels of many threads heed.
#pragma once

#include <cstddef>
#include <vector>

#include "thread_safety.hpp"

namespace weir::cuda {

/// Thread rule: any thread.
class FlagWords {
 public:
  static constexpr std::size_t count = 8192;
  /// Once, with memory for all of them.
  void fill(volatile unsigned long long* words) {
    const detail::LockGuard guard(mutex_);
    words_ = words;
  }
  bool filled() const {
    const detail::LockGuard guard(mutex_);
    return words_ != nullptr;
  }
  /// Null: all are taken.
  volatile unsigned long long* take() {
    const detail::LockGuard guard(mutex_);
    if (free_.empty()) return next_ < count && words_ != nullptr ? words_ + next_++ : nullptr;
    volatile unsigned long long* const word = free_.back();
    free_.pop_back();
    return word;
  }
  /// Nothing that is pending looks at it.
  void give(volatile unsigned long long* word) noexcept {
    try {
      const detail::LockGuard guard(mutex_);
      free_.push_back(word);
    } catch (...) {
      // Without memory for the list it is not used again.
    }
  }

 private:
  mutable detail::Mutex mutex_;
  volatile unsigned long long* words_ WEIR_GUARDED_BY(mutex_) = nullptr;
  std::size_t next_ WEIR_GUARDED_BY(mutex_) = 0;
  std::vector<volatile unsigned long long*> free_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::cuda
