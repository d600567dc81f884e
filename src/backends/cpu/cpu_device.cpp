// One CPU device.
#include "backends/cpu/cpu_device.hpp"

#include <algorithm>
#include <utility>

namespace weir::cpu {

CpuDevice::CpuDevice(Backend& backend, int index, int workers, std::size_t memory)
    : index_(index),
      pool_(workers),
      memory_(memory),
      default_pool_(backend, *this,
                    PoolOptions{.release_threshold = ~std::size_t{0}, .max_size = 0, .name = "default pool"}) {
  // The legacy queue comes first: every blocking queue refers to it.
  legacy_ = new CpuQueue(*this);
  QueueOptions options;
  options.kind = QueueOptions::Kind::legacy;
  options.label = "the legacy stream";
  legacy_->open(options);
  open_.push_back(legacy_);
}

CpuQueue& CpuDevice::open_queue(const QueueOptions& options) {
  if (options.kind == QueueOptions::Kind::legacy) {
    legacy_->label_ = options.label;
    legacy_->stream_ = options.stream;
    return *legacy_;
  }
  const std::lock_guard guard(queues_mutex_);
  open_.reserve(open_.size() + 1);
  if (free_.empty()) free_.push_back(new CpuQueue(*this));
  CpuQueue* queue = free_.back();
  queue->open(options);
  free_.pop_back();
  open_.push_back(queue);
  return *queue;
}

void CpuDevice::reuse(CpuQueue& queue) {
  const std::lock_guard guard(queues_mutex_);
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
  // One lock for both places: a failure that moves from a stream to the device is seen in one of them.
  const std::lock_guard guard(failures_mutex_);
  if (!failures_.empty()) {
    const std::shared_ptr<const Failure> lost = std::move(failures_.front());
    failures_.pop_front();
    throw Error(lost->error);
  }
  for (const auto& [queue, last] : marks) queue->throw_failure(last, true);
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

void CpuDevice::keep_failure_of(CpuQueue& queue) {
  const std::lock_guard guard(failures_mutex_);
  if (auto failure = queue.take_failure()) failures_.push_back(std::move(failure));
}

void CpuDevice::after_synchronize() {
  if (!has_pools_.load(std::memory_order_relaxed)) return;
  const std::lock_guard guard(pools_mutex_);
  std::erase_if(pools_, [](CpuPool* pool) {
    const bool finished = pool->after_synchronize();
    if (finished) delete pool;
    return finished;
  });
}

void CpuDevice::watch_pool(CpuPool& pool) {
  const std::lock_guard guard(pools_mutex_);
  if (std::find(pools_.begin(), pools_.end(), &pool) != pools_.end()) return;
  pools_.push_back(&pool);
  has_pools_.store(true, std::memory_order_relaxed);
}

}  // namespace weir::cpu
