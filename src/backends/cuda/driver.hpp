// Whether there is a driver and a GPU, and the driver's own calls that the runtime API does not offer.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace weir::cuda {

struct Driver {
  int device_count = 0;
  std::string why_absent;  ///< empty if there is a device

  // 3 % cheaper than the runtime's launch, with functions that were looked up before.
  decltype(&::cuLaunchKernel) launch_kernel = nullptr;
  // Likewise, and they need no current device; the first two are in every hop between streams.
  decltype(&::cuEventRecord) record_event = nullptr;
  decltype(&::cuStreamWaitEvent) wait_for_event = nullptr;
  decltype(&::cuStreamSynchronize) synchronize_stream = nullptr;
  decltype(&::cuLaunchHostFunc) launch_host_function = nullptr;
  decltype(&::cuStreamWaitValue32) wait_for_word = nullptr;
  decltype(&::cuStreamWriteValue32) write_word = nullptr;
  decltype(&::cuGraphLaunch) launch_graph = nullptr;
  decltype(&::cuGraphExecKernelNodeSetParams) update_kernel_node = nullptr;
  decltype(&::cuGraphKernelNodeSetParams) set_kernel_node = nullptr;
  decltype(&::cuOccupancyMaxPotentialBlockSize) best_block = nullptr;
  decltype(&::cuOccupancyMaxActiveBlocksPerMultiprocessor) resident_blocks = nullptr;
  decltype(&::cuFuncGetAttribute) function_attribute = nullptr;
  decltype(&::cuFuncSetAttribute) set_function_attribute = nullptr;
  // The runtime sets bytes only.
  decltype(&::cuMemsetD8Async) set_bytes = nullptr;
  decltype(&::cuMemsetD16Async) set_words = nullptr;
  decltype(&::cuMemsetD32Async) set_double_words = nullptr;
  decltype(&::cuMemGetAddressRange) address_range = nullptr;
  // All kernels of a file. Before CUDA 12.4 there are none of these, and load_function is null.
#if CUDA_VERSION >= 12040
  decltype(&::cuFuncGetModule) module_of = nullptr;
  decltype(&::cuModuleGetFunctionCount) function_count = nullptr;
  decltype(&::cuModuleEnumerateFunctions) functions = nullptr;
  decltype(&::cuFuncLoad) load_function = nullptr;
#endif
  // The calling thread's, if it has one.
  decltype(&::cuCtxGetCurrent) current_context = nullptr;
  decltype(&::cuCtxSetCurrent) set_context = nullptr;
  // Whether anybody in the process uses a device, without starting it.
  decltype(&::cuDevicePrimaryCtxGetState) context_state = nullptr;
};

/// Starts the driver at the first call; before that nothing of CUDA has happened in the process.
const Driver& driver();

}  // namespace weir::cuda
