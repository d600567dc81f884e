// Allocation and release in stream order.
#include "backends/cuda/memory/cuda_pool.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
constexpr std::size_t granularity = 512;
constexpr std::size_t round_up(std::size_t bytes) { return (bytes + granularity - 1) / granularity * granularity; }
}  // namespace

CudaPool::CudaPool(CudaDevice& device, const PoolOptions& options)
    : PoolState(device.backend(), device.index(), options.release_threshold),
      device_(device),
      name_(options.name.empty() ? "pool" : options.name),
      max_size_(options.max_size),
      shareable_(options.shareable) {}

cudaMemPool_t CudaPool::native(SourceLocation where) {
  if (const cudaMemPool_t made = native_.load(std::memory_order_acquire)) return made;
  device_.start(where);
  const detail::LockGuard guard(make_mutex_);
  if (const cudaMemPool_t made = native_.load(std::memory_order_relaxed)) return made;
  const DeviceScope scope(device_.index());
  const cudaMemPool_t pool =
      device_.take_driver_pool(max_size_, shareable_, "pool '" + name_ + "' on " + device_.name(), where);
  auto threshold = static_cast<cuuint64_t>(threshold_.load());
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "weir::Pool", name_, where);
  // Before its first allocation: the driver exports allocations only of pools that were exported themselves.
  if (shareable_ && file_ < 0) {
    check(cudaMemPoolExportToShareableHandle(&file_, pool, cudaMemHandleTypePosixFileDescriptor, 0), "weir::Pool",
          name_, where);
  }
  native_.store(
      pool);  // with update_access(): either this sees that access has changed, or who changes it sees the pool
  for (int peer = 0; peer < driver().device_count; ++peer) {
    if (peer != device_.index() && device_.reached_by(peer)) update_access(peer);
  }
  return pool;
}

void CudaPool::update_access(int device) {
  const cudaMemPool_t pool = native_.load();
  if (pool == nullptr) return;
  const detail::LockGuard guard(access_mutex_);  // the last one finds what holds now
  const bool allowed = device_.reached_by(device);
  cudaMemAccessDesc access{};
  access.location.type = cudaMemLocationTypeDevice;
  access.location.id = device;
  const DeviceScope scope(device_.index());
  access.flags = allowed ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
  check(cudaMemPoolSetAccess(pool, &access, 1), "weir::enable_peer_access", name_, {});
}

CudaPool::Block* CudaPool::find(void* data) {
  if (data == last_data_ && last_ != nullptr) return last_;
  const auto found = blocks_.find(data);
  return found == blocks_.end() ? nullptr : &found->second;
}

void CudaPool::count_taken(std::size_t bytes) {
  ++live_;
  used_ += bytes;
  used_high_ = std::max(used_high_, used_);
}

/// A block that this queue freed, of the size or little more.
void* CudaPool::take_cached(CudaQueue& queue, std::size_t bytes) {
  for (std::size_t i = cached_; i-- > 0;) {
    const Cached& cached = cache_[i];
    if (cached.queue != &queue || cached.bytes < bytes || cached.bytes - bytes > bytes / 8) continue;
    void* data = cached.data;
    Block* block = find(data);
    cached_bytes_ -= cached.bytes;
    std::copy(cache_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
              cache_.begin() + static_cast<std::ptrdiff_t>(cached_), cache_.begin() + static_cast<std::ptrdiff_t>(i));
    --cached_;
    --freed_;
    block->live = true;
    block->asked = bytes;
    last_data_ = data;
    last_ = block;
    count_taken(bytes);
    return data;
  }
  return nullptr;
}

cudaError_t CudaPool::take_from_driver(CudaQueue& queue, std::size_t bytes, void** data, SourceLocation where) {
  const cudaMemPool_t pool = native(where);
  const cudaStream_t stream = queue.stream(where);
  queue.check_no_foreign_capture("weir: allocating memory", where);
  const DeviceScope scope(device_.index());
  const RoomCall room;
  const cudaError_t answer = cudaMallocFromPoolAsync(data, bytes, pool, stream);
  if (answer == cudaErrorMemoryAllocation) static_cast<void>(cudaGetLastError());
  return answer;
}

