// The process's devices and streams, and what each host thread has made current. Everything here outlives main().
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <weir/device.hpp>
#include <weir/error.hpp>
#include <weir/stream.hpp>

#include "backend.hpp"
#include "core/streams/entry_lock.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

class Recorder;

/// Where a stream's calls go: to its queue, or, while it captures, to a recorder. Captures thus cost other streams nothing.
class QueuePointer {
 public:
  QueuePointer& operator=(Queue* queue) {
    queue_.store(queue, std::memory_order_release);
    return *this;
  }
  Queue* get() const { return queue_.load(std::memory_order_acquire); }
  Queue* operator->() const { return get(); }
  Queue& operator*() const { return *get(); }

 private:
  std::atomic<Queue*> queue_{nullptr};
};

/// A stream. States are recycled, never deleted: a stale handle is told by its id.
struct StreamState {
  std::atomic<StreamId> id{0};               ///< 0 while nobody owns it
  QueuePointer queue;                        ///< where calls go now
  Queue* real = nullptr;                     ///< the backend's, also while the stream captures
  std::atomic<Recorder*> recorder{nullptr};  ///< while the stream captures
  DeviceState* device = nullptr;
  std::string name;
  int priority = 0;
  bool blocking = true;
  bool legacy = false;
  bool wrapped = false;
  SourceLocation where;   ///< that made it
  SourceLocation shared;  ///< where its native handle was taken first; under the runtime's told_mutex
  EntryLock entering;     ///< where observers are told: commands enter the stream in the order in which they are
  std::atomic<std::uint64_t> generation{
      0};  ///< of the default stream's commands, of the last one here that observers saw
  /// Held while it becomes another stream, and by who tells of memory, whose stream may be gone.
  Mutex reuse;
};

/// What observers are told of the default stream's rules, from the calls alone.
struct DefaultOrder {
  Mutex mutex;
  std::atomic<std::uint64_t> generation{1};             ///< counts the legacy stream's commands
  bool any WEIR_GUARDED_BY(mutex) = false;              ///< whether there was one
  std::vector<StreamId> active WEIR_GUARDED_BY(mutex);  ///< blocking streams with commands since the last one
};

/// Of what streams capture, and of everything about it.
RecursiveMutex& captures_lock();

struct DeviceState {
  Backend* backend = nullptr;
  int index = 0;
  std::string name;
  StreamRef own;  ///< the stream that is current at first (W9)
  StreamRef legacy;
  Queue* idle = nullptr;  ///< never has work: what is allocated in its order was never used, or is finished with
  int blocking_captures WEIR_GUARDED_BY(captures_lock()) = 0;
  Queue* legacy_guard WEIR_GUARDED_BY(captures_lock()) = nullptr;  ///< what calls of the legacy stream meet meanwhile
  std::atomic<PoolState*> pool{nullptr};
  std::atomic<WaitMode> wait_mode{WaitMode::automatic};
  DefaultOrder default_order;
  std::once_flag properties_read;
  DeviceProperties properties;
};

/// While a thread has the lock under which observers are told of streams: those whose handles a callback destroys are told behind.
class TellingOfStreams {
 public:
  TellingOfStreams() noexcept;
  ~TellingOfStreams();
  TellingOfStreams(const TellingOfStreams&) = delete;
  TellingOfStreams& operator=(const TellingOfStreams&) = delete;
  /// Of this thread; null if it tells of none.
  static TellingOfStreams* now() noexcept;
  void close_later(StreamId id) noexcept;

 private:
  std::vector<StreamId> closed_;
};

class Runtime {
 public:
  static Runtime& get();

  /// Those that are open: of backends with names, the ones that somebody named so far, behind all others.
  const std::vector<DeviceState*>& devices() const { return *devices_.load(std::memory_order_acquire); }
  /// Throws std::string: why there is none.
  DeviceState& open_named(Backend& backend, const std::string& name);
  /// Of all devices, and of those that somebody names later.
  void set_wait_mode(WaitMode mode, SourceLocation where);
  DeviceState* first_of(std::string_view backend) const;
  /// The first device that is the host itself; every build has one.
  DeviceState& host() const;
  /// `native`: a handle to wrap, which may be null (CUDA's legacy default stream).
  StreamRef open_stream(DeviceState& device, const StreamOptions& options, bool legacy = false,
                        std::optional<void*> native = {}, SourceLocation where = {});
  void close_stream(StreamRef stream) noexcept;
  /// The open stream of this number; empty if it is gone.
  StreamRef find_stream(StreamId id);
  /// Those that are open, the legacy stream among them; others may open and close meanwhile.
  std::vector<StreamRef> blocking_streams(const DeviceState& device);
  /// Returns once no thread that enters a stream tells observers of before the call.
  void let_tellers_finish() noexcept;
  /// Waits for all devices; failures stay where they are.
  void drain_all() noexcept;
  /// Tells the observer of the streams that are open, and calls `then`; none opens or closes meanwhile.
  template <class F>
  void tell_open_streams(Observer& observer, F&& then) {
    const LockGuard guard(told_mutex_);
    const TellingOfStreams telling;
    tell_open_streams(observer);
    then();
  }
  /// The stream's native handle is the user's from here on.
  void share_stream(StreamState& stream, StreamId id, SourceLocation where);

