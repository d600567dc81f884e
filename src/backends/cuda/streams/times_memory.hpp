// Where kernels note when they ran: device memory that they write, and pinned memory that it is copied to.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include <weir/detail/device_code.hpp>
#include <weir/source_location.hpp>

#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;

/// Of one device, made when it starts: whoever observes later makes nothing (R214). Where all blocks are in use, times are
/// taken by events. Thread rule: any thread; takes and gives need no call of the driver's.
class TimesMemory {
 public:
  /// Of graphs and their replays.
  static constexpr std::size_t block_size = 256;
  static constexpr std::size_t block_count = 256;
  /// Of a stream's launches, which fetch many at once: what it takes of the driver's time is taken from who launches meanwhile.
  static constexpr std::size_t batch_size = 1024;
  static constexpr std::size_t batch_count = 128;

  /// Of block_size kernels, or batch_size; null: none.
  struct Block {
    detail::KernelTimes* on_device = nullptr;  ///< zero when it is taken
    detail::KernelTimes* on_host = nullptr;
  };

  explicit TimesMemory(CudaDevice& device) : device_(device) {}

  /// With the device current, when it starts.
  void fill(SourceLocation where);

  Block take_for_batch() noexcept;
  /// Nothing writes to it any more, and it is zero again.
  void give_by_batch(Block block) noexcept;
  /// So many of block_size, or none.
  std::vector<Block> take(std::size_t count);
  /// Puts a copy of the first `count` into on_host, and zeros into on_device, behind everything so far in a stream of its own;
  /// the event is recorded behind both. With the device current.
  cudaError_t fetch(Block block, std::size_t count, cudaEvent_t fetched) noexcept;
  /// Puts what time it is on the device into stamped(), and the event right behind that, which takes a time, too. One at once.
  cudaError_t stamp(cudaEvent_t behind) noexcept;
  const detail::KernelTimes& stamped() const { return *stamp_; }
  /// As give_by_batch().
  void give(Block block) noexcept;

  // Of graphs, whose kernels write to the same places in each replay: not zero when they are taken.

  std::vector<Block> take_for_graph(std::size_t count);
  void give_by_graph(const std::vector<Block>& blocks) noexcept;

 private:
  CudaDevice& device_;
  cudaStream_t stream_ = nullptr;  ///< nothing waits in it, but for the copy engine
  detail::KernelTimes* stamp_ = nullptr;
  detail::Mutex mutex_;
  std::vector<Block> for_batches_ WEIR_GUARDED_BY(mutex_);  ///< has room for all
  std::vector<Block> free_ WEIR_GUARDED_BY(mutex_);         ///< likewise
  std::vector<Block> of_graphs_ WEIR_GUARDED_BY(mutex_);    ///< likewise; that no graph has now
};

}  // namespace weir::cuda
