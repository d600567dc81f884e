// Pinned host memory: kept for use again, because giving it to the driver waits for all kernels (R58); and memory of the
// user's that is pinned in place.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backend.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;

class PinnedMemory final : public detail::HostMemory {
 public:
  static PinnedMemory& instance();

  enum class WithoutMemory : std::uint8_t {
    give_back,  ///< blocks of other sizes go to the driver first, which waits for the devices (R58)
    say_so,
  };
  /// Waits for the devices before it says that there is no memory, if at all. Aligned to 256 bytes.
  void* take(std::size_t bytes, const char* operation, SourceLocation where,
             WithoutMemory without = WithoutMemory::give_back);
  /// The same for what is given back soon: up to `staging` bytes come from a stock, which needs no call of the driver's.
  void* take_for_staging(std::size_t bytes, const char* operation, SourceLocation where);
  /// From any thread, the driver's own too: no call of CUDA's.
  void give(void* data) noexcept;
  /// The same once the queue has reached this point.
  void give_after(void* data, CudaQueue& queue) noexcept;

  static constexpr std::size_t staging = std::size_t{1} << 20;
  static constexpr std::size_t staging_blocks = 8;  ///< in the stock, for the first copies of a size
  /// Fills the stock, on the housekeeping thread.
  void fill_soon() noexcept;

  void* allocate(std::size_t bytes, const char* operation, SourceLocation where) override {
    return take(bytes, operation, where);
  }
  void release(void* data) noexcept override { give(data); }
  void pin(const void* data, std::size_t bytes, SourceLocation where) override;
  void unpin(const void* data, SourceLocation where) override;
  std::optional<PointerInfo> find(const void* data) const;

 private:
  struct Range {
    std::size_t bytes;  ///< of the block
    bool pinned_in_place;
    bool with_driver = false;  ///< which is pinning or unpinning it at this moment: not to be relied on
  };
  static std::size_t class_of(std::size_t bytes);
  void* take_free(std::size_t size);
  void* make(std::size_t size, cudaError_t& answer);
  bool give_back_free() noexcept;
  void refill(std::size_t size) noexcept;

  mutable detail::SharedMutex ranges_mutex_;
  std::map<std::uintptr_t, Range> ranges_ WEIR_GUARDED_BY(ranges_mutex_);
  detail::Mutex free_mutex_;
  std::unordered_map<std::size_t, std::vector<void*>> free_ WEIR_GUARDED_BY(free_mutex_);  ///< by class
  std::atomic<bool> filling_{false};
};

}  // namespace weir::cuda
