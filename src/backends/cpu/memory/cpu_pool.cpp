// Stream-ordered memory on the CPU.
#include "backends/cpu/memory/cpu_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <mutex>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/memory/address_map.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t smallest_block = 512;
constexpr std::size_t mapped_from = 128 * 1024;  ///< larger blocks come from the system, page by page
constexpr std::size_t huge_page = 2 * 1024 * 1024;
constexpr int most_candidates = 16;

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// The size of a new block for a request: little waste, and few sizes, so that blocks fit again.
std::size_t block_bytes(std::size_t bytes) {
  bytes = round_up(std::max(bytes, smallest_block), smallest_block);
  if (bytes >= huge_page) return round_up(bytes, huge_page);
  return round_up(bytes, std::max(smallest_block, std::bit_floor(bytes) / 4));
}

void* take_from_system(std::size_t bytes, bool& mapped) {
  mapped = bytes >= mapped_from;
  if (!mapped) return std::aligned_alloc(alignment, bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= huge_page) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

}  // namespace

bool MemoryAccount::take(std::size_t bytes) {
  std::size_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || taken > limit_ - bytes) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

CpuPool::CpuPool(Backend& backend, CpuDevice& device, const PoolOptions& options)
    : device_(device),
      name_(options.name.empty() ? "pool" : options.name),
      max_size_(options.max_size),
      threshold_(options.release_threshold) {
  this->backend = &backend;
  this->device = device.index();
}

std::size_t CpuPool::class_of(std::size_t bytes) {
  const auto log = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  const std::size_t quarter = (bytes >> (log - 2)) & 3;
  return std::min(4 * (log - 9) + quarter, classes - 1);
}

/// A free block of at most about twice the size whose former life is over for `queue`. The lock is held.
CpuPool::Block* CpuPool::take_free(CpuQueue& queue, std::size_t bytes) {
  const std::size_t from = class_of(bytes);
  const std::size_t to = std::min(class_of(2 * bytes), classes - 1);
  for (std::size_t c = from; c <= to; ++c) {
    int candidates = most_candidates;
    for (Block** link = &free_[c]; *link != nullptr && candidates-- > 0; link = &(*link)->next) {
      Block* block = *link;
      if (block->bytes < bytes) continue;
      if (block->queue != &queue && !block->queue->reached(block->sequence)) continue;
      *link = block->next;
      return block;
    }
  }
  return nullptr;
}

CpuPool::Block* CpuPool::new_block(std::size_t bytes) {
  if (max_size_ != 0) {
    SpinGuard guard(lock_);
    if (bytes > max_size_ || statistics_.reserved > max_size_ - bytes) return nullptr;
  }
  if (!device_.memory().take(bytes)) return nullptr;
  bool mapped = false;
  void* data = take_from_system(bytes, mapped);
  if (data == nullptr) {
    device_.memory().give(bytes);
    return nullptr;
  }
  auto block = std::make_unique<Block>(Block{data, bytes});
  block->mapped = mapped;
  Block* raw = block.get();
  address_map().add(data, {bytes, {MemoryKind::device, device_.index(), 0}, false});
  SpinGuard guard(lock_);
  blocks_.emplace(data, std::move(block));
  statistics_.reserved += bytes;
  statistics_.reserved_high = std::max(statistics_.reserved_high, statistics_.reserved);
  return raw;
}

void* CpuPool::allocate(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where) {
  if (bytes == 0) return nullptr;
  if (bytes > device_.memory().limit()) refuse(bytes, queue, operation, where);
  const std::size_t wanted = round_up(bytes, smallest_block);
  Block* block;
  {
    SpinGuard guard(lock_);
    block = take_free(queue, wanted);
    if (block != nullptr) {
      block->live = true;
      block->asked = wanted;
      last_ = block;
      ++live_;
      statistics_.used += wanted;
      statistics_.used_high = std::max(statistics_.used_high, statistics_.used);
      return block->data;
    }
  }
  block = new_block(block_bytes(bytes));
  if (block == nullptr) {
    trim(0);  // what is free but too small may make room
    block = new_block(block_bytes(bytes));
    if (block == nullptr && block_bytes(bytes) != wanted) block = new_block(wanted);
  }
  if (block == nullptr) refuse(bytes, queue, operation, where);
  SpinGuard guard(lock_);
  block->asked = wanted;
  last_ = block;
  ++live_;
  statistics_.used += wanted;
  statistics_.used_high = std::max(statistics_.used_high, statistics_.used);
  return block->data;
}

