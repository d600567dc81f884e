// Pinned host memory: kept for use again, because giving it to the driver waits for all kernels (R58); and memory of the
// user's that is pinned in place.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend.hpp"
#include "thread_safety.hpp"

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
  void collect_pending() WEIR_NEEDS(free_mutex_);

  mutable detail::SharedMutex ranges_mutex_;
  std::map<std::uintptr_t, Range> ranges_ WEIR_GUARDED_BY(ranges_mutex_);
  detail::Mutex free_mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_ WEIR_GUARDED_BY(free_mutex_);  ///< by class
  std::deque<Pending> pending_ WEIR_GUARDED_BY(free_mutex_);
  std::map<int, std::vector<cudaEvent_t>> free_events_ WEIR_GUARDED_BY(free_mutex_);
};

}  // namespace weir::cuda
