// Stream-ordered memory on the CPU. A freed block remembers the places in the order of streams that end its life; whoever
// is behind them may have it at once. Nothing enters a queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend.hpp"
#include "backends/cpu/memory/block_index.hpp"
#include "backends/cpu/memory/shared_file.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

class CpuDevice;
class CpuQueue;

/// A device's memory, shared by its pools.
class MemoryAccount {
 public:
  explicit MemoryAccount(std::size_t limit) : limit_(limit) {}
  bool take(std::size_t bytes);
  void give(std::size_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t limit() const { return limit_; }

 private:
  const std::size_t limit_;
  std::atomic<std::size_t> taken_{0};
};

class CpuPool final : public detail::PoolState {
 public:
  CpuPool(Backend& backend, CpuDevice& device, const PoolOptions& options);

  void* allocate(Queue& queue, std::size_t bytes, const char* operation, SourceLocation where) override;
  void release(Queue& queue, bool open, StreamId, detail::QueuePlaces& others, void* data,
               SourceLocation where) override;
  void release_unshared(Queue& queue, bool open, StreamId, void* data, SourceLocation where) override;
  void trim(std::size_t keep) override;
  /// Gives back what the threshold does not keep. True if the pool is closed and empty: the caller deletes it.
  bool after_synchronize();
  void set_release_threshold(std::size_t bytes) override;
  PoolStatistics statistics() override;
  void reset_high_marks() override;
  void close() noexcept override;
  const std::string& name() const { return name_; }
  /// For other processes: where an allocation is in the pool's file. Throws not_supported without a file, invalid_value.
  detail::SharedMemory share(void* data, const char* operation, SourceLocation where);

 private:
  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t asked = 0;
    // Of the free block: behind all of these anybody may use it.
    CpuQueue* queue = nullptr;
    std::uint64_t number = 0;
    std::uint64_t legacy_number = 0;  ///< in the legacy queue of `queue`'s device
    detail::QueuePlaces others;
    Block* next = nullptr;   ///< in its list
    Block* chain = nullptr;  ///< in the index
    bool live = true;
    bool mapped = false;
    std::uint64_t offset = 0;  ///< in the pool's file, if it has one
  };
  struct List {
    Block* first = nullptr;
    Block* last = nullptr;
    void push_front(Block& block);
    void push_back(Block& block);
    Block& pop_front();
  };
  /// Free blocks by size, four classes to each doubling.
  static constexpr std::size_t classes = 4 * 48;
  static std::size_t class_of(std::size_t bytes);

  static bool is_over(Block& block, CpuQueue* asking, detail::QueuePlaces& spent);
  Block* take_free(CpuQueue& queue, std::size_t bytes, int candidates, detail::QueuePlaces& spent) WEIR_NEEDS(lock_);
  void* hand_out(Block& block, std::size_t bytes) WEIR_NEEDS(lock_);
  void* allocate_shared(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where);
  void* allocate_slowly(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where);
  Block* new_block(std::size_t bytes) WEIR_NEEDS(growth_mutex_);
  std::size_t wanted_index();
  void place_again() WEIR_NEEDS(growth_mutex_);
  void give_back(std::size_t keep) WEIR_NEEDS(growth_mutex_);
  template <bool has_others>
  void take_back(CpuQueue& queue, bool open, detail::QueuePlaces* others, void* data, SourceLocation where);
  [[noreturn]] void refuse_release(CpuQueue& queue, bool known, SourceLocation where);
  [[noreturn]] void refuse(std::size_t bytes, CpuQueue& queue, const char* operation, SourceLocation where);

  CpuDevice& device_;
  const std::string name_;
  const std::size_t max_size_;
  const std::unique_ptr<SharedFile> file_;  ///< of a shareable pool: all its blocks are in it

  /// Taken before lock_ by whoever takes memory from the system or gives it back: calls of the system take their time, and
  /// the pool's size changes in no other way.
  detail::Mutex growth_mutex_;
  SpinLock lock_;
  std::array<List, classes> free_ WEIR_GUARDED_BY(lock_){};
  BlockIndex<Block> blocks_ WEIR_GUARDED_BY(lock_);   ///< and changed under growth_mutex_ alone
  Block* last_ WEIR_GUARDED_BY(lock_) = nullptr;      ///< the block used last, often asked for next
  Block* unplaced_ WEIR_GUARDED_BY(lock_) = nullptr;  ///< freed, but without memory for the places
  PoolStatistics statistics_ WEIR_GUARDED_BY(lock_);
  std::size_t live_ WEIR_GUARDED_BY(lock_) = 0;
  bool closed_ WEIR_GUARDED_BY(lock_) = false;
};

}  // namespace weir::cpu
