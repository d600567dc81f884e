// One GPU: its queues and events, kept for use again; the code that is loaded on it; its failures.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/memory/staged_copy.hpp"
#include "backends/cuda/streams/capture_gate.hpp"
#include "backends/cuda/streams/command_times.hpp"
#include "backends/cuda/streams/device_clock.hpp"
#include "backends/cuda/streams/end_mark.hpp"
#include "backends/cuda/streams/failures.hpp"
#include "backends/cuda/streams/flag_words.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/times_memory.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class CudaPool;
struct CudaEvent;
struct DeadBlock;

/// What launching a kernel on one device needs.
struct LoadedCode {
  std::atomic<CUfunction> function{nullptr};  ///< set last
  unsigned block = 0;                         ///< chosen by occupancy
  unsigned most_threads = 0;
  std::size_t most_shared_bytes = 0;  ///< that a launch over blocks may ask for
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

  /// The first use of the device: makes its context and loads the kernels of the program, CUB's and the user's own too,
  /// so that no launch has to load one while others run (R66). With the device current.
  void start(SourceLocation where);
  bool started() const { return started_.load(std::memory_order_acquire); }

  /// A blocking stream has a part of a collective that the driver has not been told of.
  void note_deferred() noexcept { any_deferred_.store(true, std::memory_order_release); }
  /// All of them become commands, behind which those of the legacy stream come.
  void hold_all_deferred() noexcept;

  CudaQueue& open_queue(const QueueOptions& options);
  CudaQueue& wrap_queue(cudaStream_t stream, const QueueOptions& options);
  /// A queue that nobody owns any more; its work may be pending.
  void take_back(CudaQueue& queue);
  CudaQueue& legacy() { return *legacy_; }
  /// Grows with each command of the legacy stream.
  std::uint64_t legacy_work() const { return legacy_work_.load(std::memory_order_acquire); }
  void count_legacy_work() noexcept { legacy_work_.fetch_add(1, std::memory_order_release); }
  /// One of a few queues for what waits for other queues: one that waits for nothing now, if there is one.
  CudaQueue& waiting_queue();
  /// Those that are idle, so that pools can give back what was freed in them: nobody else ever synchronises them.
  void settle_waiting_queues() noexcept;

  /// For captures of the library's own: queues that nobody else can name. Nothing is ever pending in them.
  CudaQueue& take_capture_queue(int priority);
  void give_capture_queue(CudaQueue& queue) noexcept;

  // The legacy stream takes part in captures of blocking streams. Under the core's lock of captures, but for the gate.

  CaptureGate& legacy_gate() { return legacy_gate_; }
  void close_legacy(SourceLocation where);
  void open_legacy() noexcept { legacy_gate_.open(); }
  /// Behind the legacy stream's work before its gate was closed; null: there was none.
  cudaEvent_t legacy_mark() const { return legacy_mark_.load(std::memory_order_acquire); }
  /// The legacy stream is used by way of a handle.
  void note_legacy_handle() noexcept { legacy_handles_.store(true, std::memory_order_relaxed); }

  /// Memory whose end the driver cannot be told now: later housekeeping does. Takes the block.
  void put_off(std::unique_ptr<DeadBlock> block) noexcept;
  void free_what_was_put_off() noexcept;
  /// The same by the housekeeping thread: for who holds a lock, as such a free may wait for room.
  void free_what_was_put_off_soon() noexcept;

  /// An event that stands for places in one capture at a time: the driver refuses it outside of captures (R119), and does not
  /// survive that a thread touches it, or destroys it, while another one captures.
  cudaEvent_t take_fork(SourceLocation where);
  /// Its capture has ended.
  void give_fork(cudaEvent_t fork) noexcept;

  CudaEvent& open_event(bool timed);
  void close_event(CudaEvent& event) noexcept;
  /// A graph records the event in its replays: it is not used for anything else while the graph is there.
  void keep_for_graph(CudaEvent& event);
  void forget_graph_of(CudaEvent& event) noexcept;
  bool is_in_graphs(const CudaEvent& event);
  // For CudaEvent and PolledRecord.
  cudaEvent_t begin_poll(CudaEvent& event);
  void end_poll(CudaEvent& event, cudaEvent_t native) noexcept;
  cudaEvent_t take_spare(CudaEvent& event);
  cudaEvent_t replace(CudaEvent& event, cudaEvent_t fresh);

