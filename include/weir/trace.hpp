// The timeline: when each command of a program ran, what it waited for, what overlapped, and why the rest did not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/source_location.hpp>

namespace weir::trace {

/// A place in Timeline::texts.
using Text = std::uint32_t;
inline constexpr std::uint32_t none = 0xffffffff;

/// What a command keeps busy. The first six are a device's engines; `memory` and `order` (records and waits) take no time of theirs.
enum class Lane : std::uint8_t {
  kernel,
  copy_in,      ///< from the host to a device
  copy_out,     ///< from a device to the host
  copy_device,  ///< within or between devices
  copy_host,    ///< within the host's memory
  fill,
  host_function,
  external,
  graph,
  memory,
  order,
};
inline constexpr std::size_t lane_count = 11;
std::string_view to_text(Lane lane);

enum class State : std::uint8_t {
  ran,
  skipped,  ///< behind a failure: begin == end
  pending,  ///< it had not ended when the recording did: begin and end are 0
};

/// Why a command could not begin before another one had ended.
enum class Tie : std::uint8_t {
  stream_order,
  event,
  default_stream,
  memory,
  replay,  ///< replays of one graph never overlap
};
inline constexpr std::size_t tie_count = 5;
std::string_view to_text(Tie tie);

struct Dependency {
  std::uint32_t command;  ///< its place in Timeline::commands; of a wait for an event it is the record
  Tie tie;
};

/// Moments are nanoseconds since Timeline::started; -1 is a moment that is not known.
struct Command {
  std::uint64_t id = 0;  ///< the library's
  Text name = none;      ///< of a kernel, as given; none: to_text(lane) says enough
  Text file = none;
  std::uint32_t line = 0;
  std::uint32_t stream = 0;  ///< its place in Timeline::streams
  std::uint32_t thread = 0;  ///< the host thread that called, as Weir numbers them
  Lane lane = Lane::kernel;
  State state = State::pending;
  bool pageable = false;    ///< a copy of pageable memory
  std::uint32_t event = 0;  ///< of a record or wait: a number for the event, from 1 on
  /// Of a launch: what each of its arrays has of bytes that it touches, in order, as "in 4000, inout 80"; of one whose uses are many
  /// or ever different ones, none.
  Text arguments = none;
  std::uint64_t elements = 0;  ///< of a launch: how many, or how many blocks
  std::uint64_t bytes = 0;     ///< that it touches; of a copy: that it moves
  std::int64_t call = -1;      ///< when it was enqueued
  std::int64_t called = -1;    ///< when that call returned, if it is known to have waited for the command
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t first_dependency = 0;
  std::uint32_t dependency_count = 0;
};

struct Stream {
  Text name = none;
  std::uint64_t id = 0;
  std::uint32_t device = 0;  ///< its place in Timeline::devices
  std::int32_t priority = 0;
  bool blocking = true;
  bool legacy = false;
};

/// A wait of the host inside a call.
struct HostWait {
  Text what = none;              ///< "stream s1", "event", "device cuda:0", "everything", "pageable copy"
  std::uint32_t stream = none;   ///< that it waited for, if it was one
  std::uint32_t command = none;  ///< that it waited for last, if it is known
  Text file = none;
  std::uint32_t line = 0;
  std::uint32_t thread = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

/// What the user named by trace::Range.
struct NamedRange {
  Text name = none;
  std::uint32_t thread = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< -1: it was open when the recording ended
};

/// A rank's part of a collective.
struct CollectivePart {
  std::uint32_t
      command;  ///< its place in Timeline::commands, whose name is the call's and whose bytes are those of its larger side
  std::uint32_t collective;    ///< a number that the parts of all ranks have in common, from 1 on
  std::uint32_t communicator;  ///< a number, from 1 on
  std::int32_t rank;
  std::int32_t ranks;        ///< of the communicator
  std::int32_t peer = -1;    ///< the root, or the other rank of a send or receive
  std::uint64_t shared = 0;  ///< the communicator's in all of its processes; 0: one has all ranks, or it is not known
  std::uint64_t number = 0;  ///< which of its communicator's, from 1 on; 0: a send or receive, or it is not known
};

/// Work inside a graph, of one replay: in a loop, one for each time that was told (`Observer::ran_node`).
struct NodeRun {
  std::uint32_t command;  ///< the launch: its place in Timeline::commands
  std::uint32_t node;     ///< its number in the graph
  Text name = none;       ///< of a kernel, as given; none: to_text(lane) says enough
  Text file = none;       ///< of the line that made the node
  std::uint32_t line = 0;
  Lane lane = Lane::kernel;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::uint32_t first_dependency = 0;
  std::uint32_t dependency_count = 0;
};

/// What copies between a device and the host can reach at best, in bytes per second.
struct BestRates {
  std::uint64_t copy_in = 0;  ///< 0: not known
  std::uint64_t copy_out = 0;
  Text source = none;  ///< who says so: "PCIe 5.0 x16, raw", "the profile h200"
};

/// What was recorded, ready to be looked at: pages, numbers and reasons are made from this alone.
struct Timeline {
  std::string program;        ///< the command line
  std::string clock;          ///< whose clock the moments are of, and how far they may be off
  std::string date;           ///< when it started, ISO 8601, UTC
  std::string note;           ///< what was dropped, in words; empty: nothing
  std::int64_t duration = 0;  ///< from start to stop
  std::uint64_t dropped = 0;  ///< commands that were not kept
  std::vector<std::string> texts;
  std::vector<Text> devices;
  std::vector<Stream> streams;
  std::vector<Command> commands;  ///< in the order of the calls; dependencies lead to earlier ones
  std::vector<Dependency> dependencies;
  std::vector<HostWait> waits;              ///< by begin
  std::vector<NamedRange> ranges;           ///< by begin
  std::vector<CollectivePart> collectives;  ///< by command
  std::vector<NodeRun> nodes;               ///< by command, then by begin
  /// What nodes come behind: numbers of nodes of the same graph, of those that take time.
  std::vector<std::uint32_t> node_dependencies;
  std::vector<BestRates> best_rates;  ///< of each of `devices`; or none, where nothing is known of any
  std::int64_t origin = -1;           ///< nanoseconds of the machine's steady clock when it started; -1: not known
  std::string machine;                ///< whose clock that is: another text after each start of a machine

