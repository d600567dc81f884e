// The seam: what a backend is to the core. Two small abstract classes, Backend and Queue, and the states they share.
// Backends know the public headers and this file; never src/core, never each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/device.hpp>
#include <weir/device_code.hpp>
#include <weir/error.hpp>
#include <weir/memory.hpp>
#include <weir/observer.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

class Backend;
class Queue;

namespace detail {

/// An event. Backends derive; states are recycled, never deleted, so that a stale handle can be told by its id.
struct EventState {
  Backend* backend = nullptr;
  int device = 0;
  bool timed = false;
  std::atomic<std::uint64_t> id{0};  ///< 0 while nobody owns it
  /// The core's: the number of its last record. Counts one by one while commands are observed, else it is not 0 from the first on.
  std::atomic<std::uint64_t> records{0};
};

/// In an event's id: its last record was captured, so that asking about it is an error (R118, R119).
inline constexpr std::uint64_t captured_bit = std::uint64_t{1} << 63;

/// How a queue that waits for an event of another backend learns that it is reached: made by the queue's backend, given by
/// the event's.
class Signal {
 public:
  virtual ~Signal() = default;
  /// Once, by any thread, workers and the driver's own included, and without waiting for anything. `failure`: what stopped
  /// the work that the event stands for, or null.
  virtual void give(std::shared_ptr<const Error> failure) noexcept = 0;
};

/// A queue that was given some memory; and, once the memory is dead, the point in the queue's order behind which nothing uses
/// it. A list of these is where a life ends.
struct QueuePlace {
  Queue* queue = nullptr;
  DeviceState* device = nullptr;  ///< the queue's
  std::uint64_t number = 0;       ///< the backend's, as the next
  bool implied = false;
  QueuePlace* next = nullptr;
  StreamId owner = 0;  ///< the stream that had the queue when it was given the memory
};

/// Owns its places.
class QueuePlaces {
 public:
  QueuePlaces() = default;
  QueuePlaces(QueuePlaces&& other) noexcept : first_(std::exchange(other.first_, nullptr)) {}
  QueuePlaces& operator=(QueuePlaces&& other) noexcept {
    std::swap(first_, other.first_);
    return *this;
  }
  ~QueuePlaces() {
    while (!empty()) delete pop();
  }

  bool empty() const { return first_ == nullptr; }
  QueuePlace* first() const { return first_; }
  void push(QueuePlace* place) noexcept {
    place->next = first_;
    first_ = place;
  }
  QueuePlace* pop() noexcept { return std::exchange(first_, first_->next); }
  /// Moves those that `f` is true for to `others`.
  template <class F>
  void move_to(QueuePlaces& others, F&& f) {
    for (QueuePlace** link = &first_; *link != nullptr;) {
      QueuePlace* place = *link;
      if (f(*place)) {
        *link = place->next;
        others.push(place);
      } else {
        link = &place->next;
      }
    }
  }

 private:
  QueuePlace* first_ = nullptr;
};

/// A stream-ordered memory pool. Backends derive; a closed pool lives until its last allocation is given back.
struct PoolState {
  Backend* backend = nullptr;
  int device = 0;
};

/// Whether this host thread may call Weir: not inside a host function or a kernel, and not in a forked child.
enum class ThreadState : std::uint8_t { unknown, free, running, forked };
extern constinit thread_local ThreadState thread_state;
/// What the thread is running, for the message of a call that is refused.
struct RunningCommand {
  const char* what = "";
  std::string_view name;
  SourceLocation where;
};
extern constinit thread_local RunningCommand running_command;
/// The same for nodes of graphs, by one store; goes before running_command unless null.
extern constinit thread_local const RunningCommand* running_node;

struct GraphForm;
class GraphExecutable;

/// All device code that static initialisation made known so far, linked by `next`.
DeviceCode* first_device_code() noexcept;

/// Backends report the time of observed commands (id not 0).
void report_ran(CommandId command, StreamId stream, Span span) noexcept;
/// A stream has failed: by its own work, or because it came behind what `from` has failed by.
void report_failed(StreamId stream, StreamId from, const Error& failure) noexcept;

}  // namespace detail

struct QueueOptions {
  /// internal: for the library's own housekeeping; failures elsewhere are no concern of it.
  enum class Kind : std::uint8_t { stream, legacy, internal };
  Kind kind = Kind::stream;
  int priority = 0;  ///< within the device's range
  bool blocking = true;
  StreamId stream = 0;
  std::string label;  ///< "stream 'upload' on cpu", for messages
};

