// One CPU device: a share of the cores, with its workers, queues and memory account.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend.hpp"
#include "backends/cpu/memory/cpu_pool.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/workers/worker_pool.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

struct CpuEvent;

class CpuDevice {
 public:
  CpuDevice(Backend& backend, int index, int workers, std::size_t memory);

  int index() const { return index_; }
  WorkerPool& pool() { return pool_; }
  CpuQueue& legacy() { return *legacy_; }
  MemoryAccount& memory() { return memory_; }
  CpuPool& default_pool() { return default_pool_; }

  CpuEvent& open_event(bool timed);
  void use_again(CpuEvent& event) noexcept;

  CpuQueue& open_queue(const QueueOptions& options);
  void reuse(CpuQueue& queue);
  /// Under a lock that open_queue takes; the callable takes no other queue's lock but for reading.
  template <class F>
  void for_each_queue(F&& f) {
    const detail::LockGuard guard(queues_mutex_);
    for (CpuQueue* queue : open_) f(*queue);
  }

  /// The same for queues with failures of streams that are gone.
  template <class F>
  void for_each_loser(F&& f) {
    if (lost_.load(std::memory_order_acquire) == 0) return;
    const detail::LockGuard guard(queues_mutex_);
    for (const auto* queues : {&open_, &free_}) {
      for (CpuQueue* queue : *queues) {
        if (queue->failures().oldest_lost() != QueueFailures::none) f(*queue);
      }
    }
  }

  void synchronize(const char* operation, SourceLocation where);
  void drain() noexcept;
  /// The stream is gone and its failure was not reported: the next synchronisation of the device does it.
  void keep_failure_of(CpuQueue& queue) noexcept;
  /// Pools with a release threshold give memory back after each synchronisation (R102).
  void after_synchronize();
  /// A pool that the user made; the default one, once it has a threshold.
  void watch_pool(CpuPool& pool);

 private:
  std::shared_ptr<const Error> report_lost();

  Backend& backend_;
  int index_;
  WorkerPool pool_;
  MemoryAccount memory_;
  CpuPool default_pool_;
  CpuQueue* legacy_ = nullptr;

  detail::Mutex queues_mutex_;
  std::vector<CpuQueue*> open_ WEIR_GUARDED_BY(queues_mutex_);  ///< the legacy queue too
  std::vector<CpuQueue*> free_ WEIR_GUARDED_BY(queues_mutex_);

  std::atomic<std::uint32_t> lost_{0};                       ///< failures of streams that are gone, in their queues
  std::uint64_t losses_ WEIR_GUARDED_BY(queues_mutex_) = 0;  ///< how many there ever were

  detail::Mutex events_mutex_;
  std::vector<CpuEvent*> free_events_ WEIR_GUARDED_BY(events_mutex_);
  std::size_t made_events_ WEIR_GUARDED_BY(events_mutex_) = 0;

  detail::Mutex pools_mutex_;
  std::vector<CpuPool*> pools_ WEIR_GUARDED_BY(pools_mutex_);
  std::atomic<bool> has_pools_{false};
};

}  // namespace weir::cpu
