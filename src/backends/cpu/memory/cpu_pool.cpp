// Stream-ordered memory on the CPU.
#include "backends/cpu/memory/cpu_pool.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/memory/address_map.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t smallest_block = 512;
constexpr std::size_t mapped_from = 128 * 1024;  ///< larger blocks come from the system, page by page
constexpr std::size_t huge_page = 2 * 1024 * 1024;
constexpr int few_candidates = 16;   ///< of each class, before the pool grows
constexpr int many_candidates = 64;  ///< the same when it is about to

constexpr std::size_t round_up(std::size_t value, std::size_t to) { return (value + to - 1) / to * to; }

/// The size of a new block for a request: little waste, and few sizes, so that blocks fit again.
std::size_t block_bytes(std::size_t bytes) {
  bytes = round_up(std::max(bytes, smallest_block), smallest_block);
  if (bytes >= huge_page) return round_up(bytes, huge_page);
  return round_up(bytes, std::max(smallest_block, std::bit_floor(bytes) / 4));
}

void* take_from_system(std::size_t bytes, bool mapped) {
  if (!mapped) return std::aligned_alloc(alignment, bytes);
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  if (bytes >= huge_page) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void give_to_system(void* data, std::size_t bytes, bool mapped, SharedFile* file, std::uint64_t offset) {
  if (file != nullptr) {
    file->give(data, bytes, offset);
  } else if (mapped) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
}

/// The work of blocking streams that the legacy stream's next command would wait for. False without memory.
bool add_blocking_streams(CpuQueue& legacy, detail::QueuePlaces& places) {
  bool all = true;
  legacy.device().for_each_queue([&](CpuQueue& queue) {
    if (!queue.blocking()) return;
    const std::uint64_t last = queue.tail();
    if (queue.reached(last)) return;
    auto* place = new (std::nothrow) detail::QueuePlace{&queue, nullptr, last, true};
    if (place != nullptr) {
      places.push(place);
    } else {
      all = false;
    }
  });
  return all;
}

CpuQueue& queue_of(const detail::QueuePlace& place) { return static_cast<CpuQueue&>(*place.queue); }
bool reached(const detail::QueuePlace& place) { return queue_of(place).reached(place.number); }

}  // namespace

bool MemoryAccount::take(std::size_t bytes) {
  std::size_t taken = taken_.load(std::memory_order_relaxed);
  do {
    if (bytes > limit_ || taken > limit_ - bytes) return false;
  } while (!taken_.compare_exchange_weak(taken, taken + bytes, std::memory_order_relaxed));
  return true;
}

CpuPool::CpuPool(Backend& backend, CpuDevice& device, const PoolOptions& options)
    : PoolState(backend, device.index(), options.release_threshold),
      device_(device),
      name_(options.name.empty() ? "pool" : options.name),
      max_size_(options.max_size),
      file_(options.shareable ? std::make_unique<SharedFile>() : nullptr) {}

std::size_t CpuPool::class_of(std::size_t bytes) {
  const auto log = static_cast<std::size_t>(std::bit_width(bytes)) - 1;
  const std::size_t quarter = (bytes >> (log - 2)) & 3;
  return std::min(4 * (log - 9) + quarter, classes - 1);
}

inline void CpuPool::List::push_front(Block& block) {
  block.next = first;
  first = &block;
  if (last == nullptr) last = &block;
}

void CpuPool::List::push_back(Block& block) {
  block.next = nullptr;
  (last != nullptr ? last->next : first) = &block;
  last = &block;
}

inline CpuPool::Block& CpuPool::List::pop_front() {
  Block& block = *first;
  first = block.next;
  if (first == nullptr) last = nullptr;
  return block;
}

