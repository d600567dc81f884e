#include "backends/cuda/collectives/nccl_stops.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "backends/cuda/collectives/nccl_part.hpp"

namespace weir::cuda {

Stops& Stops::instance() {
  static auto& stops = *new Stops;
  return stops;
}

Stops::Stops() {
  static pid_t process;
  process = getpid();
  std::atexit([] {
    if (getpid() == process) instance().close();
  });
}

bool Stops::begin() noexcept {
  const detail::LockGuard guard(mutex_);
  if (!closed_) ++running_;
  return !closed_;
}

void Stops::end() noexcept {
  const detail::LockGuard guard(mutex_);
  if (--running_ == 0) ended_.notify_all();
}

bool Stops::closed() noexcept {
  const detail::LockGuard guard(mutex_);
  return closed_;
}

void Stops::close() noexcept {
  constexpr auto longest = std::chrono::seconds(3);
  let_all_parts_go();
  const auto until = std::chrono::steady_clock::now() + longest;
  const detail::LockGuard guard(mutex_);
  closed_ = true;
  while (running_ != 0) {
    if (ended_.wait_until(mutex_, until) == std::cv_status::timeout) return;
  }
}

}  // namespace weir::cuda
