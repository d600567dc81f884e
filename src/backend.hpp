// The seam: what a backend is to the core, one class for each noun: Backend, Queue, EventState, PoolState, HostMemory, and for
// graphs DriverCapture and GraphExecutable (graph_form.hpp). What is pure must be written; each default says for which backend
// it is right (docs/backends.md). Backends know the public headers and this file; never src/core, never each other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <weir/detail/device_code.hpp>
#include <weir/device.hpp>
#include <weir/error.hpp>
#include <weir/memory.hpp>
#include <weir/observer.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

#include "collective_call.hpp"

namespace weir {

class Backend;
class Queue;

namespace detail {

/// Copies of pageable sources up to this size take them at the call (R36, R37).
inline constexpr std::size_t most_taken_bytes = std::size_t{1} << 20;

/// Whether a command's call returns when the command is over (R36 to R38).
inline bool returns_when_over(const Op& op) {
  if (const auto* fill = std::get_if<Fill>(&op)) return fill->kind == MemoryKind::pageable;
  const auto* copy = std::get_if<Copy>(&op);
  if (copy == nullptr) return false;
  if (copy->to_kind == MemoryKind::pageable) return true;
  return copy->from_kind == MemoryKind::pageable &&
         copy->from_layout.shape.count() * copy->from_layout.element_bytes > most_taken_bytes;
}

/// How a queue that waits for an event of another backend learns that it is reached: made by the queue's backend, given by
/// the event's.
class Signal {
 public:
  virtual ~Signal() = default;
  /// Once, by any thread, workers and the driver's own included, and without waiting for anything. `failure`: what stopped
  /// the work that the event stands for, or null; `from`: the stream that has failed by it, 0 if nobody knows.
  virtual void give(std::shared_ptr<const Error> failure, StreamId from) noexcept = 0;
  /// The work is over, and did not fail.
  void give() noexcept { give(nullptr, 0); }
};

/// An event. Backends derive; states are recycled, never deleted, so that a stale handle can be told by its id. What is said of
/// an event is said of its last record so far. The defaults are for backends that are through with a command when they have
/// taken it, and keep the failure that each record found. Thread rule: any thread, several at once; close() by the last one.
struct EventState {
  Backend* backend = nullptr;
  int device = 0;
  bool timed = false;
  std::atomic<std::uint64_t> id{0};  ///< 0 while nobody owns it
  /// The core's: the number of its last record. Counts one by one while commands are observed, else it is not 0 from the first on.
  std::atomic<std::uint64_t> records{0};

  /// The owner is gone: the backend may give it to another one.
  virtual void close() noexcept = 0;
  /// Whether it has a record at all.
  virtual bool is_recorded() { return true; }
  /// What stopped the work that the record stands for, or null; for the defaults below alone.
  virtual std::shared_ptr<const Error> failure() { return nullptr; }
  /// Whether what the record stands for is over; true without a record.
  virtual bool done() { return true; }
  /// The same, and it did not fail. Never waits. False where nobody can say.
  virtual bool passed() { return failure() == nullptr; }
  /// Waits for that, and throws its failure, which stays with its stream.
  virtual void synchronize(const char* operation, SourceLocation where);
  /// Since the record of `start`, a timed event of the same device. Default: not_supported.
  virtual Milliseconds elapsed_since(EventState& start, SourceLocation where);
  /// Gives the signal once what the record stands for is over, with its failure. Never waits. Takes the signal unless it
  /// throws.
  virtual void signal_after(std::unique_ptr<Signal>& signal, SourceLocation where);

 protected:
  EventState() = default;
  ~EventState() = default;
};

/// In an event's id: its last record was captured, so that asking about it is an error (R118, R119).
inline constexpr std::uint64_t captured_bit = std::uint64_t{1} << 63;

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

/// A stream-ordered memory pool. Backends derive; a closed pool lives until its last allocation is given back. The queues are
/// of the pool's backend. Thread rule: any thread, several at once.
struct PoolState {
  Backend* const backend;
  const int device;

  /// The owner of a pool from Backend::open_pool() is gone.
  virtual void close() noexcept = 0;
  /// Aligned to 256 bytes; null for 0 bytes. `operation` and `where`: the user's call, for errors.
  virtual void* allocate(Queue& queue, std::size_t bytes, const char* operation, SourceLocation where) = 0;
  /// The memory ends behind what `queue` and the queues of `others` have taken so far; it delays nothing else. `owner`: the
  /// stream in whose order the memory was, which has the queue still if it is `open`. Takes `others`. Throws for what is not a
  /// live allocation of the pool; nothing else fails.
  virtual void release(Queue& queue, bool open, StreamId owner, QueuePlaces& others, void* data,
                       SourceLocation where) = 0;
  /// release() of what no other queue was given: most memory, in the fewest steps.
  virtual void release_unshared(Queue& queue, bool open, StreamId owner, void* data, SourceLocation where);
  virtual PoolStatistics statistics() = 0;
  virtual void reset_high_marks() = 0;
  /// Default: nothing is kept that could be given back.
  virtual void trim(std::size_t /*keep*/) {}
  std::size_t release_threshold() const { return threshold_.load(std::memory_order_relaxed); }
  virtual void set_release_threshold(std::size_t bytes) { threshold_.store(bytes, std::memory_order_relaxed); }

