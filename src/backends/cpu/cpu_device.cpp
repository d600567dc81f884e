// One CPU device.
#include "backends/cpu/cpu_device.hpp"

#include <algorithm>
#include <utility>

#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

CpuDevice::CpuDevice(Backend& backend, int index, int workers, std::size_t memory)
    : backend_(backend),
      index_(index),
      pool_(workers),
      memory_(memory),
      default_pool_(backend, *this,
                    PoolOptions{.release_threshold = ~std::size_t{0}, .max_size = 0, .name = "default pool"}) {
  // The legacy queue comes first: every blocking queue refers to it.
  legacy_ = new CpuQueue(*this, CpuQueue::Role::legacy);
  QueueOptions options;
  options.kind = QueueOptions::Kind::legacy;
  options.label = "the legacy stream";
  legacy_->open(options);
  open_.push_back(legacy_);
}

CpuQueue& CpuDevice::open_queue(const QueueOptions& options) {
  if (options.kind == QueueOptions::Kind::legacy) {
    legacy_->label_ = options.label;
    legacy_->stream_.store(options.stream, std::memory_order_release);
    return *legacy_;
  }
  const detail::LockGuard guard(queues_mutex_);
  // Room for all of them in both lists: a queue is given back without fail.
  const std::size_t all = open_.size() + free_.size();
  if (open_.capacity() <= all) open_.reserve(2 * all + 16);
  if (free_.capacity() <= all) free_.reserve(2 * all + 16);
  if (free_.empty()) free_.push_back(new CpuQueue(*this));
  CpuQueue* queue = free_.back();
  queue->open(options);
  free_.pop_back();
  open_.push_back(queue);
  return *queue;
}

void CpuDevice::reuse(CpuQueue& queue) {
  const detail::LockGuard guard(queues_mutex_);
  const auto found = std::find(open_.begin(), open_.end(), &queue);
  *found = open_.back();
  open_.pop_back();
  free_.push_back(&queue);
}

void CpuDevice::synchronize(const char*, SourceLocation) {
  std::vector<std::pair<CpuQueue*, std::uint64_t>> marks;
  for_each_queue([&](CpuQueue& queue) { marks.emplace_back(&queue, queue.tail()); });
  for (const auto& [queue, last] : marks) queue->wait_until(last);
  after_synchronize();
  if (const auto lost = report_lost()) detail::throw_seen(*lost);
  for (const auto& [queue, last] : marks) queue->throw_failure(last, true);
  // One that went from a stream to the lost ones meanwhile was in neither place.
  if (const auto lost = report_lost()) detail::throw_seen(*lost);
}

/// The oldest, over all queues.
std::shared_ptr<const Error> CpuDevice::report_lost() {
  if (lost_.load(std::memory_order_acquire) == 0) return nullptr;
  std::shared_ptr<const Error> forgotten;  // goes behind the lock: its exception may own a stream
  const detail::LockGuard guard(queues_mutex_);
  CpuQueue* oldest = nullptr;
  for (const auto* queues : {&open_, &free_}) {
    for (CpuQueue* queue : *queues) {
      const std::uint64_t order = queue->failures().oldest_lost();
      if (order != QueueFailures::none && (oldest == nullptr || order < oldest->failures().oldest_lost()))
        oldest = queue;
    }
  }
  if (oldest == nullptr) return nullptr;
  lost_.fetch_sub(1, std::memory_order_release);
  return oldest->failures().report_lost(forgotten);
}

void CpuDevice::drain() noexcept {
  try {
    std::vector<std::pair<CpuQueue*, std::uint64_t>> marks;
    for_each_queue([&](CpuQueue& queue) { marks.emplace_back(&queue, queue.tail()); });
    for (const auto& [queue, last] : marks) queue->wait_until(last);
  } catch (...) {
    // The process is ending, or has no memory left: the caller goes on as if all were done.
  }
}

void CpuDevice::keep_failure_of(CpuQueue& queue) noexcept {
  const detail::LockGuard guard(queues_mutex_);
  // Counted first: who finds that the queue has it no more finds the count, and waits for this lock.
  lost_.fetch_add(1, std::memory_order_release);
  if (!queue.lose_failure(++losses_)) lost_.fetch_sub(1, std::memory_order_release);
}

void CpuDevice::after_synchronize() {
  if (!has_pools_.load(std::memory_order_relaxed)) return;
  const detail::LockGuard guard(pools_mutex_);
  std::erase_if(pools_, [](CpuPool* pool) {
    const bool finished = pool->after_synchronize();
    if (finished) delete pool;
    return finished;
  });
}

void CpuDevice::watch_pool(CpuPool& pool) {
  const detail::LockGuard guard(pools_mutex_);
  if (std::find(pools_.begin(), pools_.end(), &pool) != pools_.end()) return;
  pools_.push_back(&pool);
  has_pools_.store(true, std::memory_order_relaxed);
}

}  // namespace weir::cpu
