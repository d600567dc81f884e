// A launch as the driver takes it.
#pragma once

#include <cuda.h>

#include <cstdint>

#include <weir/detail/device_code.hpp>
#include <weir/kernel.hpp>
#include <weir/op.hpp>

namespace weir::cuda {

/// Of all blocks together; for a launch over elements those that have one.
inline std::size_t threads_of(const Launch& launch) {
  return launch.kernel->rank == 0 ? launch.extent.count() * launch.threads : launch.extent.count();
}

struct LoadedCode;

inline const detail::DeviceCode* code_of(const Kernel& kernel) {
  return static_cast<const detail::DeviceCode*>(kernel.device_code);
}
/// A call of the driver's own form, as of a __global__ function of the user's: its kernels look at no guard.
inline bool is_global(const Kernel& kernel) {
  const detail::DeviceCode* code = code_of(kernel);
  return code != nullptr && code->kind == detail::DeviceCode::Kind::global;
}

/// Whether a kernel's strides need not be looked at.
inline bool is_dense(const detail::DeviceCode& code, const void* closure) {
  return code.dense == nullptr || code.dense(closure);
}

/// Of kernels with a functor. Refers to the launch, and to itself.
struct PreparedLaunch {
  PreparedLaunch(const LoadedCode& code, const Launch& launch, const detail::DeviceGuard& doubt);
  PreparedLaunch(const PreparedLaunch&) = delete;
  PreparedLaunch& operator=(const PreparedLaunch&) = delete;

  /// The same launch with other arguments.
  void take(const void* closure);

  CUfunction function;
  unsigned grid_x = 0;
  unsigned grid_y = 0;
  unsigned threads = 0;
  unsigned shared_bytes = 0;
  detail::DeviceCount count{};
  detail::DeviceExtent extent;  ///< of 2 to 4 dimensions
  detail::BlockSizes sizes;     ///< of a cooperative kernel
  detail::DeviceGuard guard;
  void* arguments[3];

 private:
  /// As in detail::DeviceCount.
  std::uint64_t plain_elements() const;

  const Kernel& kernel_;
};

}  // namespace weir::cuda
