// Replays begin, fail and end.
#include "backends/cuda/graphs/graph_replays.hpp"

#include <atomic>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/flag_kernel.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

Replays::~Replays() {
  if (flag_ != nullptr) device_.stocks().give_flag(flag_);
  if (copy_ != nullptr) device_.flag_words().give(copy_);
}

std::uint64_t Replays::open_place(SourceLocation where) {
  if (flag_ == nullptr) {
    flag_ = device_.stocks().take_flag(where);
    *flag_ = FailureState::never;
    copy_ = device_.flag_words().take();
  }
  return ++place_;
}

detail::DeviceGuard Replays::guard(std::uint64_t place) const {
  return flag_ == nullptr ? detail::DeviceGuard{nullptr, 0} : detail::DeviceGuard{flag_, place};
}

detail::DeviceGuard Replays::guard_of(std::uint64_t place, std::size_t threads, const CudaDevice& device) const {
  if (copy_ == nullptr || threads <= most_distant_threads || &device != &device_) return guard(place);
  return {copy_, place};
}

cudaError_t Replays::set_copy(cudaStream_t stream) const { return launch_fetch_flag(flag_, copy_, stream); }
cudaError_t Replays::lower_copy(cudaStream_t stream) const { return launch_lower_flag(flag_, copy_, stream); }

void Replays::launched(FailureState& queue, std::uint64_t place) {
  const detail::LockGuard guard(mutex_);
  launched_.push_back({&queue, place});
}

void Replays::take_back_launch() {
  const detail::LockGuard guard(mutex_);
  launched_.pop_back();
}

void Replays::set_failed_at(std::uint64_t place) {
  failed_at_ = place;
  *flag_ = place;
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

void Replays::begin() {
  const detail::LockGuard guard(mutex_);
  const Launched& present = launched_.front();
  if (present.queue->skips(present.place)) set_failed_at(0);
}

bool Replays::skips(std::uint64_t place) {
  const detail::LockGuard guard(mutex_);
  return failed_at_ <= place;
}

void Replays::fail(std::uint64_t place, std::shared_ptr<const Error> error) {
  const detail::LockGuard guard(mutex_);
  if (failed_at_ <= place) return;
  error_ = std::move(error);
  set_failed_at(place);
}

void Replays::end() {
  const detail::LockGuard guard(mutex_);
  const Launched present = launched_.front();
  launched_.pop_front();
  const std::shared_ptr<const Error> error = std::exchange(error_, nullptr);
  set_failed_at(FailureState::never);
  if (error) detail::note_unseen(error);
  present.queue->settle(present.place, error);
}

}  // namespace weir::cuda