/// One stream's worth of order. Thread rule: any thread, several at once; retire() by the last one.
class Queue {
 public:
  virtual ~Queue() = default;

  /// Takes a command. Returns before it ran, but for copies that touch pageable memory (R36 to R38). Throws before
  /// anything has changed; host functions are the queue's once it returned.
  virtual void submit(const Command& command) = 0;
  /// submit() of a Launch over one dimension about which nothing else is said. The parameters stay in the registers in
  /// which the core has them; the first is unused.
  virtual void launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) = 0;
  /// launch() with a closure that is empty, or whose bytes are its copy: 32 or 64 of them may be read.
  virtual void launch_empty(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                            const detail::LaunchSite& site);
  virtual void launch_32(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site);
  virtual void launch_64(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site);
  /// submit() of a Record and of a Wait that nobody observes.
  virtual void record(detail::EventState& event, SourceLocation where) = 0;
  virtual void wait(detail::EventState& event, SourceLocation where) = 0;
  /// Takes a Wait for an event of another backend: later commands wait until the signal is given, and fail with its failure.
  /// Null: there is nothing to wait for.
  virtual std::unique_ptr<detail::Signal> wait_for_signal(const Command& command) = 0;
  /// Later commands here wait for what `other`, a queue of the same backend, has taken so far from `owner`, the stream that
  /// had it. Unlike a recorded event this adds nothing to `other`, which may be retired, captured or at work for another
  /// stream: a queue goes to one only when nothing in it is pending.
  virtual void follow(Queue& other, StreamId owner) = 0;
  virtual bool done() = 0;
  /// Whether what `owner` gave this queue is over, for housekeeping: of a queue that captures, what it took before. False
  /// where nobody can say now.
  virtual bool is_over(StreamId owner) = 0;
  /// Waits for everything submitted so far, then throws the failure of this queue, if any, and forgets it.
  virtual void synchronize(const char* operation, SourceLocation where) = 0;
  /// The same without throwing: a failure stays.
  virtual void drain() noexcept = 0;
  /// The owner is gone: what is pending runs to its end; then the backend may use the queue again.
  virtual void retire() noexcept = 0;
  virtual void* native() { return nullptr; }

  // Captures. The core records every capture itself. A backend whose driver captures too, so that foreign libraries on the
  // native stream are captured, returns true from begin_capture(). Until the end it is then handed, by queues that
  // are in the capture: every command but those in bodies of conditional nodes (host functions stay the node's), and what it became
  // in the form; records and waits of events that fork and join; nodes with nodes inside, when these are complete.

  virtual bool begin_capture(SourceLocation) { return false; }
  /// This queue is in the capture of `origin` from here on: a wait for one of its events follows.
  virtual void join_capture(Queue& /*origin*/, SourceLocation) {}
  /// This queue's next in the capture depends on what `other`'s next would: it was not in the driver's part until now.
  virtual void capture_behind(Queue& /*other*/) {}
  /// The command before was this node of the form.
  virtual void captured(const detail::GraphForm&, std::size_t /*node*/) {}
  /// A child graph or conditional node, the next in this queue.
  virtual void capture_inside(const detail::GraphForm&, std::size_t /*node*/) {}
  /// Ends the capture that began here: what instantiate() wants, or null if it is discarded. Whatever it throws, the
  /// capture has ended.
  virtual void* end_capture(bool /*discard*/, SourceLocation) { return nullptr; }
};

