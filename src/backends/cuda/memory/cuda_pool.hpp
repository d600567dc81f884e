// A stream-ordered pool: the driver's, with the books that misuse is found by. The default pool has a small cache of
// blocks in front of the driver's, each for the queue that freed it.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <unordered_map>

#include "backend.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;

class CudaPool;

/// Dead memory, and behind what it ends: where a queue has another owner by now, that is over.
struct DeadBlock {
  CudaPool* pool = nullptr;
  void* data = nullptr;
  CudaQueue* queue = nullptr;
  StreamId owner = 0;
  bool open = false;  ///< the owner has the queue still, and nobody else was given the memory
  detail::QueuePlaces others;
  std::unique_ptr<DeadBlock> next;
};

class CudaPool final : public detail::PoolState {
 public:
  CudaPool(CudaDevice& device, const PoolOptions& options);

  void* allocate(Queue& queue, std::size_t bytes, const char* operation, SourceLocation where) override;
  void release(Queue& queue, bool open, StreamId owner, detail::QueuePlaces& others, void* data,
               SourceLocation where) override;
  /// The same again, for one that was put off.
  void free_again(std::unique_ptr<DeadBlock> block) noexcept;
  /// It is not deleted meanwhile.
  void hold();
  void let_go() noexcept { leave(); }
  void trim(std::size_t keep) override;
  void set_release_threshold(std::size_t bytes) override;
  PoolStatistics statistics() override;
  void reset_high_marks() override;
  void close() noexcept override;
  /// What other processes import an allocation by. Throws not_supported where the pool is not shareable, invalid_value.
  detail::SharedMemory share(void* data, const char* operation, SourceLocation where);
  /// Hands the blocks of the cache to the driver's pool, each in the order of its queue.
  void flush() noexcept;
  void flush_until_free();
  /// Lets another device reach the pool's memory, or not any more, as is set now.
  void update_access(int device);

 private:
  struct Block {
    std::size_t asked = 0;  ///< as told in the statistics
    std::size_t bytes = 0;  ///< as taken from the driver
    bool live = false;
  };
  struct Cached {
    void* data;
    std::size_t bytes;
    CudaQueue* queue;
    StreamId owner;
  };
  static constexpr std::size_t most_cached = 32;
  static constexpr std::size_t most_cached_bytes = std::size_t{1} << 30;
  static constexpr std::size_t most_remembered = 4096;

  cudaMemPool_t native(SourceLocation where);
  bool caches() const { return release_threshold() == ~std::size_t{0}; }
  Block* find(void* data) WEIR_NEEDS(mutex_);
  void* take_cached(CudaQueue& queue, std::size_t bytes) WEIR_NEEDS(mutex_);
  void count_taken(std::size_t bytes) WEIR_NEEDS(mutex_);
  cudaError_t take_from_driver(CudaQueue& queue, std::size_t bytes, void** data, SourceLocation where);
  static bool give_to_driver(DeadBlock& block) noexcept;
  void give_or_put_off(DeadBlock&& block) noexcept;
  void give_or_put_off(const Cached& cached) noexcept;
  bool over_budget();
  void evict_oldest() noexcept;
  void forget_freed() WEIR_NEEDS(mutex_);
  [[noreturn]] void refuse_bytes(std::size_t bytes, CudaQueue& queue, cudaError_t answer, const char* operation,
                                 SourceLocation where);
  void leave() noexcept;
  void end() noexcept;

  CudaDevice& device_;
  const std::string name_;
  const std::size_t max_size_;
  const bool shareable_;
  detail::Mutex make_mutex_;
  int file_ WEIR_GUARDED_BY(make_mutex_) = -1;  ///< by which other processes import the driver's pool
  detail::Mutex access_mutex_;
  std::atomic<cudaMemPool_t> native_{nullptr};

  detail::Mutex mutex_;
  std::unordered_map<void*, Block> blocks_
      WEIR_GUARDED_BY(mutex_);  ///< live ones, and some that were freed, to tell what was freed twice
  void* last_data_ WEIR_GUARDED_BY(mutex_) = nullptr;  ///< the block that was asked for last
  Block* last_ WEIR_GUARDED_BY(mutex_) = nullptr;
  std::array<Cached, most_cached> cache_ WEIR_GUARDED_BY(mutex_);
  std::size_t cached_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t cached_bytes_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t live_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t freed_ WEIR_GUARDED_BY(mutex_) = 0;  ///< entries of blocks_ that are not live
  std::size_t used_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t used_high_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t inside_ WEIR_GUARDED_BY(mutex_) = 0;  ///< calls that give back what may be the last
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::cuda