/// Whether the block's former life is over: for everybody, or for the next command of the queue that asks. QueuePlaces that are
/// not needed any more go to `spent`. The pool's lock is held.
bool CpuPool::is_over(Block& block, CpuQueue* asking, detail::QueuePlaces& spent) {
  if (block.queue != asking && !block.queue->reached(block.number)) return false;
  if (block.legacy_number != 0) [[unlikely]] {
    CpuQueue& legacy = block.queue->device().legacy();
    const bool behind =
        asking == &legacy || (asking != nullptr && asking->blocking() && &asking->device().legacy() == &legacy);
    if (!behind && !legacy.reached(block.legacy_number)) return false;
  }
  if (block.others.empty()) [[likely]]
    return true;
  block.others.move_to(spent, reached);
  const auto behind = [&](const detail::QueuePlace& place) {
    const CpuQueue& queue = queue_of(place);
    return &queue == asking ||
           (place.implied && asking == &asking->device().legacy() && &block.queue->device() == &asking->device());
  };
  for (const detail::QueuePlace* place = block.others.first(); place != nullptr; place = place->next) {
    if (asking == nullptr || !behind(*place)) return false;
  }
  block.others.move_to(spent, [](const detail::QueuePlace&) { return true; });
  return true;
}

/// A free block of at most about twice the size whose former life is over for `queue`. Those that are in use still go to the
/// end of their list: no stream's memory stands before that of others for long.
CpuPool::Block* CpuPool::take_free(CpuQueue& queue, std::size_t bytes, int candidates, detail::QueuePlaces& spent) {
  const std::size_t from = class_of(bytes);
  const std::size_t to = std::min(class_of(2 * bytes), classes - 1);
  for (std::size_t c = from; c <= to; ++c) {
    List& list = free_[c];
    const Block* seen = nullptr;
    for (int left = candidates; list.first != seen && left > 0; --left) {
      Block& block = list.pop_front();
      if (block.bytes >= bytes && is_over(block, &queue, spent)) return &block;
      list.push_back(block);
      if (seen == nullptr) seen = &block;
    }
  }
  return nullptr;
}

inline void* CpuPool::hand_out(Block& block, std::size_t bytes) {
  block.live = true;
  block.asked = bytes;
  last_ = &block;
  ++live_;
  statistics_.used += bytes;
  statistics_.used_high = std::max(statistics_.used_high, statistics_.used);
  return block.data;
}

void* CpuPool::allocate(Queue& asking, std::size_t bytes, const char* operation, SourceLocation where) {
  auto& queue = static_cast<CpuQueue&>(asking);
  if (bytes == 0) return nullptr;
  if (bytes > device_.memory().limit()) refuse(bytes, queue, operation, where);
  const std::size_t wanted = round_up(bytes, smallest_block);
  {
    SpinGuard guard(lock_);
    List& list = free_[class_of(wanted)];
    if (Block* first = list.first; first != nullptr && first->bytes >= wanted && first->queue == &queue &&
                                   first->legacy_number == 0 && first->others.empty()) [[likely]] {
      return hand_out(list.pop_front(), wanted);
    }
  }
  return allocate_shared(queue, bytes, operation, where);
}

/// Memory that is not this queue's own: somebody else's, or new.
void* CpuPool::allocate_shared(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where) {
  const std::size_t wanted = round_up(bytes, smallest_block);
  detail::QueuePlaces spent;  // ends without the lock
  {
    SpinGuard guard(lock_);
    if (Block* block = take_free(queue, wanted, few_candidates, spent)) return hand_out(*block, wanted);
  }
  return allocate_slowly(queue, bytes, operation, where);
}

void* CpuPool::allocate_slowly(CpuQueue& queue, std::size_t bytes, const char* operation, SourceLocation where) {
  const std::size_t wanted = round_up(bytes, smallest_block);
  detail::QueuePlaces spent;
  const detail::LockGuard growing(growth_mutex_);
  place_again();
  {
    SpinGuard guard(lock_);
    if (Block* block = take_free(queue, wanted, many_candidates, spent)) return hand_out(*block, wanted);
  }
  Block* block = new_block(block_bytes(bytes));
  if (block == nullptr) {
    give_back(0);  // what is free but too small may make room
    block = new_block(block_bytes(bytes));
    if (block == nullptr && block_bytes(bytes) != wanted) block = new_block(wanted);
  }
  if (block == nullptr) refuse(bytes, queue, operation, where);
  SpinGuard guard(lock_);
  return hand_out(*block, wanted);
}