/// All devices of one kind. `device` is an index below device_count(). Thread rule: any thread, several at once.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;
  virtual int device_count() = 0;
  /// Why device_count() is 0; empty otherwise.
  virtual std::string why_absent() = 0;
  /// Whether its devices are the host itself: their memory is host memory, and a single one needs no number.
  virtual bool on_host() const { return false; }
  /// Of its device memory, as DLPack numbers kinds of devices; 0: a tensor cannot say it.
  virtual int dlpack_type() const { return 0; }
  /// Whether it runs functions that a device's own compiler made (GlobalCall).
  virtual bool runs_global_functions() const { return false; }
  virtual DeviceProperties properties(int device) = 0;
  virtual void synchronize(int device, const char* operation, SourceLocation where) = 0;

  /// The same without throwing: failures stay with their queues.
  virtual void drain(int device) noexcept = 0;

  virtual Queue& open_queue(int device, const QueueOptions& options) = 0;
  virtual Queue* wrap_queue(int device, void* native, const QueueOptions& options) = 0;

  virtual detail::EventState* open_event(int device, bool timed) = 0;
  virtual void close_event(detail::EventState* event) noexcept = 0;
  virtual bool event_done(detail::EventState& event) = 0;
  virtual void synchronize_event(detail::EventState& event, const char* operation, SourceLocation where) = 0;
  virtual Milliseconds elapsed(detail::EventState& start, detail::EventState& end, SourceLocation where) = 0;
  /// Whether the event has a record at all.
  virtual bool event_recorded(detail::EventState&) { return true; }

  /// Whether what the last record stands for is over and did not fail; true without a record. Never waits.
  virtual bool event_passed(detail::EventState& event) = 0;
  /// Gives the signal once what the last record so far stands for is over, with its failure. Never waits. Takes the signal
  /// unless it throws.
  virtual void signal_after(detail::EventState& event, std::unique_ptr<detail::Signal>& signal,
                            SourceLocation where) = 0;

  /// Gives the signal once `queue` is through with what it has taken so far from `owner`, and delays nothing else. Never waits.
  /// Takes the signal unless it throws.
  virtual void signal_after(Queue& queue, StreamId owner, std::unique_ptr<detail::Signal>& signal) = 0;

  virtual detail::PoolState* default_pool(int device) = 0;
  virtual detail::PoolState* open_pool(int device, const PoolOptions& options) = 0;
  virtual void close_pool(detail::PoolState* pool) noexcept = 0;
  /// `operation` and `where`: the user's call, for errors.
  virtual void* allocate(detail::PoolState& pool, Queue& queue, std::size_t bytes, const char* operation,
                         SourceLocation where) = 0;
  /// The memory ends behind what `queue` and the queues of `others`, all of this backend, have taken so far; it delays nothing
  /// else. `owner`: the stream in whose order the memory was, which has the queue still if it is `open`. Takes `others`. Throws
  /// for what is not a live allocation of the pool; nothing else fails.
  virtual void release(detail::PoolState& pool, Queue& queue, bool open, StreamId owner, detail::QueuePlaces& others,
                       void* data, SourceLocation where) = 0;
  /// release() of what no other queue was given: most memory, in the fewest steps.
  virtual void release_unshared(detail::PoolState& pool, Queue& queue, bool open, StreamId owner, void* data,
                                SourceLocation where) {
    detail::QueuePlaces nobody_else;
    release(pool, queue, open, owner, nobody_else, data, where);
  }
  virtual void trim(detail::PoolState& pool, std::size_t keep) = 0;
  virtual std::size_t release_threshold(detail::PoolState& pool) = 0;
  virtual void set_release_threshold(detail::PoolState& pool, std::size_t bytes) = 0;
  virtual PoolStatistics statistics(detail::PoolState& pool) = 0;
  virtual void reset_high_marks(detail::PoolState& pool) = 0;

  virtual void* allocate_pinned(std::size_t bytes, const char* operation, SourceLocation where) = 0;
  virtual void release_pinned(void* data) noexcept = 0;
  virtual void pin(const void* data, std::size_t bytes, SourceLocation where) = 0;
  virtual void unpin(const void* data, SourceLocation where) = 0;
  /// What this backend knows of an address; nothing for pageable memory.
  virtual std::optional<PointerInfo> locate(const void* data) = 0;

  /// Makes a graph ready for replays (op GraphLaunch). `driver_graph`: what Queue::end_capture() gave, or null.
  virtual detail::GraphExecutable* instantiate(int /*device*/, const detail::GraphForm&, void* /*driver_graph*/,
                                               SourceLocation where) {
    throw Error(Errc::not_supported, "weir::Graph", std::string(name()), "this backend has no graphs", where);
  }

  virtual bool can_access_peer(int from, int to) = 0;
  virtual bool peer_access(int from, int to) = 0;
  virtual void set_peer_access(int from, int to, bool enabled) = 0;
};

/// The backends of this build, best first for a default device. Defined in backends/registry.cpp.
const std::vector<Backend*>& backends();
/// Whether a backend of this name is in other builds. Defined there, too.
bool is_left_out(std::string_view name);

}  // namespace weir
