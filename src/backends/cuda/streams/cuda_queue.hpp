// A stream on a GPU: a driver's stream, made at its first use and kept for use again.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/capture_gate.hpp"
#include "backends/cuda/streams/command_times.hpp"
#include "backends/cuda/streams/end_mark.hpp"
#include "backends/cuda/streams/failures.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaSignal;
class DriverGraph;
class StagedCopy;
struct NcclRanks;
enum class StagedWay : std::uint8_t;
struct CudaEvent;
struct LoadedCode;

class CudaQueue final : public Queue, private detail::DriverCapture {
 public:
  explicit CudaQueue(CudaDevice& device) : device_(device) {}

  void open(const QueueOptions& options);
  /// For a foreign stream, and when its owner may take it away again: work that it has taken stays known by an event.
  void wrap(cudaStream_t stream, FailureState& failures);
  void unwrap() noexcept;

  void submit(const Command& command) override;
  void launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
              const detail::LaunchSite& site) override;
  void record(detail::EventState& event, SourceLocation where) override;
  void wait(detail::EventState& event, SourceLocation where) override;
  std::unique_ptr<detail::Signal> wait_for_signal(const Command& command) override;
  void follow(Queue& other, StreamId owner) override;
  bool done() override;
  void signal_after(StreamId owner, std::unique_ptr<detail::Signal>& signal) override;
  bool is_over(StreamId owner) override { return progress_of(owner) == Answer::done; }
  void synchronize(const char* operation, SourceLocation where) override;
  void drain() noexcept override;
  void retire() noexcept override;
  void* native() override {
    handle_known_.store(true, std::memory_order_relaxed);
    return stream(SourceLocation{});
  }

  detail::DriverCapture* driver_capture() override { return this; }

  // Captures by the driver (queue_capture.cpp).
  void begin_capture(SourceLocation where) override;
  void join_capture(Queue& origin, SourceLocation where) override;
  void* end_capture(bool discard, SourceLocation where) override;
  void capture_behind(Queue& other) override;
  void captured(const detail::GraphForm& form, std::size_t node) override;
  void capture_inside(const detail::GraphForm& form, std::size_t node) override;
  void capture_part(std::size_t node, std::size_t index, SourceLocation where) override;
  void capture_collective(const detail::GraphForm& form, std::size_t node) override;

  CudaDevice& device() { return device_; }
  const std::string& label() const { return label_; }
  bool blocking() const { return blocking_; }
  bool legacy() const { return legacy_; }
  bool wrapped() const { return wrapped_.load(std::memory_order_relaxed); }
  /// The library's own: no user's later command goes there.
  bool internal() const { return internal_; }
  int priority() const { return priority_; }
  /// The native stream's: whoever else wraps that has the same.
  FailureState& failures() const { return *failures_.load(std::memory_order_acquire); }
  /// Whether its commands are in this stream's order, as another queue's may be.
  bool stands_for(cudaStream_t stream) const;
  /// The foreign stream may be gone.
  bool ended() const { return ended_.load(std::memory_order_relaxed); }
  /// The graph that commands go to now, instead of being executed; null outside of captures.
  DriverGraph* capture() const { return capture_; }
  void set_capture(DriverGraph* graph) { capture_ = graph; }

  /// The driver's stream; starts the device and makes it at the first use.
  cudaStream_t stream(SourceLocation where) {
    if (deferred_.any()) [[unlikely]]
      hold_deferred(where);
    used_.store(Used::yes, std::memory_order_relaxed);
    const cudaStream_t stream = stream_.load(std::memory_order_acquire);
    return stream != nullptr ? stream : make_stream(where);
  }
  /// Whether anything was submitted since it was opened.
  bool used() const { return used_.load(std::memory_order_relaxed) != Used::no; }
  /// Whether a collective's end is the last thing in it, as far as anybody knows.
  bool ends_with_collective() const { return used_.load(std::memory_order_relaxed) == Used::last_by_collective; }
  void note_end_of_collective() { used_.store(Used::last_by_collective, std::memory_order_relaxed); }
  /// Nobody owns it, and nothing is pending.
  void rest() {
    if (used_.exchange(Used::no, std::memory_order_relaxed) != Used::no)
      unsettled_.store(true, std::memory_order_relaxed);
  }
  /// Whether memory that an earlier owner freed may be kept back: nobody has synchronised the stream since.
  bool unsettled() const { return unsettled_.load(std::memory_order_relaxed); }

  // Housekeeping: any thread, whatever captures (docs/captures.md). None of it waits for a capture.

  /// The stream that has the queue, or had it last; 0: the library's own.
  StreamId owner() const { return owner_.load(std::memory_order_acquire); }
  /// How far everything is; of a queue that captures, what it took before.
  Answer progress() noexcept { return answer_of(ask()); }
  /// The same for what a stream gave it that may not have it any more.
  Answer progress_of(StreamId owner) noexcept { return this->owner() == owner ? progress() : Answer::done; }
  /// What the driver says of everything so far; nobody waits. Not by threads of the driver's.
  cudaError_t ask_driver() noexcept;
  CommandTimes& times() { return times_; }
  /// An event behind everything so far; it orders nobody. Throws capture_unsupported where a capture that Weir does not know
  /// of forbids it.
  EndMark mark_end(const char* operation, SourceLocation where);
  /// Gives memory back in the order of the stream; refused while it is captured.
  cudaError_t free_in_order(void* data) noexcept;
  /// The stream is about to be captured: from here on housekeeping leaves it alone. Throws before anything has changed. Under the
  /// core's lock of captures, as the next.
  void close_for_capture(SourceLocation where);
  /// True: it was retired meanwhile.
  bool open_after_capture() noexcept;
  /// Throws where another library captures the wrapped stream, for what would happen at once, or use at a replay what is gone by
  /// then. The capture stays whole.
  void check_no_foreign_capture(const char* operation, SourceLocation where);
  /// Synchronises a stream that is idle, and waits for nothing: behind that alone the driver's pools give back what was freed
  /// in it (R102).
  void settle() noexcept;
  /// Waits for everything so far; throws the driver's failures, not those of host functions.
  void wait_for_all(const char* operation, SourceLocation where);
  /// So that the device can look at the failures; before the first of them.
  void ensure_flag(SourceLocation where);

  // Collectives (collectives/queue_collective.cpp).

  /// Parts that the driver has not been told of. What comes behind them makes them waits first.
  DeferredParts& deferred() { return deferred_; }
  /// The stream as it is now, for who has its deferred parts.
  cudaStream_t stream_behind_deferred() const { return stream_.load(std::memory_order_acquire); }
  void hold_deferred(SourceLocation where);
  /// Marks the places of the first parts, unless somebody is at work on them; they stay deferred.
  void try_mark_deferred() noexcept;
  /// An event behind everything but the deferred parts.
  /// `timed`: when its place is reached can be asked.
  std::shared_ptr<StockEvent> mark_place(bool timed, SourceLocation where);
  /// The stream waits until the word has come to the count.
  void wait_for_word(const SignalWord& word, std::uint32_t count, SourceLocation where);
  void come_behind(cudaEvent_t event, const char* operation, SourceLocation where);

 private:
  int device_index() const;
  cudaStream_t make_stream(SourceLocation where);
  cudaError_t ask() noexcept;
  cudaEvent_t standing_mark() const;
  void set_standing_mark(SourceLocation where);
  /// Whether its captures concern the legacy stream (R146).
  bool ordered_with_legacy() const { return blocking_ && !legacy_handle(); }
  bool legacy_handle() const { return legacy_handle_.load(std::memory_order_relaxed); }
  void come_after(cudaEvent_t event);
  friend class InsideGate;
  friend class LegacyWork;
  void record_in_graph(CudaEvent& event, SourceLocation where);
  void wait_in_graph(CudaEvent& event, SourceLocation where);
  void record_fork(CudaEvent& event, SourceLocation where);
  void fork_from(CudaEvent& event, SourceLocation where);

  /// The driver's own call needs no current device, but for the default streams. Where it does not succeed, the runtime's:
  /// it makes the device's context first, and says what is wrong.
  template <class OwnCall, class RuntimeCall>
  cudaError_t in_context(const OwnCall& own, const RuntimeCall& runtime) const {
    if (!means_another_device()) [[likely]] {
      if (own() == CUDA_SUCCESS) [[likely]]
        return cudaSuccess;
    }
    const DeviceScope scope(device_index());
    return runtime();
  }

  /// A default stream's handle in a thread whose current context is not the device's.
  bool means_another_device() const { return of_current_device_ && !is_current(device_index()); }

  // What commands that are submitted now must heed: the failures of the queue, or of the graph that they are captured into.
  bool in_doubt() const;
  bool skips_all() const { return capture_ == nullptr && failures().skips_all(); }
  detail::DeviceGuard guard() const;
  /// The same for a kernel of so many threads: where they are many, a copy of the word in device memory, which is brought there
  /// first.
  detail::DeviceGuard guard_of(std::size_t threads, SourceLocation where);

  // queue_launch.cpp
  void submit_launch(const Command& command, const Launch& launch, detail::KernelTimes* times);
  /// The shortest way of a launch over one dimension that notes its own times. False: it needs another one, and nothing was done.
  bool launch_noted(const Command& command, const Launch& launch);
  void launch_global(const Command& command, const Launch& launch);
  [[gnu::noinline]] void launch_slowly(const Kernel& kernel, const void* closure, std::size_t size,
                                       const detail::LaunchSite& site);

  // queue_copy.cpp
  void submit_copy(const Command& command, const Copy& copy);
  void copy_on_device(const Command& command, const Copy& copy) { copy_on_device(command, copy, *this); }
  /// `owner` is the queue whose command it is, with what may fail before it.
  void copy_on_device(const Command& command, const Copy& copy, const CudaQueue& owner);
  void copy_from_pageable(const Command& command, const Copy& copy);
  void copy_elsewhere(const Command& command, const Copy& copy, CudaDevice& device);
  void submit_elsewhere(CudaDevice& device, const std::function<void(CudaQueue& helper)>& submit);
  void copy_pageable_in_graph(const Command& command, const Copy& copy);
  void copy_between_in_graph(const Command& command, const Copy& copy);
  /// Pinned memory that what was submitted so far uses.
  void give_after_use(void* pinned) noexcept;
  void copy_to_pageable(const Command& command, const Copy& copy);
  [[noreturn]] void throw_skipped(const char* operation, SourceLocation where);
  void copy_on_host(const Command& command, const Copy& copy, bool owns_source);
  bool reaches(MemoryKind kind, int device) const;

  // queue_staged.cpp
  void copy_staged(const Command& command, const Copy& copy, StagedWay way);
  void launch_staged(const Command& command, StagedCopy& staged, const CudaQueue& owner);
  void copy_when_idle(const Command& command, const Copy& copy, int device);

  // queue_fill.cpp
  void submit_fill(const Command& command, const Fill& fill);
  void fill_large(const Command& command, const Fill& fill);

  // signals.cpp
  cudaError_t wait_aside(const SignalWord& word, std::uint32_t count, SourceLocation where);

  // queue_host.cpp
  void submit_call(const Command& command, detail::HostFunction* function, std::shared_ptr<HostTimes> times);
  void call_without_driver(const Command& command, detail::HostFunction* function, std::shared_ptr<HostTimes> times);
  void submit_external(const Command& command, detail::HostFunction* function);
  friend class Watched;

  // queue_observed.cpp
  /// Of a batch that was full when the last of its commands was in the stream.
  void close_times(TimedBatch& full, SourceLocation where) noexcept;

  // collectives/queue_collective.cpp
  void submit_collective(const Command& command, detail::CollectivePart& part, std::shared_ptr<PartTimes> times);
  void launch_collective(detail::CollectivePart& part, std::shared_ptr<PartTimes> times, SourceLocation where);
  void take_deferred(const NcclPart* leader, bool at_once, SourceLocation where);
  void join_deferred(const std::shared_ptr<NcclPart>& own, SourceLocation where);
  void hold_all_deferred(SourceLocation where);
  NcclPart* mark_first_deferred(SourceLocation where);
  std::shared_ptr<NcclRanks> unmade_of_deferred(const std::vector<std::shared_ptr<NcclRanks>>& failed) const;
  void give_deferred() noexcept;

  CudaDevice& device_;
  std::string label_;
  std::atomic<StreamId> owner_{0};
  int priority_ = 0;
  bool blocking_ = true;
  bool legacy_ = false;
  bool of_current_device_ = false;          ///< its handle is a default stream's: of the context that is current
  std::atomic<bool> legacy_handle_{false};  ///< its stream is the legacy one
  std::atomic<bool> wrapped_{false};
  bool internal_ = false;
  std::atomic<bool> ended_{false};        ///< the foreign stream may be gone
  std::atomic<bool> end_unknown_{false};  ///< nothing says when its work is over
  enum class Used : std::uint8_t { no, yes, last_by_collective };
  std::atomic<Used> used_{Used::no};
  std::atomic<bool> unsettled_{false};
  std::atomic<bool> waited_{false};                 ///< since the last host function
  std::atomic<std::uint64_t> legacy_work_seen_{0};  ///< the last that a record of its was made to stand for
  std::atomic<cudaStream_t> stream_{nullptr};
  CaptureGate gate_;  ///< closed while the stream is captured, and once a foreign one is not ours any more
  /// Behind everything before the gate was closed last. Recorded again only for the next time, which covers more: who is late
  /// waits too long at worst.
  std::atomic<cudaEvent_t> standing_mark_{nullptr};
  detail::Mutex mutex_;
  bool captured_ WEIR_GUARDED_BY(mutex_) = false;
  bool retires_at_end_ WEIR_GUARDED_BY(mutex_) = false;  ///< of the capture
  std::atomic<cudaStream_t> behind_words_{nullptr};      ///< waits for other backends, where this stream itself cannot
  FailureState own_failures_;
  std::atomic<FailureState*> failures_{&own_failures_};
  CommandTimes times_;
  DeferredParts deferred_;
  std::atomic<volatile unsigned long long*> flag_copy_{nullptr};
  std::atomic<bool> handle_known_{false};  ///< others than Weir may have it
  DriverGraph* capture_ = nullptr;         ///< under the core's lock of captures
};