std::size_t CpuPool::wanted_index() {
  SpinGuard guard(lock_);
  return blocks_.wanted_size();
}

/// Null if there is no room, and nothing has changed.
CpuPool::Block* CpuPool::new_block(std::size_t bytes) {
  if (file_ != nullptr) bytes = round_up(bytes, SharedFile::page);
  BlockIndex<Block>::Table table;
  {
    SpinGuard guard(lock_);
    if (max_size_ != 0 && (bytes > max_size_ || statistics_.reserved > max_size_ - bytes)) return nullptr;
  }
  if (!device_.memory().take(bytes)) return nullptr;
  const bool mapped = bytes >= mapped_from;
  std::uint64_t offset = 0;
  void* data = file_ != nullptr ? file_->take(bytes, offset) : take_from_system(bytes, mapped);
  try {
    if (data == nullptr) throw std::bad_alloc();
    auto block = std::make_unique<Block>();
    block->data = data;
    block->bytes = bytes;
    block->mapped = mapped;
    block->offset = offset;
    table.resize(wanted_index());
    address_map().add(data, {bytes, {MemoryKind::device, device_.index(), 0}, false, backend});
    SpinGuard guard(lock_);
    if (!table.empty()) blocks_.grow(table);
    blocks_.add(*block);
    statistics_.reserved += bytes;
    statistics_.reserved_high = std::max(statistics_.reserved_high, statistics_.reserved);
    return block.release();
  } catch (const std::bad_alloc&) {
    if (data != nullptr) give_to_system(data, bytes, mapped, file_.get(), offset);
    device_.memory().give(bytes);
    return nullptr;
  }
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

detail::SharedMemory CpuPool::share(void* data, const char* operation, SourceLocation where) {
  if (file_ == nullptr) {
    throw Error(Errc::not_supported, operation, "pool '" + name_ + "'",
                "its memory is this process's own: make the array in a pool with PoolOptions{.shareable = true}, by "
                "weir::empty<T>(stream, shape, pool)",
                where);
  }
  SpinGuard guard(lock_);
  const Block* block = blocks_.find(data);
  if (block == nullptr || !block->live) {
    throw Error(Errc::invalid_value, operation, "pool '" + name_ + "'",
                "this address is not the beginning of an allocation of it", where);
  }
  detail::SharedMemory shared;
  shared.file = file_->number();
  shared.offset = block->offset;
  shared.bytes = block->bytes;
  return shared;
}

void CpuPool::refuse_release(CpuQueue& queue, bool known, SourceLocation where) {
  if (known) {
    throw Error(Errc::already_freed, "weir::Pool::free", queue.label(), "this memory was given back before", where);
  }
  throw Error(Errc::invalid_value, "weir::Pool::free", queue.label(),
              "this address is not the beginning of an allocation of pool '" + name_ + "'", where);
}

/// `others`: null where there are none.
template <bool has_others>
[[gnu::always_inline]] inline void CpuPool::take_back(CpuQueue& queue, bool open, detail::QueuePlaces* others,
                                                      void* data, SourceLocation where) {
  bool placed = true;
  std::uint64_t legacy_number = 0;
  if constexpr (has_others) {
    if (queue.legacy()) placed = add_blocking_streams(queue, *others);
  }
  if (!queue.legacy() && open && queue.blocking()) {
    CpuQueue& legacy = queue.device().legacy();
    const std::uint64_t last = legacy.tail();
    if (!legacy.reached(last)) legacy_number = last;
  }
  const std::uint64_t number = queue.tail();
  CpuDevice& device = device_;
  Block* block = nullptr;
  bool live = false;
  bool last_of_closed = false;
  {
    SpinGuard guard(lock_);
    block = last_ != nullptr && last_->data == data ? last_ : blocks_.find(data);
    live = block != nullptr && block->live;
    if (live) [[likely]] {
      block->live = false;
      block->queue = &queue;
      block->number = number;
      block->legacy_number = legacy_number;
      if constexpr (has_others) block->others = std::move(*others);  // of a live block there are none
      if (placed) [[likely]] {
        free_[class_of(block->bytes)].push_front(*block);
      } else {
        block->next = unplaced_;
        unplaced_ = block;
      }
      last_ = block;
      statistics_.used -= block->asked;
      last_of_closed = --live_ == 0 && closed_;
    }
  }
  if (!live) [[unlikely]]
    refuse_release(queue, block != nullptr, where);
  if (last_of_closed) [[unlikely]]
    device.after_synchronize();
}

void CpuPool::release(Queue& queue, bool open, StreamId, detail::QueuePlaces& others, void* data,
                      SourceLocation where) {
  if (data == nullptr) return;
  for (detail::QueuePlace* place = others.first(); place != nullptr; place = place->next) {
    place->number = queue_of(*place).tail();
  }
  take_back<true>(static_cast<CpuQueue&>(queue), open, &others, data, where);
}

void CpuPool::release_unshared(Queue& home, bool open, StreamId owner, void* data, SourceLocation where) {
  if (data == nullptr) return;
  auto& queue = static_cast<CpuQueue&>(home);
  if (queue.legacy()) [[unlikely]] {
    detail::QueuePlaces blocking_streams;
    release(queue, open, owner, blocking_streams, data, where);
    return;
  }
  take_back<false>(queue, open, nullptr, data, where);
}

/// Blocks that were freed when there was no memory for their places get those of now.
void CpuPool::place_again() {
  for (;;) {
    Block* block = nullptr;
    {
      SpinGuard guard(lock_);
      if (unplaced_ == nullptr) return;
      block = std::exchange(unplaced_, unplaced_->next);
    }
    const bool placed = add_blocking_streams(*block->queue, block->others);
    SpinGuard guard(lock_);
    if (!placed) {
      block->next = unplaced_;
      unplaced_ = block;
      return;
    }
    free_[class_of(block->bytes)].push_front(*block);
  }
}

/// Gives free memory back to the system until the pool has no more than this.
void CpuPool::give_back(std::size_t keep) {
  detail::QueuePlaces spent;
  place_again();
  Block* dropped = nullptr;
  std::size_t bytes = 0;
  for (std::size_t c = classes; c-- > 0;) {
    SpinGuard guard(lock_);
    List kept;
    List& list = free_[c];
    while (list.first != nullptr) {
      Block& block = list.pop_front();
      if (statistics_.reserved - bytes <= keep || !is_over(block, nullptr, spent)) {
        kept.push_back(block);
        continue;
      }
      blocks_.remove(block);
      if (last_ == &block) last_ = nullptr;
      bytes += block.bytes;
      block.next = dropped;
      dropped = &block;
    }
    list = kept;
  }
  while (dropped != nullptr) {
    const std::unique_ptr<Block> block(std::exchange(dropped, dropped->next));
    address_map().remove(block->data, false);
    give_to_system(block->data, block->bytes, block->mapped, file_.get(), block->offset);
    device_.memory().give(block->bytes);
  }
  SpinGuard guard(lock_);
  statistics_.reserved -= bytes;
}

void CpuPool::trim(std::size_t keep) {
  const detail::LockGuard growing(growth_mutex_);
  give_back(keep);
}

bool CpuPool::after_synchronize() {
  const std::size_t keep = release_threshold();
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

void CpuPool::set_release_threshold(std::size_t bytes) {
  PoolState::set_release_threshold(bytes);
  device_.watch_pool(*this);
}

void CpuPool::close() noexcept {
  CpuDevice& device = device_;
  {
    SpinGuard guard(lock_);
    closed_ = true;
    threshold_.store(0, std::memory_order_relaxed);
  }
  // From here on another thread's synchronisation may delete the pool, which this one does otherwise.
  device.after_synchronize();
}

}  // namespace weir::cpu
