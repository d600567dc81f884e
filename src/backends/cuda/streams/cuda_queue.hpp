// A stream on a GPU: a driver's stream, made at its first use and kept for use again.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <string>

#include "backend.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/failures.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaSignal;
class DriverGraph;
struct CudaEvent;
struct LoadedCode;

class CudaQueue final : public Queue {
 public:
  explicit CudaQueue(CudaDevice& device) : device_(device) {}

  void open(const QueueOptions& options);
  /// For a foreign stream, null being the legacy default stream, and when its owner may take it away again: work that it has taken stays known by an event.
  void wrap(cudaStream_t stream);
  void unwrap() noexcept;

  void submit(const Command& command) override;
  void launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
              const detail::LaunchSite& site) override;
  void record(detail::EventState& event, SourceLocation where) override;
  void wait(detail::EventState& event, SourceLocation where) override;
  std::unique_ptr<detail::Signal> wait_for_signal(const Command& command) override;
  void follow(Queue& other) override;
  bool done() override;
  void synchronize(const char* operation, SourceLocation where) override;
  void drain() noexcept override;
  void retire() noexcept override;
  void* native() override { return stream(SourceLocation{}); }

  // Captures by the driver (queue_capture.cpp).
  bool begin_capture(SourceLocation where) override;
  void join_capture(Queue& origin, SourceLocation where) override;
  void* end_capture(bool discard, SourceLocation where) override;
  void captured(const detail::GraphForm& form, std::size_t node) override;
  void capture_inside(const detail::GraphForm& form, std::size_t node) override;

  CudaDevice& device() { return device_; }
  const std::string& label() const { return label_; }
  bool blocking() const { return blocking_; }
  bool legacy() const { return legacy_; }
  bool wrapped() const { return wrapped_; }
  /// The library's own: no user's later command goes there.
  bool internal() const { return internal_; }
  int priority() const { return priority_; }
  FailureState& failures() { return failures_; }
  /// The graph that commands go to now, instead of being executed; null outside of captures.
  DriverGraph* capture() const { return capture_; }
  void set_capture(DriverGraph* graph) { capture_ = graph; }

  /// The driver's stream; starts the device and makes it at the first use.
  cudaStream_t stream(SourceLocation where) {
    used_.store(true, std::memory_order_relaxed);
    const cudaStream_t stream = stream_.load(std::memory_order_acquire);
    return stream != nullptr ? stream : make_stream(where);
  }
  /// Whether anything was submitted since it was opened.
  bool used() const { return used_.load(std::memory_order_relaxed); }
  /// Whether nothing is pending; true too where the driver does not answer any more.
  bool idle() noexcept;
  /// A stream beside this one, for waits between backends; made at its first use.
  struct Aside {
    detail::Mutex mutex;
    cudaStream_t stream WEIR_GUARDED_BY(mutex) = nullptr;
    cudaEvent_t event WEIR_GUARDED_BY(mutex) = nullptr;
    std::uint64_t number WEIR_GUARDED_BY(mutex) = 0;  ///< of the last record that was waited for there
  };
  /// Where those wait who wait for events recorded here, in the order of the records.
  Aside& behind_events() { return behind_events_; }
  /// Waits for everything so far; throws the driver's failures, not those of host functions.
  void wait_for_all(const char* operation, SourceLocation where);
  /// Throws the failure of a host function, and forgets it.
  void throw_failure();
  /// So that the device can look at the failures; before the first of them.
  void ensure_flag(SourceLocation where);

 private:
  int device_index() const;
  cudaStream_t make_stream(SourceLocation where);
  enum class End { own_work, as_a_command };
  cudaEvent_t mark_end(End end) WEIR_NEEDS(mutex_);
  void come_after(cudaEvent_t event);
  void record_in_graph(CudaEvent& event, SourceLocation where);
  void wait_in_graph(CudaEvent& event, SourceLocation where);
  void fork_from(CudaEvent& event, SourceLocation where);

  /// The driver's own call needs no current device, but for the default streams. Where it does not succeed, the runtime's:
  /// it makes the device's context first, and says what is wrong.
  template <class OwnCall, class RuntimeCall>
  cudaError_t in_context(const OwnCall& own, const RuntimeCall& runtime) const {
    if (!(of_current_device_ && several_devices)) [[likely]] {
      if (own() == CUDA_SUCCESS) [[likely]]
        return cudaSuccess;
    }
    const DeviceScope scope(device_index());
    return runtime();
  }

  // What commands that are submitted now must heed: the failures of the queue, or of the graph that they are captured into.
  bool in_doubt() const;
  bool skips_all() const { return capture_ == nullptr && failures_.skips_all(); }
  detail::DeviceGuard guard() const;

  // queue_launch.cpp
  void submit_launch(const Command& command, const Launch& launch);
  void launch_global(const Command& command, const Launch& launch);
  [[gnu::noinline]] void launch_slowly(const Kernel& kernel, const void* closure, std::size_t size,
                                       const detail::LaunchSite& site);

  // queue_copy.cpp
  void submit_copy(const Command& command, const Copy& copy);
  void copy_on_device(const Command& command, const Copy& copy);
  void copy_from_pageable(const Command& command, const Copy& copy);
  void copy_elsewhere(const Command& command, const Copy& copy, CudaDevice& device);
  void copy_pageable_in_graph(const Command& command, const Copy& copy);
  void copy_between_in_graph(const Command& command, const Copy& copy);
  /// Pinned memory that what was submitted so far uses.
  void give_after_use(void* pinned) noexcept;
  void copy_when_idle(const Command& command, const Copy& copy, int device);
  void copy_to_pageable(const Command& command, const Copy& copy);
  void copy_on_host(const Command& command, const Copy& copy, bool owns_source);
  bool reaches(MemoryKind kind, int device) const;

  // queue_fill.cpp
  void submit_fill(const Command& command, const Fill& fill);
  void fill_large(const Command& command, const Fill& fill);

  // signals.cpp
  cudaError_t wait_aside(const CudaSignal& signal, SourceLocation where);

  // queue_host.cpp
  void submit_call(const Command& command, detail::HostFunction* function);
  void submit_external(const Command& command, detail::HostFunction* function);
  friend class Watched;

  CudaDevice& device_;
  std::string label_;
  StreamId id_ = 0;
  int priority_ = 0;
  bool blocking_ = true;
  bool legacy_ = false;
  bool of_current_device_ = false;  ///< its handle is a default stream's: it means the device that is current
  bool wrapped_ = false;
  bool internal_ = false;
  std::atomic<bool> ended_{false};  ///< the foreign stream may be gone
  std::atomic<bool> used_{false};
  std::atomic<cudaStream_t> stream_{nullptr};
  detail::Mutex mutex_;  ///< of what is made late: the stream, the flag, the event of follow()
  cudaEvent_t follow_event_ WEIR_GUARDED_BY(mutex_) = nullptr;
  Aside behind_events_;
  Aside behind_words_;  ///< waits for other backends, where this stream itself cannot
  std::atomic<std::uint64_t> records_{0};
  FailureState failures_;
  DriverGraph* capture_ = nullptr;  ///< under the core's lock of captures
};

/// Reports when an observed command ran: host functions before and after it take the time.
class Watched {
 public:
  Watched(CudaQueue& queue, const Command& command);
  void end();

 private:
  struct Times;
  CudaQueue& queue_;
  Times* times_ = nullptr;
  SourceLocation where_;
};

}  // namespace weir::cuda
