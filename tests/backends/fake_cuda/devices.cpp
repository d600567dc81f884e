// Devices: which there are, which is current, what they reach; and the driver's calls by name.
#include <cstring>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

bool exists(int device) { return device >= 0 && static_cast<std::size_t>(device) < world().devices.size(); }
CUcontext primary_of(int device) {
  return reinterpret_cast<CUcontext>(world().devices[static_cast<std::size_t>(device)].get());
}
Device& device_at(int index) { return *world().devices[static_cast<std::size_t>(index)]; }

/// R212 and R116: no device may be synchronised while one of its streams is captured, and beside another thread's
/// capture the driver crashes.
cudaError_t synchronize(Call& call) {
  const int device = current_device();
  device_at(device).started = true;
  for (const auto& capture : world().captures) {
    bool here = false;
    for (const CUstream_st* stream : capture->streams) here = here || stream->device == device;
    if (!here) continue;
    if (capture->owner != std::this_thread::get_id()) {
      violate(call, "R212", "of device " + std::to_string(device) + " while another thread captures");
    }
    return invalidate(*capture, cudaErrorStreamCaptureUnsupported);
  }
  if (const cudaError_t no = unsafe(call)) return no;
  for (const OpRef& op : last_ops(device)) wait_for(call, op);
  release_unused(device);
  return static_cast<cudaError_t>(world().failure);
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  FAKE_CALL(cudaGetDeviceCount, after_failure, {
    *count = static_cast<int>(world().devices.size());
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}
cudaError_t cudaGetDevice(int* device) {
  FAKE_CALL(cudaGetDevice, after_failure, {
    *device = current_device();
    return cudaSuccess;
  });
}
cudaError_t cudaSetDevice(int device) {
  FAKE_CALL(cudaSetDevice, after_failure, {
    if (!exists(device)) return cudaErrorInvalidDevice;
    current_device() = device;
    foreign_context() = nullptr;
    has_context() = true;
    device_at(device).started = true;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) {
  FAKE_CALL(cudaDeviceGetLimit, plain, {
    *value = 1024;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) {
  FAKE_CALL(cudaDeviceSetLimit, plain, { return cudaSuccess; });
}
cudaError_t cudaDeviceSynchronize() {
  FAKE_CALL(cudaDeviceSynchronize, plain, { return synchronize(call); });
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  FAKE_CALL(cudaGetDeviceProperties, after_failure, {
    if (!exists(device)) return cudaErrorInvalidDevice;
    *properties = {};
    std::strcpy(properties->name, "the fake driver's GPU");
    properties->uuid.bytes[0] = static_cast<char>(1 + device);
    properties->major = 9;
    properties->multiProcessorCount = 132;
    properties->totalGlobalMem = std::size_t{8} << 30;
    properties->concurrentKernels = 1;
    properties->asyncEngineCount = 3;
    properties->maxThreadsPerBlock = 1024;
    properties->l2CacheSize = 60 << 20;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  FAKE_CALL(cudaDeviceGetAttribute, after_failure, {
    if (!exists(device)) return cudaErrorInvalidDevice;
    switch (attribute) {
      case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 232448; return cudaSuccess;
      case cudaDevAttrMemoryPoolSupportedHandleTypes: *value = cudaMemHandleTypePosixFileDescriptor; return cudaSuccess;
      case cudaDevAttrMemoryPoolsSupported:
      case cudaDevAttrStreamPrioritiesSupported: *value = 1; return cudaSuccess;
      case cudaDevAttrPageableMemoryAccess: *value = 0; return cudaSuccess;
      case cudaDevAttrMultiProcessorCount: *value = 132; return cudaSuccess;
      case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; return cudaSuccess;
      default: return cudaErrorInvalidValue;
    }
  });
}
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  FAKE_CALL(cudaGetDeviceFlags, after_failure, {
    *flags = device_at(current_device()).flags;
    return cudaSuccess;
  });
}
cudaError_t cudaSetDeviceFlags(unsigned flags) {
  FAKE_CALL(cudaSetDeviceFlags, after_failure, {
    if ((flags & ~static_cast<unsigned>(cudaDeviceMask)) != 0) return cudaErrorInvalidValue;
    device_at(current_device()).flags = flags;
    return cudaSuccess;
  });
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKE_CALL(cudaDeviceCanAccessPeer, plain, {
    if (!exists(device) || !exists(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && device_at(device).out_of_reach.count(peer) == 0 ? 1 : 0;
    return cudaSuccess;
  });
}
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  FAKE_CALL(cudaDeviceEnablePeerAccess, plain, {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!exists(peer)) return cudaErrorInvalidDevice;
    if (peer == current_device()) return cudaErrorPeerAccessUnsupported;
    const bool made = device_at(current_device()).peers.insert(peer).second;
    return made ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}
cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  FAKE_CALL(cudaDeviceDisablePeerAccess, plain, {
    if (!exists(peer)) return cudaErrorInvalidDevice;
    return device_at(current_device()).peers.erase(peer) > 0 ? cudaSuccess : cudaErrorPeerAccessNotEnabled;
  });
}
CUresult cuCtxGetCurrent(CUcontext* context) {
  *context = foreign_context() != nullptr ? foreign_context() : has_context() ? primary_of(current_device()) : nullptr;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  const Hidden hidden;
  foreign_context() = nullptr;
  has_context() = context != nullptr;
  for (std::size_t i = 0; context != nullptr && i <= world().devices.size(); ++i) {
    const int device = static_cast<int>(i);
    if (i == world().devices.size()) {
      foreign_context() = context;
    } else if (context == primary_of(device)) {
      current_device() = device;
      break;
    }
  }
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  *flags = 0;
  *active = exists(device) && device_at(device).started ? 1 : 0;
  return CUDA_SUCCESS;
}

namespace {
cudaError_t entry_point(const char* name, void** found, cudaDriverEntryPointQueryResult* result) {
  *found = nullptr;
  const auto is = [&](const char* one) { return std::strcmp(name, one) == 0; };
  if (is("cuLaunchKernel")) *found = reinterpret_cast<void*>(&cuLaunchKernel);
  if (is("cuEventRecord")) *found = reinterpret_cast<void*>(&cuEventRecord);
  if (is("cuStreamWaitEvent")) *found = reinterpret_cast<void*>(&cuStreamWaitEvent);
  if (is("cuStreamSynchronize")) *found = reinterpret_cast<void*>(&cuStreamSynchronize);
  if (is("cuLaunchHostFunc")) *found = reinterpret_cast<void*>(&cuLaunchHostFunc);
  if (is("cuStreamWriteValue32")) *found = reinterpret_cast<void*>(&cuStreamWriteValue32);
  if (is("cuStreamWaitValue32")) *found = reinterpret_cast<void*>(&cuStreamWaitValue32);
  if (is("cuGraphLaunch")) *found = reinterpret_cast<void*>(&cuGraphLaunch);
  if (is("cuGraphExecKernelNodeSetParams")) *found = reinterpret_cast<void*>(&cuGraphExecKernelNodeSetParams);
  if (is("cuGraphKernelNodeSetParams")) *found = reinterpret_cast<void*>(&cuGraphKernelNodeSetParams);
  if (is("cuOccupancyMaxPotentialBlockSize")) *found = reinterpret_cast<void*>(&cuOccupancyMaxPotentialBlockSize);
  if (is("cuOccupancyMaxActiveBlocksPerMultiprocessor"))
    *found = reinterpret_cast<void*>(&cuOccupancyMaxActiveBlocksPerMultiprocessor);
  if (is("cuFuncGetAttribute")) *found = reinterpret_cast<void*>(&cuFuncGetAttribute);
  if (is("cuFuncSetAttribute")) *found = reinterpret_cast<void*>(&cuFuncSetAttribute);
  if (is("cuMemsetD8Async")) *found = reinterpret_cast<void*>(&cuMemsetD8Async);
  if (is("cuMemsetD16Async")) *found = reinterpret_cast<void*>(&cuMemsetD16Async);
  if (is("cuMemsetD32Async")) *found = reinterpret_cast<void*>(&cuMemsetD32Async);
  if (is("cuMemGetAddressRange")) *found = reinterpret_cast<void*>(&cuMemGetAddressRange);
  if (is("cuCtxSetCurrent")) *found = reinterpret_cast<void*>(&cuCtxSetCurrent);
  if (is("cuCtxGetCurrent")) *found = reinterpret_cast<void*>(&cuCtxGetCurrent);
  if (is("cuDevicePrimaryCtxGetState")) *found = reinterpret_cast<void*>(&cuDevicePrimaryCtxGetState);
  if (result != nullptr) {
    *result = *found != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}
}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** found, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  return entry_point(name, found, result);
}

}  // extern "C"
