// Starting the driver.
#include "backends/cuda/driver.hpp"

#include <cstdlib>

#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/environment.hpp"

namespace weir::cuda {

namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

std::string reason_of(cudaError_t answer) {
  int version = 0;
  static_cast<void>(cudaDriverGetVersion(&version));
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (version == 0) return "no NVIDIA driver is installed here (libcuda.so.1 was not found)";
  if (answer == cudaErrorInsufficientDriver) {
    return "the NVIDIA driver is too old: it supports CUDA " + version_text(version) + ", and this build needs CUDA " +
           version_text(CUDART_VERSION / 1000 * 1000);
  }
  if (answer == cudaErrorNoDevice && visible != nullptr) {
    return *visible == '\0' ? "CUDA_VISIBLE_DEVICES is set to nothing, which hides all GPUs"
                            : "CUDA_VISIBLE_DEVICES=" + std::string(visible) + " leaves no GPU visible";
  }
  if (answer == cudaErrorNoDevice || answer == cudaSuccess) return "there is a driver, but no NVIDIA GPU";
  return std::string("the driver does not start: ") + cudaGetErrorName(answer) + ": " + cudaGetErrorString(answer);
}

template <class Function>
bool find(Function& function, const char* name, [[maybe_unused]] unsigned version = 12000) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  const cudaError_t answer = cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result);
#else
  const cudaError_t answer = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
  if (answer != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) return false;
  function = reinterpret_cast<Function>(found);
  return true;
}

Driver start() {
  Driver d;
  set_environment();
  const cudaError_t answer = cudaGetDeviceCount(&d.device_count);
  if (answer != cudaSuccess || d.device_count == 0) {
    d.device_count = 0;
    d.why_absent = reason_of(answer);
    static_cast<void>(cudaGetLastError());
    return d;
  }
  several_devices = d.device_count > 1;
  const bool all = find(d.launch_kernel, "cuLaunchKernel") && find(d.record_event, "cuEventRecord") &&
                   find(d.wait_for_event, "cuStreamWaitEvent") && find(d.synchronize_stream, "cuStreamSynchronize") &&
                   find(d.launch_host_function, "cuLaunchHostFunc") && find(d.wait_for_word, "cuStreamWaitValue32") &&
                   find(d.write_word, "cuStreamWriteValue32") && find(d.launch_graph, "cuGraphLaunch") &&
                   find(d.update_kernel_node, "cuGraphExecKernelNodeSetParams") &&
                   find(d.set_kernel_node, "cuGraphKernelNodeSetParams") &&
                   find(d.best_block, "cuOccupancyMaxPotentialBlockSize") &&
                   find(d.resident_blocks, "cuOccupancyMaxActiveBlocksPerMultiprocessor") &&
                   find(d.function_attribute, "cuFuncGetAttribute") &&
                   find(d.set_function_attribute, "cuFuncSetAttribute") && find(d.set_bytes, "cuMemsetD8Async") &&
                   find(d.set_words, "cuMemsetD16Async") && find(d.set_double_words, "cuMemsetD32Async") &&
                   find(d.address_range, "cuMemGetAddressRange") && find(d.current_context, "cuCtxGetCurrent") &&
                   find(d.set_context, "cuCtxSetCurrent") && find(d.context_state, "cuDevicePrimaryCtxGetState");
  if (!all) {
    d.device_count = 0;
    d.why_absent = "the NVIDIA driver is too old: it lacks calls of CUDA 12";
  }
#if CUDA_VERSION >= 12040
  const bool loads_files =
      find(d.module_of, "cuFuncGetModule") && find(d.function_count, "cuModuleGetFunctionCount", 12040) &&
      find(d.functions, "cuModuleEnumerateFunctions", 12040) && find(d.load_function, "cuFuncLoad", 12040);
  if (!loads_files) d.load_function = nullptr;
#endif
  return d;
}

}  // namespace

const Driver& driver() {
  static const auto& started = *new Driver(start());
  return started;
}

}  // namespace weir::cuda