  /// What places stand for: a text, and what a command waited for.
  std::string_view text(Text place) const { return place == none ? std::string_view() : texts[place]; }
  std::span<const Dependency> dependencies_of(const Command& command) const {
    return std::span(dependencies).subspan(command.first_dependency, command.dependency_count);
  }
  std::span<const std::uint32_t> dependencies_of(const NodeRun& node) const {
    return std::span(node_dependencies).subspan(node.first_dependency, node.dependency_count);
  }
  /// "Saxpy", or what it is.
  std::string_view name_of(const Command& command) const {
    return command.name == none ? to_text(command.lane) : text(command.name);
  }
  std::string_view name_of(const NodeRun& node) const {
    return node.name == none ? to_text(node.lane) : text(node.name);
  }
};

/// Time in which something ran, overlaps counted once.
struct Engine {
  std::uint32_t device = 0;
  Lane lane = Lane::kernel;
  std::uint64_t commands = 0;
  std::uint64_t bytes = 0;
  std::int64_t busy = 0;             ///< ns
  double bytes_per_second = 0;       ///< of copies and fills, while busy
  double best_bytes_per_second = 0;  ///< of the best single one of this timeline that lasted a microsecond at least
  /// Of copies: what the device can do at best, by `source` (BestRates). 0: not known, or a copy was faster than that.
  double device_bytes_per_second = 0;
  Text source = none;
};
/// How long two lanes of a device were busy at once.
struct Overlap {
  std::uint32_t device = 0;
  Lane first = Lane::kernel;
  Lane second = Lane::copy_in;
  std::int64_t ns = 0;
};
/// Collectives of one kind, among as many ranks.
struct Exchange {
  std::string name;  ///< "all_reduce"
  std::int32_t ranks = 0;
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  ///< of a rank's larger side, all together
  std::int64_t ns = 0;      ///< from when the last rank came to when the last one was done, all together
  double bus_bytes_per_second =
      0;  ///< that a link moves meanwhile, as NCCL's tests count: for all_reduce 2 (n - 1) / n of the bytes
  std::int64_t waited = 0;   ///< ns that ranks waited for the last one to come, all together
  std::int32_t latest = -1;  ///< the rank that most of that was waited for; -1: no part but one was recorded
};
/// The numbers of a timeline: `weir trace summary`.
struct Summary {
  std::uint64_t commands = 0;
  std::uint64_t ran = 0;
  std::int64_t makespan = 0;  ///< from the first call or begin to the last end
  std::vector<Engine> engines;
  std::vector<Overlap> overlaps;
  std::vector<std::int64_t> concurrency;     ///< [n]: for how long n commands ran at once, within the makespan
  std::int64_t idle = 0;                     ///< concurrency[0]
  std::vector<std::uint32_t> critical_path;  ///< places of commands, the first one first
  std::int64_t critical = 0;                 ///< ns in which they ran
  std::int64_t host_waited = 0;              ///< ns, of all threads
  double submission = 0;                     ///< ns a command: the median time between two calls in a row of a thread
  std::vector<Exchange> exchanges;
};
/// How long, what overlapped, and the critical path.
Summary summarize(const Timeline& timeline);
std::string to_text(const Summary& summary, const Timeline& timeline);
/// One line, one JSON object: "weir.trace.summary", version 1.
std::string to_json(const Summary& summary, const Timeline& timeline);

/// What held a command, or kept a device idle.
enum class Reason : std::uint8_t {
  event,           ///< it waited for an event
  default_stream,  ///< a default stream's barrier
  stream_order,    ///< the command before it in its stream was for another engine, and they could overlap
  pageable_copy,   ///< the host was held by a copy of pageable memory
  host_wait,       ///< the host waited for a device instead of submitting
  host_late,       ///< it was not submitted yet
  engine_busy,     ///< its engine ran something else
  memory,          ///< it waited for memory that another stream freed
  allocation,      ///< the host was held by a call that allocates or frees, and waited for the device
  work_queue,      ///< it stood behind another stream's work, which the device took from the same queue
  priority,        ///< its engine ran what came later, of a stream of higher priority
  rank,            ///< a collective waited for the rank that came last
  replay,          ///< the graph's replay in another stream was not over
  slow_start,      ///< nothing: it was ready and the device idle, which took its time to begin
  unknown,
};
inline constexpr std::size_t reason_count = 15;
std::string_view to_text(Reason reason);

/// A gap: `command` could have begun at `begin` but for the reason, and began at `end`. Of a copy of pageable memory that was slow
/// itself they are its own, and where it is told because it held the host, `by` is `command`.
struct Held {
  Reason reason = Reason::unknown;
  std::uint32_t command = none;
  std::uint32_t by = none;  ///< the command that held it, if one did
  Text file = none;         ///< the line to look at
  std::uint32_t line = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t saves = 0;   ///< ns that the whole would be shorter by at most
  std::uint64_t count = 1;  ///< gaps of the same line and reason; `begin` and `end` are of the longest
  std::string why;          ///< a sentence
  std::string change;       ///< what to do about it
};
/// The dearest first: `weir trace explain`.
std::vector<Held> explain(const Timeline& timeline);
std::string to_text(const std::vector<Held>& held, const Timeline& timeline);
/// One line, one JSON object: "weir.trace.reasons", version 1.
std::string to_json(const std::vector<Held>& held, const Timeline& timeline);

/// Two runs of a program: `weir trace diff`.
struct Difference {
  /// Commands of one name and line, in both runs; a line that moved is found by name and order.
  struct Line {
    std::string name;
    std::string where;  ///< in the second run, if it is there
    Lane lane = Lane::kernel;
    std::uint64_t commands[2] = {0, 0};
    std::int64_t ran[2] = {0, 0};   ///< ns, all together
    std::int64_t held[2] = {0, 0};  ///< ns, by what explain() finds
    std::string why;                ///< what held them most in the second run
  };
  Summary summary[2];
  std::vector<Line> lines;  ///< what became slower first
};
/// What became slower or faster from one run to the other, by kernel and copy.
Difference compare(const Timeline& before, const Timeline& after);
std::string to_text(const Difference& difference);
/// One line, one JSON object: "weir.trace.diff", version 1.
std::string to_json(const Difference& difference);
/// Whether a condition holds: "makespan > 1.05x" compares with the first run, "idle > 2 ms" with a time. Of makespan, idle, critical,
/// host_waited, submission and busy; by >, >=, < and <=. Throws invalid_value for anything else.
bool holds(std::string_view condition, const Difference& difference, SourceLocation where = SourceLocation::current());

struct SessionOptions {
  /// What is written when the session stops, and about every second until then, so that a program that is killed leaves a file
  /// that opens: a page for names that end in .html, Perfetto's format for .pftrace, else JSON. Empty: no file.
  std::filesystem::path file = {};
  std::size_t limit =
      std::size_t{128} << 20;  ///< of memory for what is told: the oldest makes room. A command takes 50 to 200 bytes
};

/// Records the process from its construction to stop(): several at once each have their own. Nothing changes for the program.
/// Thread rule: any threads may use Weir meanwhile; construction, stop() and destruction are one thread's.
class Session {
 public:
  /// Throws invalid_value for a file that cannot be written.
  explicit Session(const SessionOptions& options = {}, SourceLocation where = SourceLocation::current());
  /// Stops; a file that cannot be written is said on stderr.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// What was recorded so far; commands that run are pending.
  Timeline timeline() const;
  /// The same, for the last time: to be called once. Commands that still run stay pending: synchronise first. Throws
  /// invalid_value if the file cannot be written.
  Timeline stop();

