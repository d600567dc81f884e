// Threads that others wait for: what they give back is given back without waiting.
#pragma once

#include <utility>

namespace weir::detail {

/// While one lives, its thread must not wait: where a backend would have to, another thread gives back what this one was the last owner
/// of. May be nested.
class NoWaits {
 public:
  NoWaits() noexcept : before_(std::exchange(here_, true)) {}
  ~NoWaits() { here_ = before_; }
  NoWaits(const NoWaits&) = delete;
  NoWaits& operator=(const NoWaits&) = delete;

  static bool here() noexcept { return here_; }

 private:
  inline static constinit thread_local bool here_ = false;
  const bool before_;
};

}  // namespace weir::detail