 protected:
  PoolState(Backend& its_backend, int its_device, std::size_t threshold)
      : backend(&its_backend), device(its_device), threshold_(threshold) {}
  ~PoolState() = default;

  std::atomic<std::size_t> threshold_;
};

/// Host memory that serves the devices of all backends: the first backend that has some is asked.
class HostMemory {
 public:
  /// Pinned, aligned to 256 bytes.
  virtual void* allocate(std::size_t bytes, const char* operation, SourceLocation where) = 0;
  virtual void release(void* data) noexcept = 0;
  virtual void pin(const void* data, std::size_t bytes, SourceLocation where) = 0;
  virtual void unpin(const void* data, SourceLocation where) = 0;

 protected:
  ~HostMemory() = default;
};

/// Memory of a pool as another process of this host finds it.
struct SharedMemory {
  int file = -1;                        ///< a descriptor, which stays whose it is
  std::uint64_t offset = 0;             ///< of the allocation in it
  std::uint64_t bytes = 0;              ///< of the allocation
  std::uint64_t pool = 0;               ///< the number of the pool in its process
  std::array<std::byte, 64> pointer{};  ///< what a driver calls it
};

/// How pools share memory between processes of one host. Thread rule: any thread, several at once.
class MemorySharing {
 public:
  /// An allocation of a pool. Throws not_supported where the pool was not made for it.
  virtual SharedMemory share(PoolState& pool, void* data, const char* operation, SourceLocation where) = 0;
  /// Memory of another process as this device's. Throws invalid_value for what cannot be such memory, wrong_device, out_of_memory.
  struct Foreign {
    SharedMemory memory;
    bool writable;
    std::string exporter;  ///< names the process, among all there were
    std::string object;    ///< for errors, as the next two
    const char* operation;
    SourceLocation where;
  };
  virtual void* map(int device, const Foreign& foreign) = 0;
  /// Nobody here uses it any more. May wait, but not for the work of streams.
  virtual void unmap(int device, void* data, const SharedMemory& memory) noexcept = 0;

 protected:
  ~MemorySharing() = default;
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

/// Time on devices that have one of their own, a model's: an observer of all that the program does, which the core attaches
/// before anybody has such a device, and never detaches. Thread rule: any thread, several at once.
class DeviceClock : public Observer {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// What is to be watched for it.
  static constexpr Watch watch = Watch::commands | Watch::memory | Watch::host | Watch::graphs;

  /// The host thread's time, as it has it for a device.
  virtual Time now(int device, std::uint32_t thread) = 0;
  struct Answer {
    bool done;
    /// What host_work() said, with HostWork::may_be_taken_back: the thread's time is as if it had not.
    std::chrono::nanoseconds taken_back{0};
  };
  /// done(): whether what a stream was given, or an event's last record, is over by the device's time. To ask takes the thread
  /// time while it is not. True for streams and events of other devices.
  virtual Answer done(const HostWait& question) = 0;
  /// Said of a question that was answered with true: the program is told no all the same, for the work has not run for real.
  virtual void late(const HostWait& question) = 0;
  /// Whether what the thread does now, if it is host_work(), may be taken back.
  virtual bool may_take_back(std::uint32_t thread) = 0;
  /// Between the last records of two timed events. Throws not_ready where one is not over by the device's time.
  virtual Milliseconds elapsed(std::uint64_t start, std::uint64_t end, std::uint32_t thread, SourceLocation where) = 0;

  struct NodeRan {
    std::uint32_t node;  ///< as in Observer::ran_node()
    Span span;
  };
  /// A command that ran, and when.
  struct Ran {
    CommandId command;
    StreamId stream;
    Span span;
    std::vector<NodeRan> nodes = {};  ///< of a graph's launch, by their ends; filled by take_ran()
  };
  /// It has run for real: take_ran() will say when by the device's time, once that is known. False for those of other devices.
  virtual bool keep(const Ran& ran) = 0;
  /// Those whose times are known since the last call, each stream's in its order.
  virtual std::vector<Ran> take_ran() = 0;
  /// Whether anybody watches times.
  virtual void watch_times(bool on) = 0;
  /// Whether take_ran() says when the command and its nodes ran: its stream is, or was, of one of its devices.
  virtual bool keeps(CommandId command, StreamId stream) = 0;

