// Raw CUDA for the counterparts: handles with owners, and answers that are looked at.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace bench::raw {

inline void check(cudaError_t answer, const char* call) {
  if (answer != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorName(answer));
}

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(handle_); }
  Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  operator cudaStream_t() const { return handle_; }
  void synchronize() const { check(cudaStreamSynchronize(handle_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t handle_ = nullptr;
};

class Event {
 public:
  Event() { check(cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming), "cudaEventCreateWithFlags"); }
  ~Event() { cudaEventDestroy(handle_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  operator cudaEvent_t() const { return handle_; }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Calls not looked at one by one in a timed loop: what went wrong shows here.
inline void check_last() { check(cudaGetLastError(), "raw CUDA"); }

}  // namespace bench::raw