  void synchronize(const char* operation, SourceLocation where);
  void drain() noexcept;
  /// Whether nothing is pending in its streams, as far as Weir knows them; nobody waits. False where the driver cannot say.
  bool is_idle() noexcept;
  /// CUDA's schedule flag of the device; before it starts, remembered for then.
  void set_wait_mode(WaitMode mode, SourceLocation where);
  /// cudaEventSynchronize() in the device's wait mode; the device is the current one.
  cudaError_t wait_for(cudaEvent_t event) noexcept;

  KernelFacts kernel_facts(const Kernel& kernel, const char* operation, SourceLocation where);
  std::size_t resident_blocks(const Kernel& kernel, std::size_t threads, std::size_t shared_bytes,
                              const char* operation, SourceLocation where);

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
  cudaStream_t side_stream(SourceLocation where) { return own_stream(side_stream_, false, where); }
  /// For copies between device and pageable memory.
  StagingLanes& staging() { return staging_; }
  /// A blocking stream without commands: events in it stand for the legacy stream's work.
  cudaStream_t legacy_mirror(SourceLocation where) { return own_stream(legacy_mirror_, true, where); }

  /// A stream in which nothing but waits between backends is.
  cudaStream_t take_waiting_stream(SourceLocation where);
  /// Nothing is pending in it. From any thread: no call of CUDA's.
  void give_waiting_stream(cudaStream_t stream) noexcept;

  /// What is ready to be taken; the device must have started.
  Stocks& stocks() { return stocks_; }
  FlagWords& flag_words() { return flag_words_; }
  DeviceClock& clock() { return clock_; }
  TimesMemory& times_memory() { return times_memory_; }

  /// Host functions behind waits that are with the driver: behind a held event it takes no more than 56 (R213).
  std::atomic<int>& calls_behind_waits() { return calls_behind_waits_; }

  CudaPool& default_pool() { return *default_pool_; }
  CudaPool& open_pool(const PoolOptions& options);
  /// Its owner is gone.
  void forget_pool(CudaPool& pool) noexcept;
  /// A driver's pool of that size limit, without any memory; made or used again.
  cudaMemPool_t take_driver_pool(std::size_t max_size, bool shareable, const std::string& object, SourceLocation where);
  /// For use again: destroying a pool whose frees are pending crashes in the driver now and then.
  void keep_driver_pool(cudaMemPool_t pool, std::size_t max_size, bool shareable) noexcept;
  /// Without a lock: what is done may wait.
  template <class F>
  void for_each_pool(F&& f) {
    for (CudaPool* pool : hold_pools()) {
      f(*pool);
      let_go(*pool);
    }
  }

  bool can_access(int peer) const;
  /// Whether kernels here may reach a peer's memory, and the other way round.
  bool peer_access(int peer) const;
  /// Collectives reach the memory of pools here from a peer, whatever the user allows kernels.
  void open_pools_to(const CudaDevice& peer);
  bool reached_by(int peer) const;
  void set_peer_access(CudaDevice& peer, bool enabled);
  std::size_t memory() const;

 private:
  struct Kept {
    bool blocking;
    int priority;
    std::vector<CudaQueue*> idle;     ///< without anything pending
    std::deque<CudaQueue*> in_doubt;  ///< the oldest first
  };
  cudaStream_t own_stream(std::atomic<cudaStream_t>& place, bool blocking, SourceLocation where);
  Kept& kept(bool blocking, int priority) WEIR_NEEDS(queues_mutex_);
  CudaQueue* take_kept(Kept& kept) WEIR_NEEDS(queues_mutex_);
  void keep_failure_of(CudaQueue& queue) WEIR_NEEDS(queues_mutex_);
  bool shares_failures(const CudaQueue& queue) const WEIR_NEEDS(queues_mutex_);
  FailureState& failures_for(cudaStream_t stream, const CudaQueue& queue) WEIR_NEEDS(queues_mutex_);
  void use_again_if_free(CudaEvent& event) noexcept WEIR_NEEDS(events_mutex_);
  void rest(Kept& kept) WEIR_NEEDS(queues_mutex_);
  struct QueueEnd {
    CudaQueue* queue;
    FailureState* failures;  ///< the queue's at that time
    std::uint64_t place;     ///< of its failures: later ones are of work that is not waited for
    CommandTimes::End times;
    EndMark mark;
  };
  std::vector<QueueEnd> mark_ends(const char* operation, SourceLocation where, bool throws);
  void wait_for(const std::vector<QueueEnd>& ends, const char* operation, SourceLocation where);
  std::vector<CudaPool*> hold_pools();
  void let_go(CudaPool& pool) noexcept;
  void load(detail::DeviceCode& code, SourceLocation where);
  /// All kernels of the file that `code` stands for. What cannot be loaded now is at its first launch.
  void load_file(const detail::DeviceCode& code) noexcept;
  void apply_wait_mode(SourceLocation where);

