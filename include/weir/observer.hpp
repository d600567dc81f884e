// Observers: how tools see a program. Checkers, tracers and users' own tools are observers and need public headers only.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/device.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

class Error;
enum class NodeKind : std::uint8_t;

/// What an observer wants to be told of; `a | b` is both. What nobody asks for costs nothing.
enum class Watch : std::uint32_t {
  nothing = 0,
  commands = 1,   ///< submitted(), but for memory; captures
  memory = 2,     ///< submitted() of Alloc and Free; names, host_gone()
  host = 4,       ///< waits, accesses, hand-offs and work of the host
  graphs = 8,     ///< graphs and their nodes
  times = 16,     ///< ran(): the queues take the time of every command
  refusals = 32,  ///< refused() and failed()
  everything = 63,
};
constexpr Watch operator|(Watch a, Watch b) {
  return static_cast<Watch>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Watch operator&(Watch a, Watch b) {
  return static_cast<Watch>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}

/// When a command ran, on the steady clock, and where that is known from.
struct Span {
  enum class Source : std::uint8_t {
    host,    ///< the host's clock, by the thread that ran it; a record or wait on a GPU: the end of what is before it
    events,  ///< a GPU's, by events before and after it
    kernel,  ///< a GPU's, by the kernel itself
    simulated,  ///< the virtual clock of a simulated device
  };
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
  Source source = Source::host;
  /// How far both may be off together, where a GPU's clock was put on the host's.
  std::chrono::nanoseconds error{0};
  /// By a virtual clock alone: when the call was made. Otherwise the epoch: an observer may look at its own clock then.
  std::chrono::steady_clock::time_point called = {};
};

/// What the host has waited for: everything (stream 0, no event), a device, a stream, an event, or one command.
struct HostWait {
  enum class Kind : std::uint8_t { all, device, stream, event, command };
  enum class Source : std::uint8_t {
    synchronize,      ///< a call of that name, AutoSynchronize, ScopedTimer; Array::to_host for a stream of its array
    query,            ///< done() that was true
    unpin,            ///< weir::unpin waits for all devices
    to_dlpack,        ///< an export of host memory waits for those who use it
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
  const Error* failure = nullptr;  ///< what the call throws, if the work failed: it has waited all the same
  /// When the call began to wait. At the epoch for queries, which do not wait, and where observers came meanwhile.
  std::chrono::steady_clock::time_point began = {};
};

struct StreamInfo {
  StreamId id;
  std::string name;
  Device device;
  int priority;
  bool blocking;
  bool legacy;
  bool wrapped = false;        ///< somebody else's, given to wrap_stream()
  SourceLocation where = {};   ///< that made it; no line for those that devices begin with
  SourceLocation shared = {};  ///< where its native handle was taken; no line: nowhere so far
};

/// The host reads or writes memory: a guard of host_access.hpp begins or ends.
struct HostAccess {
  std::uint64_t guard;   ///< unique in the process
  bool begins;           ///< else it ends
  Region region;         ///< `buffer` 0 for memory that is no array
  SourceLocation where;  ///< that opened the guard
  std::uint32_t thread;
};

/// HandOff::give() or take().
struct HandOffCall {
  std::uint64_t hand_off;  ///< unique in the process
  bool gives;              ///< else it takes
  SourceLocation where;
  std::uint32_t thread;   ///< 0 in a host function
  CommandId command = 0;  ///< the host function that gives; 0: a host thread, or one whose submission was not observed
};

/// The host computes for so long beside simulated devices, by weir::sim::host_work().
struct HostWork {
  std::chrono::nanoseconds time;
  SourceLocation where;
  std::uint32_t thread;  ///< as in Command
};

/// A node of a graph. Valid during the call, as everything that it points to.
struct GraphNodeInfo {
  NodeKind kind;
  std::string_view name;                        ///< the kernel's, or as given; else what it is
  SourceLocation where;                         ///< that made it
  StreamId stream = 0;                          ///< that it was captured on; 0 if built by hand
  const Op* op = nullptr;                       ///< what it does; null for kinds graph, conditional and empty
  std::span<const Region> uses = {};            ///< of a conditional node: what decides
  std::span<const std::uint32_t> depends = {};  ///< nodes of the same parent and branch
  std::int32_t parent = -1;                     ///< the child graph or conditional node that it is inside of
  std::uint32_t branch = 0;                     ///< which body of a conditional parent
  std::uint32_t bodies = 0;                     ///< of a conditional node
  bool repeats = false;                         ///< a conditional node whose body is repeated (while)
  bool enabled = true;
};
struct GraphInfo {
  std::uint64_t id;  ///< unique in the process; that of the capture, if it was captured
  Device device;
  SourceLocation where;  ///< that made it
  std::span<const GraphNodeInfo> nodes;
};

/// A command that the library, or an OrderPolicy, refused after it was given an id; it was submitted() only if `told`.
struct Refusal {
  const Command& command;
  const Error& error;
  bool told;
};

/// Work failed. Streams that inherit a failure are told of the same Error object.
struct Failure {
  StreamId stream;  ///< that has failed
  StreamId from;    ///< that it inherits the failure from; 0: its own work failed
  const Error& error;
};

/// Derive, override what you need, attach. Each callback runs in the call that it is about, on the thread that makes it, so
/// calls of several threads overlap: lock what you keep. ran() and failed() come from the library's own threads. What is promised:
/// - The commands of a stream are told in the order in which they enter it. Where two threads use a stream at a time, this
///   excludes Alloc and Free, and calls that wait or run code of yours: copies and fills of pageable memory, External.
/// - A call that comes after another one, on its thread or since their threads met, is told after it: thus a record before
///   the wait for it, an Alloc before the uses, a Free before the next Alloc at that place.
/// - opened(), closed() and shared() come one at a time.
/// Observing changes neither order nor results, errors or overlap, and waits for nothing. No lock of the library is held in a
/// callback, but that of the command's stream, of opened() and closed(), and of captures and graphs for what is told of them. No Weir call is
/// permitted inside, except to_text() and accessors of the arguments. An observer must not throw.
/// What the arguments point to is valid during the call only. docs/observers.md tells all, with its thread, order and cost.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A command is about to enter its stream. Memory that is made in a capture is told as nodes alone.
  virtual void submitted(const Command&) {}
  /// It did not: the call throws. Nothing has changed.
  virtual void refused(const Refusal&) {}
  /// A command has run (or was skipped after a failure: then begin == end).
  virtual void ran(CommandId, StreamId, Span) {}
  /// A node of the graph that the command launched has run, before the launch is told; in a loop, each time. On a GPU: kernels
  /// with a functor alone, and in a loop the last time. On a simulated device: as its model has it, which runs the first body
  /// of a conditional node once.
  virtual void ran_node(CommandId /*launch*/, StreamId, std::uint32_t /*node*/, Span) {}
  virtual void failed(const Failure&) {}

  /// The host has waited; everything named was finished.
  virtual void waited(const HostWait&) {}
  virtual void accessed(const HostAccess&) {}
  virtual void handed(const HandOffCall&) {}
  virtual void worked(const HostWork&) {}
  /// Host memory ends, or begins anew: what used it until now used something else.
  virtual void host_gone(const void* /*data*/, std::size_t /*bytes*/, SourceLocation, std::uint32_t /*thread*/) {}
  /// An array has a name; at attach, those that have one are told.
  virtual void named(BufferId, std::string_view) {}
  /// An array's memory goes to another library by DLPack, or has come from one, behind its Alloc: others may use it from here on.
  virtual void exchanged(BufferId, bool /*imported*/, SourceLocation) {}

  /// A stream begins or ends; at attach, those that are there are told.
  virtual void opened(const StreamInfo&) {}
  virtual void closed(StreamId) {}
  /// The stream's native handle was taken: others may use it from here on.
  virtual void shared(StreamId, SourceLocation) {}

  /// A capture begins on the stream, or ends; `kept` says whether it becomes a graph, which has its id.
  virtual void capture_began(std::uint64_t /*graph*/, StreamId, SourceLocation) {}
  virtual void capture_ended(std::uint64_t /*graph*/, bool /*kept*/, SourceLocation) {}
  /// A graph was made: at the end of a capture, by a builder, from a file. Graphs that are older than an observer are told to
  /// it, and to all others again, before their next launch.
  virtual void graph_made(const GraphInfo&) {}
  /// A node was updated, enabled or disabled: so are later launches.
  virtual void graph_changed(std::uint64_t /*graph*/, std::uint32_t /*node*/, const GraphNodeInfo&) {}
  virtual void graph_gone(std::uint64_t /*graph*/) {}
};

/// From here on the observer is told of what it watches. The streams that are open are told before anything else; work in
/// flight is not reported. Without observers nothing is paid. Thread rule: any thread; detach() returns when no callback of
/// this observer is running; it was told the times of all commands that were over.
void attach(Observer& observer, Watch watch = Watch::everything, SourceLocation where = SourceLocation::current());
void detach(Observer& observer, SourceLocation where = SourceLocation::current());

/// Decides about commands before they enter their streams. Derive, attach. Thread rule: as for observers, but that throwing an
/// Error refuses the call, which throws it; nothing has changed then, also inside a capture.
class OrderPolicy {
 public:
  /// What a command is to wait for first: its stream waits in the order given.
  class Waits {
   public:
    /// Adds what the command's stream is to wait for.
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
  /// A command as submitted() will tell it, if it is not refused. The waits are commands of their own, for which observers are not asked.
  /// Not asked about ends of memory in destructors, which cannot be refused.
  virtual void before(const Command&, Waits&) {}
  /// An access of the host that begins.
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
