// Memory of pools between processes: by the driver's pools with POSIX descriptors.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <string>
#include <utility>

#include "backend.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaSharing final : public detail::MemorySharing {
 public:
  static CudaSharing& instance();

  detail::SharedMemory share(detail::PoolState& pool, void* data, const char* operation, SourceLocation where) override;
  void* map(int device, const Foreign& foreign) override;
  void unmap(int device, void* data, const detail::SharedMemory& memory) noexcept override;

 private:
  /// An imported allocation, which the driver imports once.
  struct Imported {
    cudaMemPool_t pool = nullptr;
    std::array<std::byte, 64> pointer{};
    int users = 0;
  };
  using PoolKey = std::pair<std::string, std::pair<std::uint64_t, int>>;  ///< exporter, pool, device

  void make_stream(int device, const Foreign& foreign);
  cudaMemPool_t pool_of(int device, const Foreign& foreign) WEIR_NEEDS(mutex_);
  void check_place(int device, void* data, const Foreign& foreign) const;
  void free_imported(int device, void* data) noexcept WEIR_NEEDS(mutex_);

  detail::Mutex mutex_;  ///< a few calls of the driver at each import, which wait for no work
  std::map<PoolKey, cudaMemPool_t> pools_ WEIR_GUARDED_BY(mutex_);  ///< of exporters that are gone, too: they are small
  std::map<void*, Imported> imported_ WEIR_GUARDED_BY(mutex_);
  std::map<int, cudaStream_t> streams_ WEIR_GUARDED_BY(mutex_);  ///< where imports end; nothing else is in them
};

}  // namespace weir::cuda
