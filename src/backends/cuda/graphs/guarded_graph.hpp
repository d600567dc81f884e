// A graph for streams in which a host function may still fail: the whole of it hangs on one condition.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include <weir/detail/device_code.hpp>

namespace weir::cuda {

class CudaDevice;

class GuardedGraph {
 public:
  /// Null where the driver takes no condition around such a graph: one with events or conditional nodes.
  /// `device_of_all`: of all nodes of the graph, or several.
  static std::unique_ptr<GuardedGraph> make(CudaDevice& device, cudaGraph_t graph, int device_of_all);
  ~GuardedGraph();
  GuardedGraph(const GuardedGraph&) = delete;
  GuardedGraph& operator=(const GuardedGraph&) = delete;

  /// The stream's device is the current one.
  cudaError_t launch(const detail::DeviceGuard& guard, cudaStream_t stream);

 private:
  GuardedGraph(CudaDevice& device, int device_of_all) : device_(device), device_of_all_(device_of_all) {}
  cudaError_t build(cudaGraph_t graph);

  CudaDevice& device_;
  const int device_of_all_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphNode_t condition_ = nullptr;
  cudaGraphConditionalHandle handle_{};
  cudaGraphExec_t instance_ = nullptr;
};

}  // namespace weir::cuda
