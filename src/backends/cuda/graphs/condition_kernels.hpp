// What decides which body of a conditional node runs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include <weir/detail/device_code.hpp>

namespace weir::cuda {

/// Sets the handle of a conditional node from a device value: a truth, or the number of a body. Nothing runs, and a loop ends,
/// where a guard skips its commands. The kernel and its arguments, for a launch or a node of a graph.
struct ValueCondition {
  ValueCondition(cudaGraphConditionalHandle handle, const std::int32_t* value, bool number,
                 const detail::DeviceGuard& guard);
  ValueCondition(const ValueCondition&) = delete;
  ValueCondition& operator=(const ValueCondition&) = delete;
  cudaError_t launch(cudaStream_t stream) const;

  cudaGraphConditionalHandle handle;
  const std::int32_t* value;
  bool number;
  detail::DeviceGuard guard;
  void* arguments[4];
  cudaKernelNodeParams parameters{};
};
/// Sets the handle to whether a guard lets its commands run. The kernel and its arguments, for a node of a graph.
struct UnfailedCondition {
  UnfailedCondition(cudaGraphConditionalHandle handle, const detail::DeviceGuard& guard);
  UnfailedCondition(const UnfailedCondition&) = delete;
  UnfailedCondition& operator=(const UnfailedCondition&) = delete;

  cudaGraphConditionalHandle handle;
  detail::DeviceGuard guard;
  void* arguments[2];
  cudaKernelNodeParams parameters{};
};
/// Loads them, so that no first launch has to wait for running kernels (R66).
cudaError_t load_condition_kernels();

}  // namespace weir::cuda
