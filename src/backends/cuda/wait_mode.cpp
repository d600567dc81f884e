// How host threads wait for a device: CUDA's schedule flags, and events, which know nothing of them.
#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

unsigned schedule_flag(WaitMode mode) {
  switch (mode) {
    case WaitMode::spin: return cudaDeviceScheduleSpin;
    case WaitMode::yield: return cudaDeviceScheduleYield;
    case WaitMode::block: return cudaDeviceScheduleBlockingSync;
    case WaitMode::automatic: break;
  }
  return cudaDeviceScheduleAuto;
}

}  // namespace

void CudaDevice::set_wait_mode(WaitMode mode, SourceLocation where) {
  {
    const detail::LockGuard guard(wait_mode_mutex_);
    wait_mode_.store(mode, std::memory_order_relaxed);
    wait_mode_said_ = true;
  }
  if (started()) apply_wait_mode(where);
}

void CudaDevice::apply_wait_mode(SourceLocation where) {
  constexpr const char* operation = "weir::set_wait_mode";
  const detail::LockGuard guard(wait_mode_mutex_);
  if (!wait_mode_said_) return;
  const DeviceScope scope(index_);
  unsigned flags = 0;
  check(cudaGetDeviceFlags(&flags), operation, name_, where);
  flags &= ~static_cast<unsigned>(cudaDeviceScheduleMask);
  check(cudaSetDeviceFlags(flags | schedule_flag(wait_mode_.load(std::memory_order_relaxed))), operation, name_, where);
}

/// A wait for an event blocks only if the event was made for it, and Weir's are not: a stream that waits for it stands for it.
cudaError_t CudaDevice::wait_for(cudaEvent_t event) noexcept {
  if (wait_mode_.load(std::memory_order_relaxed) != WaitMode::block) return cudaEventSynchronize(event);
  const cudaError_t now = cudaEventQuery(event);
  if (now != cudaErrorNotReady) return now;
  static_cast<void>(cudaGetLastError());
  cudaStream_t stream = nullptr;
  try {
    stream = take_waiting_stream({});
  } catch (...) {
    return cudaEventSynchronize(event);
  }
  cudaError_t answer = cudaStreamWaitEvent(stream, event, 0);
  if (answer == cudaSuccess) answer = cudaStreamSynchronize(stream);
  give_waiting_stream(stream);
  return answer;
}

}  // namespace weir::cuda