  Backend& backend_;
  const int index_;
  const std::string name_;
  std::atomic<bool> started_{false};
  Stocks stocks_{*this};
  FlagWords flag_words_;
  DeviceClock clock_;
  TimesMemory times_memory_{*this};
  std::atomic<int> calls_behind_waits_{0};
  detail::Mutex start_mutex_;
  std::atomic<cudaStream_t> side_stream_{nullptr};
  std::atomic<cudaStream_t> legacy_mirror_{nullptr};
  StagingLanes staging_;
  detail::Mutex code_mutex_;
  detail::Mutex wait_mode_mutex_;  ///< after start_mutex_
  std::atomic<WaitMode> wait_mode_{WaitMode::automatic};
  bool wait_mode_said_ WEIR_GUARDED_BY(wait_mode_mutex_) =
      false;  ///< else the flags are the driver's, or the user's own
  CudaPool* default_pool_;
  CudaQueue* legacy_;
  std::atomic<std::uint64_t> legacy_work_{0};

  detail::Mutex queues_mutex_;
  std::vector<CudaQueue*> queues_ WEIR_GUARDED_BY(queues_mutex_);
  std::deque<Kept> kept_ WEIR_GUARDED_BY(queues_mutex_);
  std::vector<CudaQueue*> free_wrappers_ WEIR_GUARDED_BY(queues_mutex_);
  std::vector<std::unique_ptr<FailureState>> more_failure_states_ WEIR_GUARDED_BY(queues_mutex_);  ///< of wrappers
  std::vector<std::pair<FailureState*, std::shared_ptr<const Error>>> failures_
      WEIR_GUARDED_BY(queues_mutex_);  ///< of queues that are used again

  detail::Mutex capture_queues_mutex_;
  std::vector<CudaQueue*> capture_queues_ WEIR_GUARDED_BY(capture_queues_mutex_);  ///< has room for all
  std::size_t made_capture_queues_ WEIR_GUARDED_BY(capture_queues_mutex_) = 0;

  CaptureGate legacy_gate_;
  std::atomic<cudaEvent_t> legacy_mark_{nullptr};
  cudaEvent_t legacy_event_ = nullptr;  ///< made at the first capture that needs it
  std::atomic<bool> legacy_handles_{false};

  detail::Mutex put_off_mutex_;
  std::unique_ptr<DeadBlock> put_off_ WEIR_GUARDED_BY(put_off_mutex_);
  std::atomic<bool> any_put_off_{false};

  detail::Mutex waiting_queues_mutex_;
  std::vector<CudaQueue*> waiting_queues_ WEIR_GUARDED_BY(waiting_queues_mutex_);
  std::size_t next_waiting_ WEIR_GUARDED_BY(waiting_queues_mutex_) = 0;

  detail::Mutex events_mutex_;
  std::array<std::vector<CudaEvent*>, 2> free_events_ WEIR_GUARDED_BY(events_mutex_);  ///< [timed]
  std::vector<cudaEvent_t> forks_ WEIR_GUARDED_BY(events_mutex_);                      ///< has room for all
  std::size_t made_forks_ WEIR_GUARDED_BY(events_mutex_) = 0;

  detail::Mutex pools_mutex_;
  std::vector<CudaPool*> pools_ WEIR_GUARDED_BY(pools_mutex_);
  struct SparePool {
    cudaMemPool_t pool;
    std::size_t max_size;
    bool shareable;
  };
  std::vector<SparePool> spare_pools_ WEIR_GUARDED_BY(pools_mutex_);

  std::deque<std::atomic<bool>> peers_;  ///< whose memory kernels here may reach
  std::deque<std::atomic<bool>> reached_by_;
  std::deque<std::atomic<bool>> open_to_;  ///< for collectives
  std::atomic<bool> any_deferred_{false};
};

}  // namespace weir::cuda
