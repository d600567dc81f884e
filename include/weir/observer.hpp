// Observers: how tools see a program. Checkers, tracers and users' own tools are observers and need public headers only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/detail/durations.hpp>
#include <weir/device.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

class Error;
enum class NodeKind : std::uint8_t;

// g++ 12 takes an enumerator `host` for one that hides weir::host, which a name that is always qualified cannot.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
/// What an observer is told of; `a | b` is both. What no observer asks for costs nothing.
enum class Watch : std::uint32_t {
  nothing = 0,
  commands = 1,   ///< submitted() of all but memory; captures
  memory = 2,     ///< submitted() of Alloc and Free; names, pins, host_gone()
  host = 4,       ///< waits, accesses, hand-offs and work of the host
  graphs = 8,     ///< graphs and their nodes
  times = 16,     ///< ran(): the time of every command is taken
  refusals = 32,  ///< refused() and failed()
  everything = 63,
};
constexpr Watch operator|(Watch a, Watch b) {
  return static_cast<Watch>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Watch operator&(Watch a, Watch b) {
  return static_cast<Watch>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}

/// When a command ran, on the steady clock, and how that was measured.
struct Span {
  enum class Source : std::uint8_t {
    host,  ///< the host's clock, read by the thread that ran it; for a record or wait on a GPU, the end of the command before it
    events,     ///< a GPU's clock, by events before and after it
    kernel,     ///< a GPU's clock, read by the kernel itself
    simulated,  ///< the virtual clock of a simulated device
  };
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  Source source = Source::host;
  /// Where a GPU's clock was converted to the host's: by how much begin and end may both be off, in the same direction.
  std::chrono::nanoseconds error{0};
  /// With a virtual clock: when the call was made. Otherwise the epoch; an observer may read the clock itself.
  std::chrono::steady_clock::time_point called = {};
};
#pragma GCC diagnostic pop

/// What the host has waited for: everything (stream 0, no event), a device, a stream, an event, or one command.
struct HostWait {
  enum class Kind : std::uint8_t { all, device, stream, event, command };
  enum class Source : std::uint8_t {
    synchronize,      ///< a call of that name, AutoSynchronize, ScopedTimer; Array::to_host for a stream of its array
    query,            ///< done() that was true; for asked(), that was not
    unpin,            ///< weir::unpin waits for all devices
    to_dlpack,        ///< exporting host memory waits for the streams that use it
    pageable_copy,    ///< a copy or fill that returns when done, as in Array::to_host
    launch_blocking,  ///< WEIR_LAUNCH_BLOCKING
    load_graph,       ///< weir::load_graph waits for the contents of its arrays
  };
  Kind kind;
  int device = -1;  ///< index within its backend; -1 for all
  StreamId stream = 0;
  std::uint64_t event_id = 0;
  SourceLocation where;
  Source source = Source::synchronize;
  std::string_view backend = {};   ///< the device's, stream's or event's; empty for all
  std::uint64_t record = 0;        ///< of an event: the number of the record, as in Record
  CommandId command = 0;           ///< the command that was waited for
  std::uint32_t thread = 0;        ///< as in Command
  const Error* failure = nullptr;  ///< what the call throws, if the work failed; it has waited nevertheless
  /// When the call began to wait. The epoch for queries, which do not wait, and if no observer was attached then.
  std::chrono::steady_clock::time_point began = {};
};

struct StreamInfo {
  StreamId id;
  std::string name;
  Device device;
  int priority;
  bool blocking;
  bool legacy;
  bool wrapped = false;        ///< a foreign stream, given to wrap_stream()
  SourceLocation where = {};   ///< the line that made it; none for the streams that a device starts with
  SourceLocation shared = {};  ///< the line that took its native handle; none if no line did
};

/// The host reads or writes memory: a guard of host_access.hpp begins or ends.
struct HostAccess {
  std::uint64_t guard;   ///< unique in the process
  bool begins;           ///< else it ends
  Region region;         ///< `buffer` is 0 for memory of no array
  SourceLocation where;  ///< the line that opened the guard
  std::uint32_t thread;
};

/// HandOff::give() or take().
struct HandOffCall {
  std::uint64_t hand_off;  ///< unique in the process
  bool gives;              ///< else it takes
  SourceLocation where;
  std::uint32_t thread;   ///< 0 in a host function
  CommandId command = 0;  ///< the host function that gives; 0: a host thread, or its submission was not observed
};

/// The host computes for that time, as weir::sim::host_work() tells simulated devices.
struct HostWork {
  std::chrono::nanoseconds time;  ///< negative: by so much earlier work that may be taken back is shortened
  SourceLocation where;
  std::uint32_t thread;  ///< as in Command
  /// The thread was told that work is not done, although it is by the device's own time. A loop that polls would have ended
  /// there: if the thread asks again, this work is taken back before anything else of the thread is reported.
  bool may_be_taken_back = false;
};

/// A node of a graph. It, and what it points to, is valid during the call.
struct GraphNodeInfo {
  NodeKind kind;
  std::string_view name;                        ///< the kernel's name, or the name that was given; otherwise the kind
  SourceLocation where;                         ///< the line that made it
  StreamId stream = 0;                          ///< on which it was captured; 0 if it was built by hand
  const Op* op = nullptr;                       ///< what it does; null for kinds graph, conditional and empty
  std::span<const Region> uses = {};            ///< for a conditional node, the value that decides
  std::span<const std::uint32_t> depends = {};  ///< nodes of the same parent and branch
  std::int32_t parent = -1;                     ///< the child graph or conditional node that contains it
  std::uint32_t branch = 0;                     ///< which body of a conditional parent
  std::uint32_t bodies = 0;                     ///< of a conditional node
  bool repeats = false;                         ///< a conditional node whose body is repeated (while)
  bool selects = false;                         ///< a conditional node whose value is the number of its body (switch)
  bool enabled = true;
  bool collective = false;  ///< of all ranks, which may use one region and a part of it
  /// Of a collective of which a launch of the graph is a call of all ranks, in the order of the communicator's calls: the
  /// communicator, as op Collective has it. 0: it is no such node, as none of CPU devices is.
  std::uint64_t communicator = 0;
  std::string_view communicator_name = {};
};
struct GraphInfo {
  std::uint64_t id;  ///< unique in the process; of the capture, too, if it was captured
  Device device;
  SourceLocation where;  ///< the line that made it
  std::span<const GraphNodeInfo> nodes;
};

/// A command that the library or an OrderPolicy refused after it had got an id. `told`: submitted() was called for it.
struct Refusal {
  const Command& command;
  const Error& error;
  bool told;
};

/// Work failed. Streams that inherit a failure are told of the same Error object, and may be told before the stream it is from.
struct Failure {
  StreamId stream;  ///< the stream that has failed
  /// From which it inherits the failure; 0 if its own work failed, or what it waits for in another process.
  StreamId from;
  const Error& error;
};

/// Derive, override what you need, attach. A callback runs inside the call that it reports, on the calling thread; calls of several
/// threads overlap, so lock your own data. ran() and failed() are called by the library's own threads. Guarantees:
/// - The commands of a stream are reported in the order in which they enter it. If two threads use one stream at a time, this
///   excludes Alloc and Free, and calls that wait or run your code: copies and fills of pageable memory, External.
/// - If one call happens before another one (on one thread, or because the threads synchronised), it is reported first: a record
///   before the wait for it, an Alloc before the uses, a Free before the next Alloc at that address.
/// - opened(), closed() and shared() are called one at a time, and so are pinned() and unpinned().
/// Observing changes neither order nor results, errors or overlap, and waits for nothing. During a callback the library holds at
/// most the lock of the command's stream, of opened() and closed(), of pinned() and unpinned(), or of captures and graphs for
/// what is reported of them. A callback may call to_text() and accessors of its arguments, and nothing else of Weir's. It must
/// not throw. It may destroy handles; of a stream that opened(), closed() or shared() destroys, closed() is called afterwards.
/// What the arguments point to is valid during the call. docs/observers.md lists every callback with its thread, order and cost.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A command is about to enter its stream. Allocations in a capture are reported as nodes only.
  virtual void submitted(const Command&) {}
  /// The command did not enter its stream: the call throws, and nothing has changed.
  virtual void refused(const Refusal&) {}
  /// A command has run, or was skipped after a failure: then begin == end.
  virtual void ran(CommandId, StreamId, Span) {}
  /// A node of the graph that `launch` replayed has run; called before ran() of the launch, and for each turn of a loop. On a GPU:
  /// for kernels with a functor only, and for the last turn of a loop. On a simulated device: as in its model, which runs the
  /// first body of a conditional node once.
  virtual void ran_node(CommandId /*launch*/, StreamId, std::uint32_t /*node*/, Span) {}
  virtual void failed(const Failure&) {}

  /// The host has waited, and what it waited for was done.
  virtual void waited(const HostWait&) {}
  /// done() was false, by the virtual clock of a simulated device. Not called for other devices, since the moments at which
  /// their work ends differ from run to run.
  virtual void asked(const HostWait&) {}
  virtual void accessed(const HostAccess&) {}
  virtual void handed(const HandOffCall&) {}
  virtual void worked(const HostWork&) {}
  /// Host memory is gone, or is reused: earlier uses of these addresses were of other memory.
  virtual void host_gone(const void* /*data*/, std::size_t /*bytes*/, SourceLocation, std::uint32_t /*thread*/) {}
  /// An array has got a name; attach() reports those that have one.
  virtual void named(BufferId, std::string_view) {}
  /// DLPack has given an array's memory to another library, or has brought it, after its Alloc: from now on others may use it.
  virtual void exchanged(BufferId, bool /*imported*/, SourceLocation) {}

  /// A stream was opened or closed; attach() reports those that are open.
  virtual void opened(const StreamInfo&) {}
  virtual void closed(StreamId) {}
  /// The stream's native handle was taken: from now on others may use the stream.
  virtual void shared(StreamId, SourceLocation) {}

  /// A capture of the stream began, or ended; `kept`: it became a graph, with the same id.
  virtual void capture_began(std::uint64_t /*graph*/, StreamId, SourceLocation) {}
  virtual void capture_ended(std::uint64_t /*graph*/, bool /*kept*/, SourceLocation) {}
  /// A graph was made: by a capture, a builder, or from a file. A graph that is older than an observer is reported before its next
  /// launch, to all observers again.
  virtual void graph_made(const GraphInfo&) {}
  /// A node was updated, enabled or disabled, for later launches.
  virtual void graph_changed(std::uint64_t /*graph*/, std::uint32_t /*node*/, const GraphNodeInfo&) {}
  virtual void graph_gone(std::uint64_t /*graph*/) {}

  /// weir::pin or a ScopedPin has pinned host memory, or has given it back; attach() reports what is pinned, with the lines and
  /// threads that did it.
  virtual void pinned(const void* /*data*/, std::size_t /*bytes*/, SourceLocation, std::uint32_t /*thread*/) {}
  virtual void unpinned(const void* /*data*/, std::size_t /*bytes*/, SourceLocation, std::uint32_t /*thread*/) {}
};