/// Inside of a queue's gate while it lives: the driver may be called about the stream. A few calls that do not wait for work, and
/// no lock is taken.
class InsideGate {
 public:
  explicit InsideGate(CudaQueue& queue) noexcept;
  ~InsideGate() { leave(); }
  InsideGate(const InsideGate&) = delete;
  InsideGate& operator=(const InsideGate&) = delete;

  explicit operator bool() const { return inside_; }
  /// Not, since somebody captures the stream of whom Weir does not know.
  bool captured_elsewhere() const { return captured_elsewhere_; }

 private:
  void leave() noexcept;

  CudaQueue& queue_;
  const bool legacy_;
  bool inside_ = false;
  bool captured_elsewhere_ = false;
};

/// A command, if it is the legacy stream's, while this lives. It is counted before and after, so that who records in a blocking
/// stream meanwhile sees one of the two.
class LegacyWork {
 public:
  explicit LegacyWork(CudaQueue& queue) : queue_(queue.legacy_handle() ? &queue : nullptr) { count(); }
  ~LegacyWork() { count(); }
  LegacyWork(const LegacyWork&) = delete;
  LegacyWork& operator=(const LegacyWork&) = delete;

 private:
  void count() noexcept {
    if (queue_ != nullptr) [[unlikely]]
      count_in_device();
  }
  void count_in_device() noexcept;

