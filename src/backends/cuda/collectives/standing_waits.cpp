#include "backends/cuda/collectives/standing_waits.hpp"

#include <utility>

#include "backends/cuda/collectives/call_order.hpp"

namespace weir::cuda {

StandingWaits& StandingWaits::instance() {
  static auto& waits = *new StandingWaits;
  return waits;
}

void StandingWaits::come() noexcept {
  const detail::LockGuard guard(mutex_);
  while (making_ && !CallOrder::is_mine()) wait();
  ++count_;
}

void StandingWaits::come_back() noexcept {
  const detail::LockGuard guard(mutex_);
  ++count_;
}

void StandingWaits::go() noexcept {
  {
    const detail::LockGuard guard(mutex_);
    if (--count_ != 0) return;
    changed_.notify_all();
    if (!std::exchange(refused_, false)) return;
  }
  CallOrder::instance().look_if_any_wait();
}

void StandingWaits::wait_until_gone() noexcept {
  const detail::LockGuard guard(mutex_);
  while (count_ != 0) wait();
}

std::size_t StandingWaits::waiting() const noexcept {
  const detail::LockGuard guard(mutex_);
  return waiting_;
}

void StandingWaits::wait() noexcept {
  ++waiting_;
  changed_.wait(mutex_);
  --waiting_;
}

bool StandingWaits::begin(bool beside_them) noexcept {
  const detail::LockGuard guard(mutex_);
  if (count_ != 0 && !beside_them) {
    refused_ = true;
    return false;
  }
  return making_ = true;
}

void StandingWaits::end() noexcept {
  const detail::LockGuard guard(mutex_);
  making_ = false;
  changed_.notify_all();
}

}  // namespace weir::cuda