/// From now on the observer is called for what it watches. Open streams are reported first; work in flight is not reported. Without
/// observers nothing is paid. Thread rule: any thread. detach() returns when no callback of this observer is running, and after the
/// times of all commands that were done have been reported.
void attach(Observer& observer, Watch watch = Watch::everything, SourceLocation where = SourceLocation::current());
void detach(Observer& observer, SourceLocation where = SourceLocation::current());

/// Decides about commands before they enter their streams. Derive, attach. Thread rule: as for observers. A policy may throw an
/// Error: the call is refused and throws it, and nothing has changed, also inside a capture.
class OrderPolicy {
 public:
  /// What a command has to wait for: its stream waits in the order given.
  class Waits {
   public:
    /// Adds something that the command's stream waits for.
    void wait(EventRef event) { events_.push_back(event); }
    void wait(StreamRef stream) { streams_.push_back(stream); }

    /// For the library.
    const std::vector<EventRef>& events() const { return events_; }
    const std::vector<StreamRef>& streams() const { return streams_; }

   private:
    std::vector<EventRef> events_;
    std::vector<StreamRef> streams_;
  };

  virtual ~OrderPolicy() = default;
  /// A command, as submitted() will report it unless it is refused. The waits are commands of their own; policies are not asked about
  /// them, nor about frees by destructors, which cannot be refused.
  virtual void before(const Command&, Waits&) {}
  /// The host is about to access memory.
  virtual void before(const HostAccess&) {}
  virtual void before_host_gone(const void* /*data*/, std::size_t /*bytes*/, SourceLocation, std::uint32_t /*thread*/) {
  }
};
void attach(OrderPolicy& policy, SourceLocation where = SourceLocation::current());
void detach(OrderPolicy& policy, SourceLocation where = SourceLocation::current());

/// One line of text for a command: "launch Saxpy [1000] read 0x10..0x20". For tools, tests and messages.
std::string to_text(const Command& command);
std::string to_text(const Op& op);

}  // namespace weir
