// Pinned host memory: kept for use again, because giving it to the driver waits for all kernels (R58); and memory of the
// user's that is pinned in place.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "backend.hpp"

namespace weir::cuda {

class CudaQueue;

class PinnedMemory {
 public:
  static PinnedMemory& instance();

  /// Never waits for the devices. Aligned to 256 bytes.
  void* take(std::size_t bytes, const char* operation, SourceLocation where);
  /// From any thread, the driver's own too: no call of CUDA's.
  void give(void* data) noexcept;
  /// The same once the queue has reached this point.
  void give_after(void* data, CudaQueue& queue) noexcept;

  void pin(const void* data, std::size_t bytes, SourceLocation where);
  void unpin(const void* data, SourceLocation where);
  std::optional<PointerInfo> find(const void* data) const;

 private:
  struct Range {
    std::size_t bytes;  ///< of the block
    bool pinned_in_place;
  };
  struct Pending {
    cudaEvent_t event;
    int device;
    void* data;
  };
  static std::size_t class_of(std::size_t bytes);
  void collect_pending();

  mutable std::shared_mutex ranges_mutex_;
  std::map<std::uintptr_t, Range> ranges_;  ///< guarded by ranges_mutex_
  std::mutex free_mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_;  ///< by class; guarded by free_mutex_, as the next
  std::deque<Pending> pending_;
  std::map<int, std::vector<cudaEvent_t>> free_events_;
};

}  // namespace weir::cuda