 private:
  Runtime();
  StreamState& new_state();
  void open_streams_of(DeviceState& device);
  void tell_open_streams(Observer& observer) WEIR_NEEDS(told_mutex_);

  std::atomic<const std::vector<DeviceState*>*> devices_;
  Mutex naming_mutex_;  ///< before told_mutex_: devices are made one after the other
  WaitMode wait_mode_ WEIR_GUARDED_BY(naming_mutex_) = WaitMode::automatic;
  /// All that there were: who goes through an earlier one may.
  std::vector<std::unique_ptr<const std::vector<DeviceState*>>> device_lists_ WEIR_GUARDED_BY(naming_mutex_);
  Mutex told_mutex_;  ///< streams open and close one after the other, for observers
  Mutex streams_mutex_;
  std::vector<StreamState*> free_streams_ WEIR_GUARDED_BY(streams_mutex_);
  std::vector<StreamState*> all_streams_ WEIR_GUARDED_BY(streams_mutex_);
  std::atomic<StreamId> next_stream_{1};
};

/// Things that exist once per host thread. Gone with the thread; made again if a static object's destructor comes later.
struct ThreadData {
  DeviceState* default_device = nullptr;
  std::vector<StreamRef> current;  ///< by position of the device in Runtime::devices()
  std::vector<std::unique_ptr<Stream>> per_thread;
  std::vector<std::unique_ptr<Event>> marks;  ///< for waits on a stream: a wait takes what it needs at the call
};
ThreadData& thread_data();
std::size_t position_of(const DeviceState& device);

/// The first line of every call: throws not_permitted inside host functions and kernels, process_forked in a child.
void enter_slowly(const char* operation, SourceLocation where);
inline void enter(const char* operation, SourceLocation where) {
  if (thread_state != ThreadState::free) [[unlikely]]
    enter_slowly(operation, where);
}
/// Whether the process is a child that inherited a used library: destructors do nothing then.
bool forked();

/// The state behind a handle. Throws invalid_handle for one that was moved from, destroyed or never made.
inline StreamState& state_of(StreamRef stream, const char* operation, SourceLocation where) {
  enter(operation, where);
  StreamState* state = stream.state();
  if (state == nullptr || state->id.load(std::memory_order_acquire) != stream.id()) [[unlikely]]
    refuse_stream(operation, where);
  return *state;
}
[[noreturn]] void refuse_event(EventRef event, const char* operation, SourceLocation where);
inline EventState& state_of(EventRef event, const char* operation, SourceLocation where) {
  enter(operation, where);
  EventState* state = event.state();
  if (state == nullptr || state->id.load(std::memory_order_acquire) != event.id()) [[unlikely]] {
    refuse_event(event, operation, where);
  }
  return *state;
}
/// The same for calls that also take an event whose last record was captured.
EventState* captured_state(EventRef event);
inline EventState& any_state_of(EventRef event, const char* operation, SourceLocation where) {
  enter(operation, where);
  EventState* state = event.state();
  if (state == nullptr || state->id.load(std::memory_order_acquire) != event.id()) [[unlikely]] {
    if (EventState* captured = captured_state(event)) return *captured;
    refuse_event(event, operation, where);
  }
  return *state;
}
/// Waits, in the name of the call that the user wrote.
void synchronize(StreamRef stream, const char* operation, SourceLocation where);
void synchronize(EventRef event, const char* operation, SourceLocation where);

std::string describe(const StreamState& stream);
std::string describe(Device device);

/// What every submission looks at, one load: what observers watch (the bits of Watch), must launches block, does anybody capture.
enum Hooks : std::uint32_t { captures_watched = 1u << 29, policies = 1u << 30, launch_blocking = 1u << 31 };
extern std::atomic<std::uint32_t> hooks;

}  // namespace weir::detail
