// Memory between processes.
#include "backends/cuda/memory/cuda_sharing.hpp"

#include <cstring>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"

namespace weir::cuda {

namespace {

[[noreturn]] void refuse(Errc code, const detail::MemorySharing::Foreign& foreign, const std::string& why) {
  throw Error(code, foreign.operation, foreign.object, why, foreign.where);
}

void check(cudaError_t answer, const detail::MemorySharing::Foreign& foreign) {
  cuda::check(answer, foreign.operation, foreign.object, foreign.where);
}

}  // namespace

CudaSharing& CudaSharing::instance() {
  static auto& sharing = *new CudaSharing;
  return sharing;
}

detail::SharedMemory CudaSharing::share(detail::PoolState& pool, void* data, const char* operation,
                                        SourceLocation where) {
  return static_cast<CudaPool&>(pool).share(data, operation, where);
}

cudaMemPool_t CudaSharing::pool_of(int device, const Foreign& foreign) {
  const PoolKey key{foreign.exporter, {foreign.memory.pool, device}};
  if (const auto known = pools_.find(key); known != pools_.end()) return known->second;
  if (foreign.memory.file < 0) refuse(Errc::invalid_value, foreign, "the exporter sent no memory");
  cudaMemPool_t pool = nullptr;
  void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(foreign.memory.file));
  check(cudaMemPoolImportFromShareableHandle(&pool, handle, cudaMemHandleTypePosixFileDescriptor, 0), foreign);
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  access.flags = cudaMemAccessFlagsProtReadWrite;
  cudaMemAccessFlags has = cudaMemAccessFlagsProtNone;
  const cudaError_t asked = cudaMemPoolGetAccess(&has, pool, &access.location);
  if (asked != cudaSuccess || has != cudaMemAccessFlagsProtReadWrite) {
    note(asked);
    if (const cudaError_t answer = cudaMemPoolSetAccess(pool, &access, 1); answer != cudaSuccess) {
      note(answer);
      note(cudaMemPoolDestroy(pool));
      refuse(Errc::wrong_device, foreign,
             "cuda:" + std::to_string(device) + " does not reach its memory: " + cudaGetErrorName(answer));
    }
  }
  pools_.emplace(key, pool);
  return pool;
}

/// The memory is this device's, and as large as the exporter says.
void CudaSharing::check_place(int device, void* data, const Foreign& foreign) const {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, data), foreign);
  if (attributes.type != cudaMemoryTypeDevice || attributes.device != device) {
    refuse(Errc::wrong_device, foreign,
           "its memory is of cuda:" + std::to_string(attributes.device) + ": import it there, and copy");
  }
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  if (driver().address_range(&base, &bytes, address) == CUDA_SUCCESS && bytes < foreign.memory.bytes) {
    refuse(Errc::invalid_value, foreign, "the exporter's memory ends before the array");
  }
}

/// For the ends of imports. Before the lock is taken: where the stock has none left, making one may wait (R214).
void CudaSharing::make_stream(int device, const Foreign& foreign) {
  {
    const detail::LockGuard guard(mutex_);
    if (streams_.count(device) != 0) return;
  }
  Stocks& stocks = CudaDevice::at(device).stocks();
  const cudaStream_t stream = stocks.take_stream(false, 0, foreign.operation, foreign.object, foreign.where);
  const detail::LockGuard guard(mutex_);
  if (!streams_.emplace(device, stream).second) stocks.give_stream(stream, false, 0);
}

void* CudaSharing::map(int device, const Foreign& foreign) {
  CudaDevice::at(device).start(foreign.where);
  make_stream(device, foreign);
  const DeviceScope scope(device);
  const RelaxedScope relaxed;
  const detail::LockGuard guard(mutex_);
  const cudaMemPool_t pool = pool_of(device, foreign);
  for (auto& [data, known] : imported_) {
    if (known.pool != pool || known.pointer != foreign.memory.pointer) continue;
    ++known.users;
    return data;
  }
  cudaMemPoolPtrExportData exported{};
  static_assert(sizeof exported == sizeof foreign.memory.pointer);
  std::memcpy(&exported, foreign.memory.pointer.data(), sizeof exported);
  void* data = nullptr;
  check(cudaMemPoolImportPointer(&data, pool, &exported), foreign);
  try {
    check_place(device, data, foreign);
    imported_.emplace(data, Imported{pool, foreign.memory.pointer, 1});
  } catch (...) {
    free_imported(device, data);
    throw;
  }
  return data;
}

/// In a stream of its own, and over when this returns: the exporter frees only behind it.
void CudaSharing::free_imported(int device, void* data) noexcept {
  const cudaStream_t stream = streams_.at(device);
  note(cudaFreeAsync(data, stream));
  note(cudaStreamSynchronize(stream));
}

void CudaSharing::unmap(int device, void* data, const detail::SharedMemory&) noexcept {
  const DeviceScope scope(device);
  const RelaxedScope relaxed;
  const detail::LockGuard guard(mutex_);
  const auto found = imported_.find(data);
  if (found == imported_.end() || --found->second.users > 0) return;
  imported_.erase(found);
  free_imported(device, data);
}

}  // namespace weir::cuda