 protected:
  ~DeviceClock() override = default;
};
/// Null while no device has one.
extern std::atomic<DeviceClock*> device_clock;

struct GraphForm;
class GraphExecutable;
class DriverCapture;

/// All device code that static initialisation made known so far, linked by `next`.
DeviceCode* first_device_code() noexcept;

/// The calling thread's number, as observers know it.
std::uint32_t thread_number() noexcept;

/// Backends report the time of observed commands (id not 0).
void report_ran(CommandId command, StreamId stream, Span span) noexcept;
/// The same of a node of the graph that a command launched, before the command is reported.
void report_node_ran(CommandId launch, StreamId stream, std::uint32_t node, Span span) noexcept;
/// A stream has failed: by its own work, or because it came behind what `from` has failed by.
void report_failed(StreamId stream, StreamId from, const Error& failure) noexcept;
/// Whether anybody is to be told of that.
bool failures_are_watched() noexcept;

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

/// One stream's worth of order. The defaults are for queues that are through with a command when submit() returns, but where
/// they say something else. Thread rule: any thread, several at once; retire() by the last one.
class Queue {
 public:
  virtual ~Queue() = default;

  /// Takes a command. Returns before it ran, but for copies that touch pageable memory (R36 to R38). Throws before
  /// anything has changed; host functions are the queue's once it returned.
  virtual void submit(const Command& command) = 0;
  /// Waits for everything submitted so far, then throws the failure of this queue, if any, and forgets it.
  virtual void synchronize(const char* operation, SourceLocation where) = 0;
  /// The same without throwing: a failure stays.
  virtual void drain() noexcept {}
  /// The owner is gone: what is pending runs to its end; then the backend may use the queue again.
  virtual void retire() noexcept = 0;

  /// submit() of a Launch over one dimension about which nothing else is said, as the default does. The parameters stay in
  /// the registers in which the core has them.
  virtual void launch(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site);
  /// launch() with a closure that is empty, or whose bytes are its copy: 32 or 64 of them may be read.
  virtual void launch_empty(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                            const detail::LaunchSite& site);
  virtual void launch_32(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site);
  virtual void launch_64(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site);
  /// submit() of a Record and of a Wait that nobody observes, as the defaults do.
  virtual void record(detail::EventState& event, SourceLocation where);
  virtual void wait(detail::EventState& event, SourceLocation where);

  /// Takes a Wait for an event of another backend: later commands wait until the signal is given, and fail with its failure.
  /// Null: there is nothing to wait for. Default: not_supported.
  virtual std::unique_ptr<detail::Signal> wait_for_signal(const Command& command);
  /// Later commands here wait for what `other`, a queue of the same backend, has taken so far from `owner`, the stream that
  /// had it. Unlike a recorded event this adds nothing to `other`, which may be retired, captured or at work for another
  /// stream: a queue goes to one only when nothing in it is pending.
  virtual void follow(Queue& /*other*/, StreamId /*owner*/) {}
  /// Gives the signal once this is through with what it has taken so far from `owner`, and delays nothing else. Never waits.
  /// Takes the signal unless it throws.
  virtual void signal_after(StreamId owner, std::unique_ptr<detail::Signal>& signal);
  virtual bool done() { return true; }
  /// Whether what `owner` gave this queue is over, for housekeeping: of a queue that captures, what it took before. False
  /// where nobody can say now.
  virtual bool is_over(StreamId /*owner*/) { return true; }

  /// Default: it has no stream of a driver's.
  virtual void* native() { return nullptr; }
  /// Default: no driver takes part in captures.
  virtual detail::DriverCapture* driver_capture() { return nullptr; }
};

/// All devices of one kind. `device` is an index below device_count(). Thread rule: any thread, several at once.
class Backend {
 public:
  virtual ~Backend() = default;

  // What it is.

  virtual std::string_view name() const = 0;
  virtual int device_count() { return 1; }
  /// Why device_count() is 0; empty otherwise.
  virtual std::string why_absent() { return {}; }
  virtual DeviceProperties properties(int device) = 0;
  /// Of a backend whose devices are there for who names them alone: never among all devices, nor a default one. What may
  /// come behind its name and a colon, other than what only open_named() knows. Default: there are none.
  virtual std::vector<std::string> named_devices() { return {}; }
  /// The device of such a name, which is made if it was not there: the next number, and its name as devices have it.
  /// Throws std::string: why there is none. Not called twice at a time.
  virtual std::pair<int, std::string> open_named(const std::string& name);
  /// Whether its devices are the host itself: their memory is host memory, and a single one needs no number.
  virtual bool on_host() const { return false; }
  /// Of its device memory, as DLPack numbers kinds of devices; 0: a tensor cannot say it.
  virtual int dlpack_type() const { return 0; }
  /// Whether it runs functions that a device's own compiler made (GlobalCall).
  virtual bool runs_global_functions() const { return false; }