  class State;

 private:
  std::unique_ptr<State> state_;
};

/// Names the work of its thread during its lifetime, in all sessions that run then; and, in a build that found NVTX's header, for
/// tools that read it, such as Nsight, in the domain "Weir". Without either it costs two loads. Thread rule: ends on its thread, the
/// last that began there first.
class Range {
 public:
  explicit Range(std::string_view name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  std::string name_;
  std::int64_t begin_ = -1;
  bool told_ = false;  ///< to NVTX
};

/// Timelines of several processes as one, on one clock: that of their machine, or, of several machines, such that collectives end on
/// all ranks at once. `names` come before the devices' names: "rank0". Collectives of several processes are matched by what their
/// communicators have in common (CollectivePart::shared), and by their numbers, sends by their order; what was made before files had
/// that, by the order in which communicators were used first.
/// Throws invalid_value where there is no such clock, or there are not as many names. `weir trace merge`.
Timeline merge(std::span<const Timeline> timelines, std::span<const std::string> names,
               SourceLocation where = SourceLocation::current());

/// By the ending of the name, as SessionOptions::file. A file that was there is replaced only once all is written. Throws
/// invalid_value where it cannot be written.
void save(const Timeline& timeline, const std::filesystem::path& path,
          SourceLocation where = SourceLocation::current());

/// One self-contained HTML file.
void write_page(const Timeline& timeline, std::ostream& out);
/// JSON in the trace-event format, which Perfetto and chrome://tracing open: "weir.timeline", version 1.
void write_json(const Timeline& timeline, std::ostream& out);
/// Perfetto's own format. It is not read back.
void write_perfetto(const Timeline& timeline, std::ostream& out);

struct ReadOptions {
  std::size_t limit = std::size_t{4} << 30;  ///< of memory, for the timeline
};
/// Reads what save() has written, and checks all of it. Throws invalid_value with the path of the member that is wrong, also for
/// a file that cannot be read, or takes more than the limit. In the library weir::tools.
Timeline load(const std::filesystem::path& path, const ReadOptions& options = {},
              SourceLocation where = SourceLocation::current());
/// The same from the text of write_json; `name` stands for the file in errors.
Timeline parse_json(std::string_view text, const std::string& name = "timeline", const ReadOptions& options = {},
                    SourceLocation where = SourceLocation::current());

}  // namespace weir::trace
