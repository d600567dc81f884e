// The backend's own kernels: copies and fills of any layout.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <weir/detail/device_code.hpp>

namespace weir::cuda {

/// Units of 1, 2, 4, 8 or 16 bytes over up to five dimensions; strides in bytes, the last dimension fastest.
struct StridedJob {
  static constexpr int most_dimensions = 5;
  void* to;
  const void* from;
  std::uint64_t count;
  std::uint64_t size[most_dimensions];
  std::int64_t to_stride[most_dimensions];
  std::int64_t from_stride[most_dimensions];
};

/// What a fill writes: an element of up to so many bytes.
struct FillPattern {
  static constexpr std::size_t most_bytes = 64;
  alignas(16) unsigned char bytes[most_bytes];
  std::uint32_t units;  ///< of the job's unit size; they repeat along the last dimension
};

/// Kernels on the current device. Both sides must be reachable from it: device, pinned or peer memory.
cudaError_t launch_strided_copy(const StridedJob& job, std::size_t unit, const detail::DeviceGuard& guard,
                                cudaStream_t stream);
cudaError_t launch_strided_fill(const StridedJob& job, std::size_t unit, const FillPattern& pattern,
                                const detail::DeviceGuard& guard, cudaStream_t stream);
/// Loads all of them, so that no first launch has to wait for running kernels (R66).
cudaError_t load_strided_kernels();

}  // namespace weir::cuda
