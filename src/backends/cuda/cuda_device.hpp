// One GPU: its queues and events, kept for use again; the code that is loaded on it; its failures.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/driver.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class CudaPool;
struct CudaEvent;

/// What launching a kernel on one device needs.
struct LoadedCode {
  std::atomic<CUfunction> function{nullptr};  ///< set last
  unsigned block = 0;                         ///< chosen by occupancy
  unsigned most_threads = 0;
};

class CudaDevice {
 public:
  CudaDevice(Backend& backend, int index);

  int index() const { return index_; }
  /// Another device of the process, or this one.
  static CudaDevice& at(int index);
  const std::string& name() const { return name_; }
  Backend& backend() const { return backend_; }
  DeviceProperties properties() const;

  /// The first use of the device: makes its context and loads the kernels of the program, so that no launch has to load
  /// one while others run (R66). With the device current.
  void start(SourceLocation where);
  bool started() const { return started_.load(std::memory_order_acquire); }

  CudaQueue& open_queue(const QueueOptions& options);
  CudaQueue& wrap_queue(cudaStream_t stream, const QueueOptions& options);
  /// A queue that nobody owns any more; its work may be pending.
  void take_back(CudaQueue& queue);
  CudaQueue& legacy() { return *legacy_; }
  /// One of a few queues for what waits for other queues: one that waits for nothing now, if there is one.
  CudaQueue& waiting_queue();

  CudaEvent& open_event(bool timed);
  void close_event(CudaEvent& event);
  /// A graph records the event in its replays: it is not used for anything else while the graph is there.
  void keep_for_graph(CudaEvent& event);
  void forget_graph_of(CudaEvent& event) noexcept;

  void synchronize(const char* operation, SourceLocation where);
  void drain() noexcept;

  /// The code of a kernel here, loaded if it was not. Throws not_supported for one without code for this device.
  const LoadedCode& code_of(const Kernel& kernel, const char* operation, const std::string& object,
                            SourceLocation where);
  const LoadedCode* known(const detail::DeviceCode& code) const {
    const auto* table = static_cast<const LoadedCode*>(code.loaded.load(std::memory_order_acquire));
    if (table == nullptr) return nullptr;
    const LoadedCode* loaded = table + index_;
    return loaded->function.load(std::memory_order_acquire) != nullptr ? loaded : nullptr;
  }

  /// A stream in which nothing ever waits: for copies that the driver does within a call.
  cudaStream_t side_stream(SourceLocation where) { return own_stream(side_stream_, cudaStreamNonBlocking, where); }
  /// A blocking stream without commands: events in it stand for the legacy stream's work.
  cudaStream_t legacy_mirror(SourceLocation where) { return own_stream(legacy_mirror_, cudaStreamDefault, where); }

  /// A stream in which nothing but waits between backends is; with the device current.
  cudaStream_t make_waiting_stream(SourceLocation where);
  /// One for a single wait, made or used again.
  cudaStream_t take_waiting_stream(SourceLocation where);
  /// From any thread: no call of CUDA's.
  void give_waiting_stream(cudaStream_t stream) noexcept;

  /// A word that host functions and kernels share. Those of queues are never given back.
  volatile unsigned long long* take_flag(SourceLocation where);
  void give_flag(volatile unsigned long long* flag) noexcept;

  CudaPool& default_pool() { return *default_pool_; }
  CudaPool& open_pool(const PoolOptions& options);
  void close_pool(CudaPool& pool) noexcept;
  /// A driver's pool of that size limit, without any memory; made or used again.
  cudaMemPool_t take_driver_pool(std::size_t max_size, const std::string& object, SourceLocation where);
  /// For use again: destroying a pool whose frees are pending crashes in the driver now and then.
  void keep_driver_pool(cudaMemPool_t pool, std::size_t max_size) noexcept;
  template <class F>
  void for_each_pool(F&& f) {
    const detail::LockGuard guard(pools_mutex_);
    for (CudaPool* pool : pools_) f(*pool);
  }

  bool can_access(int peer) const;
  /// Whether kernels here may reach a peer's memory, and the other way round.
  bool peer_access(int peer) const;
  bool reached_by(int peer) const;
  void set_peer_access(CudaDevice& peer, bool enabled);
  std::size_t memory() const;

 private:
  struct Kept {
    bool blocking;
    int priority;
    std::vector<CudaQueue*> idle;     ///< never used since it was opened, or found done
    std::deque<CudaQueue*> in_doubt;  ///< the oldest first
  };
  cudaStream_t own_stream(std::atomic<cudaStream_t>& place, unsigned flags, SourceLocation where);
  Kept& kept(bool blocking, int priority) WEIR_NEEDS(queues_mutex_);
  CudaQueue* take_kept(Kept& kept) WEIR_NEEDS(queues_mutex_);
  void keep_failure_of(CudaQueue& queue) WEIR_NEEDS(queues_mutex_);
  void load(detail::DeviceCode& code, SourceLocation where);
  void make_room_for_streams(SourceLocation where);

  Backend& backend_;
  const int index_;
  const std::string name_;
  std::atomic<bool> started_{false};
  detail::Mutex start_mutex_;
  std::atomic<cudaStream_t> side_stream_{nullptr};
  std::atomic<cudaStream_t> legacy_mirror_{nullptr};
  detail::Mutex code_mutex_;
  CudaPool* default_pool_;
  CudaQueue* legacy_;

  detail::Mutex queues_mutex_;
  std::vector<CudaQueue*> queues_ WEIR_GUARDED_BY(queues_mutex_);
  std::deque<Kept> kept_ WEIR_GUARDED_BY(queues_mutex_);
  std::vector<CudaQueue*> free_wrappers_ WEIR_GUARDED_BY(queues_mutex_);
  std::vector<std::pair<CudaQueue*, std::shared_ptr<const Error>>> failures_
      WEIR_GUARDED_BY(queues_mutex_);  ///< of queues that are used again

  detail::Mutex waiting_queues_mutex_;
  std::vector<CudaQueue*> waiting_queues_ WEIR_GUARDED_BY(waiting_queues_mutex_);
  std::size_t next_waiting_ WEIR_GUARDED_BY(waiting_queues_mutex_) = 0;

  detail::Mutex events_mutex_;
  std::array<std::vector<CudaEvent*>, 2> free_events_ WEIR_GUARDED_BY(events_mutex_);  ///< [timed]

  detail::Mutex pools_mutex_;
  std::vector<CudaPool*> pools_ WEIR_GUARDED_BY(pools_mutex_);
  std::vector<std::pair<cudaMemPool_t, std::size_t>> spare_pools_ WEIR_GUARDED_BY(pools_mutex_);

  detail::Mutex waiting_mutex_;
  std::vector<cudaStream_t> waiting_streams_ WEIR_GUARDED_BY(waiting_mutex_);

  detail::Mutex flags_mutex_;
  unsigned long long* flags_ WEIR_GUARDED_BY(flags_mutex_) = nullptr;
  std::size_t flags_left_ WEIR_GUARDED_BY(flags_mutex_) = 0;
  std::vector<volatile unsigned long long*> free_flags_ WEIR_GUARDED_BY(flags_mutex_);

  std::deque<std::atomic<bool>> peers_;  ///< whose memory kernels here may reach
  std::deque<std::atomic<bool>> reached_by_;
};

}  // namespace weir::cuda