  // What it makes. Nothing of it is null but where that is said.

  virtual Queue& open_queue(int device, const QueueOptions& options) = 0;
  /// A queue for a driver's stream. Default: null, there are none.
  virtual Queue* wrap_queue(int /*device*/, void* /*native*/, const QueueOptions&) { return nullptr; }
  virtual detail::EventState& open_event(int device, bool timed) = 0;
  virtual detail::PoolState& default_pool(int device) = 0;
  virtual detail::PoolState& open_pool(int device, const PoolOptions& options) = 0;
  /// Makes a graph ready for replays (op GraphLaunch). `driver_graph`: what DriverCapture::end_capture() gave, or null.
  /// Default: not_supported.
  virtual detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void* driver_graph,
                                               SourceLocation where);

  /// What runs collectives among queues of these devices. Throws std::string: why nothing does. Default: null, there is nothing.
  virtual std::unique_ptr<detail::CollectiveTransport> open_transport(const std::vector<int>& /*devices*/) {
    return nullptr;
  }
  /// What holds a device's queues for calls whose other ranks are in other processes: is_told(). Default: open_transport() of the
  /// device alone.
  virtual std::unique_ptr<detail::CollectiveTransport> open_rank_transport(int device) {
    return open_transport({device});
  }

  /// How collectives of a device may be moved where other ranks are other processes, its words apart by spaces: who has all of
  /// them but the last, which is the device's own, can be a rank of the same communicator. Default: empty, by messages alone.
  virtual std::string rank_mover(int /*device*/) { return {}; }
  /// A rank's side of it. Null where rank_mover() is empty.
  virtual std::unique_ptr<detail::RankMover> open_rank_mover(int /*device*/) { return nullptr; }

  /// The one that all its devices share. Default: null, the host's clock is theirs.
  virtual detail::DeviceClock* clock() { return nullptr; }

  /// Reports the times of all observed commands that are over by now, if that was not done. Waits for no work. Default: they
  /// are reported before anybody learns that they are over.
  virtual void report_times() noexcept {}

  // All of a device's queues.

  /// Waits for them, then throws the oldest failure that nobody was told of, and forgets it.
  virtual void synchronize(int device, const char* operation, SourceLocation where) = 0;
  /// The same without throwing: failures stay with their queues. Default: nothing is ever pending.
  virtual void drain(int /*device*/) noexcept {}
  /// How host threads wait for them. Default: nobody ever waits.
  virtual void set_wait_mode(int /*device*/, WaitMode, SourceLocation) {}

  // Kernels.

  /// Default: of a device whose blocks are loops of a host thread.
  virtual KernelFacts kernel_facts(int device, const Kernel& kernel, const char* operation, SourceLocation where);
  /// Blocks that a multiprocessor holds at one time; the sizes are possible. Default: one.
  virtual std::size_t resident_blocks(int /*device*/, const Kernel&, std::size_t /*threads*/,
                                      std::size_t /*shared_bytes*/, const char* /*operation*/, SourceLocation) {
    return 1;
  }

  // Memory.

  /// Default: null, another backend's serves.
  virtual detail::HostMemory* host_memory() { return nullptr; }
  /// Default: null, its memory stays in this process.
  virtual detail::MemorySharing* memory_sharing() { return nullptr; }
  /// What this backend knows of an address; nothing for pageable memory. Default: nothing, for memory that is known by its
  /// arrays alone.
  virtual std::optional<PointerInfo> locate(const void* /*data*/) { return std::nullopt; }
  /// Defaults: no device reaches another one's memory.
  virtual bool can_access_peer(int /*from*/, int /*to*/) { return false; }
  virtual bool peer_access(int /*from*/, int /*to*/) { return false; }
  /// Only where can_access_peer().
  virtual void set_peer_access(int /*from*/, int /*to*/, bool /*enabled*/) {}
};

/// The backends of this build, best first for a default device. Defined in backends/registry.cpp.
const std::vector<Backend*>& backends();
/// Whether a backend of this name is in other builds. Defined there, too.
bool is_left_out(std::string_view name);
/// The device that a name means (backends/stand_in.cpp): another one where the environment lets a simulated one stand for GPUs. Throws std::string: what is
/// wrong with that.
std::string meant_by(std::string_view name);

}  // namespace weir
