// From CUDA's answers to Weir's codes.
#include "backends/cuda/cuda_error.hpp"

#include <array>
#include <atomic>

#include "backends/cuda/driver.hpp"

namespace weir::cuda {

constinit bool several_devices = false;

namespace {

constinit std::atomic<int> first_sticky{cudaSuccess};
/// Primary contexts of devices, as far as they were seen: they stay as long as the process uses a device.
constinit std::array<std::atomic<CUcontext>, 64> primary{};

bool is_primary(CUcontext context, int device) {
  const auto number = static_cast<std::size_t>(device);
  return context != nullptr && number < primary.size() && context == primary[number].load(std::memory_order_relaxed);
}

void note_primary(CUcontext context, int device) {
  const auto number = static_cast<std::size_t>(device);
  if (number < primary.size()) primary[number].store(context, std::memory_order_relaxed);
}

Errc code_of(cudaError_t answer) {
  switch (answer) {
    case cudaErrorMemoryAllocation: return Errc::out_of_memory;
    case cudaErrorInvalidDevice: return Errc::unknown_device;
    case cudaErrorInvalidResourceHandle:
    case cudaErrorContextIsDestroyed: return Errc::invalid_handle;
    case cudaErrorNotReady: return Errc::not_ready;
    case cudaErrorNotSupported:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion: return Errc::not_supported;
    case cudaErrorNotPermitted: return Errc::not_permitted;
    case cudaErrorHostMemoryAlreadyRegistered: return Errc::already_pinned;
    case cudaErrorHostMemoryNotRegistered: return Errc::not_pinned;
    case cudaErrorPeerAccessAlreadyEnabled: return Errc::peer_already_enabled;
    case cudaErrorPeerAccessNotEnabled: return Errc::peer_not_enabled;
    case cudaErrorPeerAccessUnsupported: return Errc::peer_unsupported;
    case cudaErrorStreamCaptureUnsupported: return Errc::capture_unsupported;
    case cudaErrorStreamCaptureInvalidated: return Errc::capture_invalidated;
    case cudaErrorStreamCaptureMerge: return Errc::capture_merge;
    case cudaErrorStreamCaptureUnmatched: return Errc::capture_unmatched;
    case cudaErrorStreamCaptureUnjoined: return Errc::capture_unjoined;
    case cudaErrorStreamCaptureIsolation: return Errc::capture_isolation;
    case cudaErrorStreamCaptureImplicit: return Errc::capture_implicit;
    case cudaErrorStreamCaptureWrongThread: return Errc::capture_wrong_thread;
    case cudaErrorCapturedEvent: return Errc::captured_event;
    case cudaErrorCudartUnloading: return Errc::process_exiting;
    case cudaErrorDevicesUnavailable: return Errc::device_failed;  // one device's, which others use alone, perhaps
    default: return is_sticky(answer) ? Errc::device_failed : Errc::invalid_value;
  }
}

}  // namespace

bool is_sticky(cudaError_t answer) {
  switch (answer) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorUnknown: return true;
    default: return false;
  }
}

cudaError_t sticky_failure() { return static_cast<cudaError_t>(first_sticky.load(std::memory_order_relaxed)); }

void note(cudaError_t answer) noexcept {
  if (answer == cudaSuccess) return;
  int none = cudaSuccess;
  if (is_sticky(answer)) first_sticky.compare_exchange_strong(none, answer);
  static_cast<void>(cudaGetLastError());
}

Answer answer_of(cudaError_t answer) noexcept {
  if (answer == cudaSuccess) return Answer::done;
  if (answer == cudaErrorNotReady) return Answer::pending;
  note(answer);
  return Answer::unknown;
}

bool is_current(int device) noexcept {
  CUcontext present = nullptr;
  return driver().current_context(&present) == CUDA_SUCCESS && is_primary(present, device);
}

DeviceScope::DeviceScope(int device, bool made) {
  if (driver().current_context(&present_) != CUDA_SUCCESS) present_ = nullptr;
  if (is_primary(present_, device)) [[likely]]
    return;
  if (present_ == nullptr) {
    if (cudaGetDevice(&previous_) != cudaSuccess || (previous_ == device && !made)) return;
    changed_ = cudaSetDevice(device) == cudaSuccess && previous_ != device;
    return;
  }
  CUcontext own = nullptr;
  if (cudaSetDevice(device) != cudaSuccess || driver().current_context(&own) != CUDA_SUCCESS) return;
  note_primary(own, device);
  changed_ = own != present_;
}

void DeviceScope::leave() const noexcept {
  if (present_ != nullptr) {
    static_cast<void>(driver().set_context(present_));
  } else {
    static_cast<void>(cudaSetDevice(previous_));
  }
}

int current_device() noexcept {
  int device = 0;
  note(cudaGetDevice(&device));
  return device;
}

void refuse(cudaError_t answer, const char* operation, const std::string& object, SourceLocation where) {
  note(answer);
  std::string text = std::string(cudaGetErrorName(answer)) + ": " + cudaGetErrorString(answer);
  if (is_sticky(answer)) {
    text += "; work on the device failed, and this process can use no GPU any more";
  }
  throw Error(code_of(answer), operation, object, text, where);
}

}  // namespace weir::cuda