void CpuPool::refuse(std::size_t bytes, CpuQueue& queue, const char* operation, SourceLocation where) {
  const PoolStatistics now = statistics();
  throw Error(
      Errc::out_of_memory, operation, queue.label(),
      std::to_string(bytes) + " bytes do not fit: pool '" + name_ + "' holds " + std::to_string(now.reserved) +
          " bytes, " + std::to_string(now.used) + " of them in use; its limit is " +
          std::to_string(max_size_ != 0 ? std::min(max_size_, device_.memory().limit()) : device_.memory().limit()),
      where);
}

void CpuPool::release(CpuQueue& queue, void* data, SourceLocation where) {
  if (data == nullptr) return;
  const std::uint64_t end_of_life = queue.legacy() ? queue.mark() : queue.tail();
  CpuDevice& device = device_;
  bool last_of_closed = false;
  {
    SpinGuard guard(lock_);
    Block* block = last_ != nullptr && last_->data == data ? last_ : nullptr;
    if (block == nullptr) {
      const auto found = blocks_.find(data);
      if (found != blocks_.end()) block = found->second.get();
    }
    if (block == nullptr) {
      throw Error(Errc::invalid_value, "weir::Pool::free", queue.label(),
                  "this address is not the beginning of an allocation of pool '" + name_ + "'", where);
    }
    if (!block->live) {
      throw Error(Errc::already_freed, "weir::Pool::free", queue.label(), "this memory was given back before", where);
    }
    block->live = false;
    block->queue = &queue;
    block->sequence = end_of_life;
    const std::size_t c = class_of(block->bytes);
    block->next = free_[c];
    free_[c] = block;
    last_ = block;
    statistics_.used -= block->asked;
    last_of_closed = --live_ == 0 && closed_;
  }
  if (last_of_closed) device.after_synchronize();
}

/// The block is in no list any more. The lock is held.
void CpuPool::drop(Block* block) {
  address_map().remove(block->data, false);
  if (block->mapped) {
    munmap(block->data, block->bytes);
  } else {
    std::free(block->data);
  }
  device_.memory().give(block->bytes);
  statistics_.reserved -= block->bytes;
  if (last_ == block) last_ = nullptr;
  blocks_.erase(block->data);
}

void CpuPool::trim(std::size_t keep) {
  SpinGuard guard(lock_);
  for (std::size_t c = classes; c-- > 0 && statistics_.reserved > keep;) {
    for (Block** link = &free_[c]; *link != nullptr && statistics_.reserved > keep;) {
      Block* block = *link;
      if (block->queue->reached(block->sequence)) {
        *link = block->next;
        drop(block);
      } else {
        link = &block->next;
      }
    }
  }
}

bool CpuPool::after_synchronize() {
  const std::size_t keep = threshold();
  {
    SpinGuard guard(lock_);
    if (statistics_.reserved <= keep && !closed_) return false;
  }
  trim(keep);
  SpinGuard guard(lock_);
  return closed_ && live_ == 0 && blocks_.empty();
}

PoolStatistics CpuPool::statistics() {
  SpinGuard guard(lock_);
  return statistics_;
}

void CpuPool::reset_high_marks() {
  SpinGuard guard(lock_);
  statistics_.reserved_high = statistics_.reserved;
  statistics_.used_high = statistics_.used;
}

void CpuPool::close() {
  CpuDevice& device = device_;
  {
    SpinGuard guard(lock_);
    closed_ = true;
  }
  set_threshold(0);
  device.after_synchronize();  // where a pool that is closed and empty is deleted
}

}  // namespace weir::cpu