void* CudaPool::allocate(Queue& asking, std::size_t bytes, const char* operation, SourceLocation where) {
  auto& queue = static_cast<CudaQueue&>(asking);
  if (bytes == 0) return nullptr;
  check_not_failed(operation, queue.label(), where);
  if (bytes > ~std::size_t{0} / 2) refuse_bytes(bytes, queue, cudaErrorMemoryAllocation, operation, where);
  const std::size_t wanted = round_up(bytes);
  if (caches()) {
    const detail::LockGuard guard(mutex_);
    if (void* data = take_cached(queue, wanted)) return data;
  }
  device_.free_what_was_put_off();
  void* data = nullptr;
  cudaError_t answer = take_from_driver(queue, wanted, &data, where);
  if (answer == cudaErrorMemoryAllocation) {
    // What was not yet given back, lies in caches, or unused in other pools, may make room.
    TaskThread::housekeeper().catch_up();
    device_.for_each_pool([](CudaPool& pool) { pool.flush(); });
    flush();
    answer = take_from_driver(queue, wanted, &data, where);
  }
  if (answer == cudaErrorMemoryAllocation) {
    device_.for_each_pool([](CudaPool& pool) { pool.trim(0); });
    answer = take_from_driver(queue, wanted, &data, where);
  }
  if (answer == cudaErrorMemoryAllocation) refuse_bytes(bytes, queue, answer, operation, where);
  check(answer, operation, queue.label(), where);
  const detail::LockGuard guard(mutex_);
  Block& block = blocks_[data];
  if (block.bytes != 0 && !block.live) --freed_;
  block = Block{wanted, wanted, true};
  last_data_ = data;
  last_ = &block;
  count_taken(wanted);
  return data;
}

void CudaPool::refuse_bytes(std::size_t bytes, CudaQueue& queue, cudaError_t answer, const char* operation,
                            SourceLocation where) {
  const PoolStatistics now = statistics();
  const std::size_t memory = device_.memory();
  throw Error(Errc::out_of_memory, operation, queue.label(),
              std::string(cudaGetErrorName(answer)) + ": " + std::to_string(bytes) + " bytes do not fit: pool '" +
                  name_ + "' holds " + std::to_string(now.reserved) + " bytes, " + std::to_string(now.used) +
                  " of them in use; its limit is " + std::to_string(max_size_ != 0 ? max_size_ : memory),
              where);
}

void CudaPool::release(Queue& home, bool open, StreamId owner, detail::QueuePlaces& others, void* data,
                       SourceLocation where) {
  if (data == nullptr) return;
  auto& queue = static_cast<CudaQueue&>(home);
  DeadBlock dead;
  dead.data = data;
  dead.queue = &queue;
  dead.owner = owner;
  dead.open = open && others.empty();
  dead.others = std::move(others);
  Cached freed{dead.data, 0, &queue, dead.owner};
  Cached evicted{};
  {
    const detail::LockGuard guard(mutex_);
    Block* block = find(dead.data);
    if (block == nullptr) {
      throw Error(Errc::invalid_value, "weir::Pool::free", queue.label(),
                  "this address is not the beginning of an allocation of pool '" + name_ + "'", where);
    }
    if (!block->live) {
      throw Error(Errc::already_freed, "weir::Pool::free", queue.label(), "this memory was given back before", where);
    }
    block->live = false;
    freed.bytes = block->bytes;
    ++freed_;
    --live_;
    ++inside_;
    used_ -= block->asked;
    last_data_ = dead.data;
    last_ = block;
    if (dead.open && caches() && !closed_ && !queue.wrapped() && !queue.internal() &&
        queue.device().index() == device_.index() && freed.bytes <= most_cached_bytes) {
      if (cached_ == most_cached) {
        evicted = cache_[0];
        cached_bytes_ -= evicted.bytes;
        std::copy(cache_.begin() + 1, cache_.begin() + static_cast<std::ptrdiff_t>(cached_), cache_.begin());
        --cached_;
      }
      cache_[cached_++] = freed;
      cached_bytes_ += freed.bytes;
      freed.data = nullptr;
    }
    if (freed_ > most_remembered) forget_freed();
  }
  if (evicted.data != nullptr) give_or_put_off(evicted);
  while (freed.data == nullptr && over_budget()) evict_oldest();
  if (freed.data != nullptr) give_or_put_off(std::move(dead));
  leave();
}

