// Raw CUDA for the counterparts: handles with owners, the driver's own calls where Weir makes those, and answers that are
// looked at.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <type_traits>
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

/// The driver's own calls, which are cheaper than the runtime's.
struct Driver {
  decltype(&::cuLaunchKernel) launch_kernel;
  decltype(&::cuEventRecord) record_event;
  decltype(&::cuStreamWaitEvent) wait_for_event;
  decltype(&::cuStreamSynchronize) synchronize_stream;
  decltype(&::cuLaunchHostFunc) launch_host_function;
  decltype(&::cuGraphLaunch) launch_graph;
  decltype(&::cuGraphExecKernelNodeSetParams) update_kernel_node;
};

inline void find(auto& function, const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, cudaEnableDefault, &result), name);
#else
  check(cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result), name);
#endif
  if (found == nullptr) throw std::runtime_error(std::string("the driver has no ") + name);
  function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
}

inline const Driver& driver() {
  static const Driver all = [] {
    Driver d{};
    find(d.launch_kernel, "cuLaunchKernel");
    find(d.record_event, "cuEventRecord");
    find(d.wait_for_event, "cuStreamWaitEvent");
    find(d.synchronize_stream, "cuStreamSynchronize");
    find(d.launch_host_function, "cuLaunchHostFunc");
    find(d.launch_graph, "cuGraphLaunch");
    find(d.update_kernel_node, "cuGraphExecKernelNodeSetParams");
    return d;
  }();
  return all;
}

/// A kernel as the driver knows it.
inline CUfunction function_of(const void* kernel) {
  cudaFunction_t function = nullptr;
  check(cudaGetFuncBySymbol(&function, kernel), "cudaGetFuncBySymbol");
  return function;
}

/// Calls not looked at one by one in a timed loop: what went wrong shows here.
inline void check_last() { check(cudaGetLastError(), "raw CUDA"); }

}  // namespace bench::raw
