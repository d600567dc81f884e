// Nodes that are kernels with a functor, as the driver is told of them.
#pragma once

#include <cuda.h>

#include <variant>

#include <weir/op.hpp>

#include "backends/cuda/streams/prepared_launch.hpp"
#include "graph_form.hpp"

namespace weir::cuda {

inline CUDA_KERNEL_NODE_PARAMS parameters_of(PreparedLaunch& launch) {
  CUDA_KERNEL_NODE_PARAMS parameters{};
  parameters.func = launch.function;
  parameters.gridDimX = launch.grid_x;
  parameters.gridDimY = launch.grid_y;
  parameters.gridDimZ = 1;
  parameters.blockDimX = launch.threads;
  parameters.blockDimY = parameters.blockDimZ = 1;
  parameters.sharedMemBytes = launch.shared_bytes;
  parameters.kernelParams = launch.arguments;
  return parameters;
}

inline const Launch* launch_of(const detail::Payload* payload) {
  return payload != nullptr ? std::get_if<Launch>(&payload->op()) : nullptr;
}

/// Whether the driver's node is a kernel's whose parameters are known here.
inline bool is_updatable(const Launch* launch) {
  if (launch == nullptr || code_of(*launch->kernel) == nullptr || launch->extent.count() == 0) return false;
  return !is_global(*launch->kernel);
}

}  // namespace weir::cuda