/// Entries of freed blocks go, but for those in the cache.
void CudaPool::forget_freed() {
  const std::span cache(cache_.data(), cached_);
  std::erase_if(blocks_, [&](const auto& entry) {
    return !entry.second.live &&
           std::none_of(cache.begin(), cache.end(), [&](const Cached& cached) { return cached.data == entry.first; });
  });
  freed_ = cached_;
  last_data_ = nullptr;
  last_ = nullptr;
}

bool CudaPool::over_budget() {
  const detail::LockGuard guard(mutex_);
  return cached_bytes_ > most_cached_bytes;
}

void CudaPool::evict_oldest() noexcept {
  Cached oldest{};
  {
    const detail::LockGuard guard(mutex_);
    if (cached_ == 0) return;
    oldest = cache_[0];
    cached_bytes_ -= oldest.bytes;
    std::copy(cache_.begin() + 1, cache_.begin() + static_cast<std::ptrdiff_t>(cached_), cache_.begin());
    --cached_;
  }
  give_or_put_off(oldest);
}

/// In the order of its queue, or behind everybody who was given the memory. False: not now. The block is as it was then.
bool CudaPool::give_to_driver(DeadBlock& block) noexcept {
  if (!may_call_driver()) return false;
  try {
    CudaQueue& queue = *block.queue;
    if (block.open && queue.owner() == block.owner) {
      const cudaError_t answer = queue.free_in_order(block.data);
      if (answer == cudaSuccess) return true;
      note(answer);
      if (answer != cudaErrorStreamCaptureUnsupported) return false;
    }
    CudaQueue& behind_all = queue.device().waiting_queue();
    behind_all.follow(queue, block.owner);
    for (const detail::QueuePlace* place = block.others.first(); place != nullptr; place = place->next) {
      behind_all.follow(*place->queue, place->owner);
    }
    static_cast<void>(behind_all.stream({}));
    const cudaError_t answer = behind_all.free_in_order(block.data);
    note(answer);
    return answer == cudaSuccess;
  } catch (...) {
    return false;  // no memory for an event, or the driver answers no more
  }
}

void CudaPool::give_or_put_off(DeadBlock&& block) noexcept {
  if (give_to_driver(block)) return;
  try {
    auto later = std::make_unique<DeadBlock>(std::move(block));
    later->pool = this;
    hold();
    device_.put_off(std::move(later));
    if (may_call_driver()) return;  // there will be more housekeeping
    device_.free_what_was_put_off_soon();
  } catch (...) {
    // Without memory for the list: better lost than used too early.
  }
}

void CudaPool::give_or_put_off(const Cached& cached) noexcept {
  DeadBlock block;
  block.data = cached.data;
  block.queue = cached.queue;
  block.owner = cached.owner;
  block.open = true;
  give_or_put_off(std::move(block));
}

void CudaPool::free_again(std::unique_ptr<DeadBlock> block) noexcept {
  if (give_to_driver(*block)) {
    block.reset();
    leave();
  } else {
    device_.put_off(std::move(block));
  }
}

void CudaPool::hold() {
  const detail::LockGuard guard(mutex_);
  ++inside_;
}

void CudaPool::flush() noexcept {
  for (;;) {
    {
      const detail::LockGuard guard(mutex_);
      if (cached_ == 0) return;
    }
    evict_oldest();
  }
}

/// flush(), and the blocks of idle queues are the pool's again at the end: a free takes effect when its stream runs it.
void CudaPool::flush_until_free() {
  std::vector<CudaQueue*> idle;
  {
    const detail::LockGuard guard(mutex_);
    for (std::size_t i = 0; i < cached_; ++i) {
      const Cached& one = cache_[i];
      if (one.queue->progress_of(one.owner) == Answer::done) idle.push_back(one.queue);
    }
  }
  flush();
  for (CudaQueue* queue : idle) {
    queue->drain();
    queue->settle();
  }
}

