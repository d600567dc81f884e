// Facts about a GPU; reading them does not start it.
#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"

namespace weir::cuda {

namespace {

/// From the Programming Guide's table of technical specifications, "maximum number of resident grids per device".
int resident_grids(int major, int minor) {
  if (major == 6) return minor == 1 ? 32 : minor == 2 ? 16 : 128;
  return major < 6 ? 32 : 128;
}

}  // namespace

DeviceProperties CudaDevice::properties() const {
  constexpr const char* operation = "weir::Device::properties";
  cudaDeviceProp facts{};
  check(cudaGetDeviceProperties(&facts, index_), operation, name_, {});
  const auto attribute = [&](cudaDeviceAttr which) {
    int value = 0;
    check(cudaDeviceGetAttribute(&value, which, index_), operation, name_, {});
    return value;
  };
  DeviceProperties p;
  p.name = facts.name;
  p.backend = "cuda";
  p.compute_capability = {facts.major, facts.minor};
  p.multiprocessors = facts.multiProcessorCount;
  p.memory = facts.totalGlobalMem;
  p.concurrent_kernels = facts.concurrentKernels != 0;
  p.async_engine_count = facts.asyncEngineCount;
  p.max_resident_kernels = resident_grids(facts.major, facts.minor);
  // The same for every GPU of CUDA 12 and newer (R13); asking for it would start the device.
  if (attribute(cudaDevAttrStreamPrioritiesSupported) != 0) p.stream_priorities = {0, -5};
  p.max_threads_per_block = static_cast<std::size_t>(facts.maxThreadsPerBlock);
  p.max_shared_bytes_per_block = static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  p.cache_bytes = static_cast<std::size_t>(facts.l2CacheSize);
  p.memory_pools = attribute(cudaDevAttrMemoryPoolsSupported) != 0;
  p.kernels_reach_pageable_memory = attribute(cudaDevAttrPageableMemoryAccess) != 0;
  return p;
}

bool CudaDevice::can_access(int peer) const {
  if (peer == index_) return false;
  int possible = 0;
  cudaError_t answer = cudaDeviceCanAccessPeer(&possible, index_, peer);
  if (answer != cudaSuccess) {  // in a context of the thread's own, perhaps; a scope at once could make the device's
    note(answer);
    const DeviceScope scope(index_);
    answer = cudaDeviceCanAccessPeer(&possible, index_, peer);
  }
  return answer == cudaSuccess && possible != 0;
}

}  // namespace weir::cuda
