// The driver's answers as weir::Error.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include <weir/error.hpp>

namespace weir::cuda {

/// Whether an answer means that the process can no longer use any GPU (R171, R203).
bool is_sticky(cudaError_t answer);
/// The first sticky answer that was seen; cudaSuccess while all is well.
cudaError_t sticky_failure();

/// Throws the Error for an answer: its code, the driver's name and text for it. Leaves the thread's last CUDA error clean.
[[noreturn]] void refuse(cudaError_t answer, const char* operation, const std::string& object, SourceLocation where);

inline void check(cudaError_t answer, const char* operation, const std::string& object, SourceLocation where) {
  if (answer != cudaSuccess) [[unlikely]]
    refuse(answer, operation, object, where);
}

/// For calls that the driver does not see.
inline void check_not_failed(const char* operation, const std::string& object, SourceLocation where) {
  const cudaError_t answer = sticky_failure();
  if (answer != cudaSuccess) [[unlikely]]
    refuse(answer, operation, object, where);
}

/// Notes a sticky answer where nothing can be thrown, and leaves the thread's last CUDA error clean.
void note(cudaError_t answer) noexcept;

/// What the driver says of work that may be pending. Unknown: it refuses to say, now or for ever, and nobody may use, free or
/// forget anything because of it.
enum class Answer { done, pending, unknown };
Answer answer_of(cudaError_t answer) noexcept;

/// Set once the driver has told its devices; with one device it is always the current one.
extern bool several_devices;

/// Makes a device current for a block, if it is not; the previous one is current again at the end. Throws nothing: what
/// is wrong with the device, the next call says.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    if (!several_devices) return;
    if (cudaGetDevice(&previous_) == cudaSuccess && previous_ != device)
      changed_ = cudaSetDevice(device) == cudaSuccess;
  }
  ~DeviceScope() {
    if (changed_) static_cast<void>(cudaSetDevice(previous_));
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

/// For calls of the driver's own that need a current context and do not say so: parameters of kernels in graphs, which crash
/// in a thread that has made no call of the runtime's yet. Makes the device's context current if there is none.
class ContextScope {
 public:
  explicit ContextScope(int device);
  ~ContextScope() {
    if (changed_) static_cast<void>(cudaSetDevice(previous_));
  }
  ContextScope(const ContextScope&) = delete;
  ContextScope& operator=(const ContextScope&) = delete;

 private:
  int previous_ = 0;
  bool changed_ = false;
};

}  // namespace weir::cuda