  CudaQueue* const queue_;
};

/// Reports when an observed command ran: the kernel says it, or the host function, or events before and after it.
class Watched {
 public:
  Watched(CudaQueue& queue, const Command& command);
  /// The call threw: there is no such command.
  ~Watched();
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  /// Where the kernel, or the host function, is to note it; null: nowhere.
  detail::KernelTimes* kernel() const;
  std::shared_ptr<HostTimes> host() const;
  /// Where who gives a part of a collective to the device is to note it; null: nowhere.
  std::shared_ptr<PartTimes> part() const;
  explicit operator bool() const { return static_cast<bool>(place_); }
  /// A graph is about to be launched. `by_nodes`: it is nothing but kernels that note their times.
  void begin_replay(bool by_nodes) noexcept;
  /// The graph was launched: behind its end stands a copy of what its kernels noted.
  void end_replay(const std::shared_ptr<const std::vector<std::uint32_t>>& nodes,
                  const std::vector<TimesMemory::Block>& blocks) noexcept;
  /// The command is in the stream. Of one that is over by now the end is noted beside the stream, which stays done as it is
  /// without observers.
  void end();

 private:
  void record_end() noexcept;

  CudaQueue& queue_;
  TimedPlace place_;
  const bool is_over_;  ///< at its end
  bool replays_ = false;
  SourceLocation where_;
};

}  // namespace weir::cuda
