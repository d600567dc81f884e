// Stream-ordered memory on the CPU. A freed block remembers the place in its stream's order that ends its life; whoever
// is behind that place may have it at once. Nothing enters a queue.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "backend.hpp"
#include "backends/cpu/workers/futex.hpp"

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

  void* allocate(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where);
  void release(CpuQueue& queue, void* data, SourceLocation where);
  void trim(std::size_t keep);
  /// Gives back what the threshold does not keep. True if the pool is closed and empty: the caller deletes it.
  bool after_synchronize();
  std::size_t threshold() const { return threshold_.load(std::memory_order_relaxed); }
  void set_threshold(std::size_t bytes) { threshold_.store(bytes, std::memory_order_relaxed); }
  PoolStatistics statistics();
  void reset_high_marks();
  /// The owner is gone; the pool goes with its last allocation.
  void close();
  const std::string& name() const { return name_; }

 private:
  struct Block {
    void* data;
    std::size_t bytes;
    std::size_t asked = 0;
    CpuQueue* queue = nullptr;  ///< of the free block: behind `sequence` of this queue anybody may use it
    std::uint64_t sequence = 0;
    Block* next = nullptr;
    bool live = true;
    bool mapped = false;
  };
  /// Free blocks by size, four classes to each doubling.
  static constexpr std::size_t classes = 4 * 48;
  static std::size_t class_of(std::size_t bytes);

  Block* take_free(CpuQueue& queue, std::size_t bytes);
  Block* new_block(std::size_t bytes);
  void drop(Block* block);
  [[noreturn]] void refuse(std::size_t bytes, CpuQueue& queue, const char* operation, SourceLocation where);

  CpuDevice& device_;
  const std::string name_;
  const std::size_t max_size_;
  std::atomic<std::size_t> threshold_;

  SpinLock lock_;
  std::array<Block*, classes> free_{};                        ///< guarded by lock_
  std::unordered_map<void*, std::unique_ptr<Block>> blocks_;  ///< guarded by lock_
  Block* last_ = nullptr;      ///< guarded by lock_: the block used last, often asked for next
  PoolStatistics statistics_;  ///< guarded by lock_
  std::size_t live_ = 0;       ///< guarded by lock_
  bool closed_ = false;        ///< guarded by lock_
};

}  // namespace weir::cpu
