// The driver's answers as weir::Error.
#pragma once

#include <cuda.h>
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

/// Set once the driver has told its devices.
extern bool several_devices;

/// Whether the device's primary context is known to be this thread's current one: then the default streams' handles mean it.
bool is_current(int device) noexcept;

/// Makes a device's primary context current for a block, if it is not; what was current before is so again at the end. Also in
/// a thread that has a context of the user's own (cuCtxCreate), where the runtime's calls would make things that end with it,
/// and refuse ours. Throws nothing: what is wrong with the device, the next call says.
class DeviceScope {
 public:
  explicit DeviceScope(int device) : DeviceScope(device, false) {}
  ~DeviceScope() {
    if (changed_) leave();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 protected:
  /// `made`: also where the runtime's next call would make the context current by itself.
  DeviceScope(int device, bool made);

 private:
  void leave() const noexcept;

  CUcontext present_ = nullptr;
  int previous_ = 0;
  bool changed_ = false;
};

/// For calls of the driver's own that need a current context and do not say so: parameters of kernels in graphs, which crash
/// in a thread that has made no call of the runtime's yet.
class ContextScope : public DeviceScope {
 public:
  explicit ContextScope(int device) : DeviceScope(device, true) {}
};

/// While it lives, no capture of anybody objects to what this thread asks of the driver (R117, R120 to R122).
class RelaxedScope {
 public:
  RelaxedScope() { note(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedScope() { note(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  RelaxedScope(const RelaxedScope&) = delete;
  RelaxedScope& operator=(const RelaxedScope&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

/// The device that the runtime's next call is about.
int current_device() noexcept;

}  // namespace weir::cuda