void CudaPool::trim(std::size_t keep) {
  const cudaMemPool_t pool = native_.load(std::memory_order_acquire);
  if (pool == nullptr) return;
  device_.free_what_was_put_off();
  flush_until_free();
  device_.settle_waiting_queues();
  const DeviceScope scope(device_.index());
  check(cudaMemPoolTrimTo(pool, keep), "weir::Pool::trim", name_, {});
}

void CudaPool::set_release_threshold(std::size_t bytes) {
  PoolState::set_release_threshold(bytes);
  const cudaMemPool_t pool = native_.load(std::memory_order_acquire);
  if (!caches()) flush();
  if (pool == nullptr) return;
  auto threshold = static_cast<cuuint64_t>(bytes);
  const DeviceScope scope(device_.index());
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "weir::Pool::set_release_threshold",
        name_, {});
}

PoolStatistics CudaPool::statistics() {
  PoolStatistics now;
  if (const cudaMemPool_t pool = native_.load(std::memory_order_acquire)) {
    cuuint64_t reserved = 0;
    cuuint64_t high = 0;
    const DeviceScope scope(device_.index());
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "weir::Pool::statistics", name_,
          {});
    check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &high), "weir::Pool::statistics", name_, {});
    now.reserved = reserved;
    now.reserved_high = high;
  }
  const detail::LockGuard guard(mutex_);
  now.used = used_;
  now.used_high = used_high_;
  return now;
}

void CudaPool::reset_high_marks() {
  if (const cudaMemPool_t pool = native_.load(std::memory_order_acquire)) {
    cuuint64_t zero = 0;
    const DeviceScope scope(device_.index());
    check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero), "weir::Pool::reset_high_marks", name_,
          {});
  }
  const detail::LockGuard guard(mutex_);
  used_high_ = used_;
}

void CudaPool::close() noexcept {
  device_.forget_pool(*this);
  {
    const detail::LockGuard guard(mutex_);
    closed_ = true;
    ++inside_;
  }
  flush();
  leave();
}

detail::SharedMemory CudaPool::share(void* data, const char* operation, SourceLocation where) {
  const std::string object = "pool '" + name_ + "' on " + device_.name();
  if (!shareable_) {
    throw Error(Errc::not_supported, operation, object,
                "its memory is this process's own: make the array in a pool with PoolOptions{.shareable = true}, by "
                "weir::empty<T>(stream, shape, pool)",
                where);
  }
  detail::SharedMemory shared;
  {
    const detail::LockGuard guard(mutex_);
    const Block* block = find(data);
    if (block == nullptr || !block->live) {
      throw Error(Errc::invalid_value, operation, object, "this address is not the beginning of an allocation of it",
                  where);
    }
    shared.bytes = block->bytes;
  }
  const cudaMemPool_t pool = native(where);
  const DeviceScope scope(device_.index());
  cudaMemPoolPtrExportData exported{};
  check(cudaMemPoolExportPointer(&exported, data), operation, object, where);
  std::memcpy(shared.pointer.data(), &exported, sizeof exported);
  const detail::LockGuard guard(make_mutex_);
  shared.file = file_;
  shared.pool = reinterpret_cast<std::uintptr_t>(pool);
  return shared;
}

/// A pool that is closed and has no live allocation is no use to anybody: the last one out deletes it. The driver keeps
/// pending memory by itself.
void CudaPool::leave() noexcept {
  {
    const detail::LockGuard guard(mutex_);
    if (--inside_ != 0 || !closed_ || live_ != 0) return;
  }
  if (may_call_driver()) return end();
  try {
    auto task = make_task([this] { end(); });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    // Without memory for the task the pool stays.
  }
}

void CudaPool::end() noexcept {
  {
    const detail::LockGuard guard(make_mutex_);
    if (file_ >= 0) ::close(file_);
  }
  if (const cudaMemPool_t pool = native_.load(std::memory_order_acquire))
    device_.keep_driver_pool(pool, max_size_, shareable_);
  delete this;
}

}  // namespace weir::cuda
