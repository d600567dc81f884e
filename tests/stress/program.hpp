// A random program: a list of commands over streams, events, pools and arrays, in an order that is right to run one by one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weir::stress {

using Element = std::uint32_t;

enum class StreamKind : std::uint8_t { blocking, non_blocking, legacy, per_thread, own };
enum class Memory : std::uint8_t { device, pinned, pageable };
enum class How : std::uint8_t { empty, zeros, full, from };                 ///< how an array gets its first values
enum class Control : std::uint8_t { none, if_, if_else, switch_, while_ };  ///< the conditional node around a command
enum class Change : std::uint8_t { kernel, disable, enable };               ///< what an update does to a node

struct StreamDecl {
  StreamKind kind;
  int device;
  int thread;  ///< per_thread: whose; else who made it
  int priority;
};
struct EventDecl {
  int device;
  bool timed;
  int thread;  ///< who made it
};
struct PoolDecl {
  int device;
  std::size_t release_threshold;
};
struct ArrayDecl {
  Memory memory;
  int device;  ///< of device memory
  int rank;
  std::array<std::size_t, 4> size;  ///< 1 beyond the rank
  int thread = 0;                   ///< who made it

  std::size_t count() const { return size[0] * size[1] * size[2] * size[3]; }
};

/// lo..hi of one dimension, every step-th.
struct Steps {
  std::size_t lo = 0;
  std::size_t hi = 1;
  std::size_t step = 1;

  std::size_t count() const { return (hi - lo + step - 1) / step; }
};

/// A part of an array, or all of it.
struct Operand {
  int array = -1;
  std::array<Steps, 4> dims;
  bool transposed = false;
};

enum class Kind : std::uint8_t {
  make_stream,
  drop_stream,
  make_event,
  drop_event,
  make_pool,
  drop_pool,
  trim_pool,
  make_graph,
  update_graph,
  drop_graph,
  make_host,
  make_array,
  clone_array,
  drop_array,
  free_array,
  set,
  bump,
  map,
  mix,
  join,
  gather,
  blocks,
  reduce,
  scan,
  transform,  // launches
  copy,
  fill,
  upload,
  download,
  to_host,
  host_call,
  external,
  replay,
  fail_kernel,
  fail_host,
  host_work,
  record,
  wait_event,
  wait_stream,
  enter,
  leave,
  set_current,
  sync_stream,
  sync_event,
  sync_device,
  sync_all,
  query_stream,
  query_event,
  elapsed,
  signal,
  await
};

struct Command {
  Kind kind;
  int thread = 0;
  int stream = -1;
  bool implicit = false;  ///< given no stream: the device's current one, which is `stream`
  int other = -1;         ///< the stream that wait_stream and enter wait for
  int event = -1;
  int event2 = -1;     ///< the end, for elapsed
  bool fresh = false;  ///< record: makes its event; free_array: names no stream, `stream` is the array's own
  int pool = -1;
  int graph = -1;
  int device = -1;
  int number = -1;  ///< of a handshake: signal n, await n; of a command in a graph that updates name, and of the update
  Change change = Change::kernel;  ///< of an update; a kernel gets its salt and delay
  How how = How::empty;
  std::vector<Operand> in;
  Operand out;  ///< without an array: none
  Element salt = 0;
  std::uint32_t delay = 0;  ///< turns of a busy loop within
  Control control = Control::none;
  std::uint32_t turns = 1;  ///< how often it runs inside a conditional node
  bool sabotaged = false;   ///< a defect planted on purpose: the machine ignores this command
};

/// A graph: commands that are captured one after the other.
struct GraphDecl {
  int origin = -1;  ///< the stream whose capture it is
  std::vector<Command> body;
};

struct Program {
  std::uint64_t seed = 0;
  int devices = 1;
  int threads = 1;
  std::vector<StreamDecl> streams;
  std::vector<EventDecl> events;
  std::vector<PoolDecl> pools;
  std::vector<ArrayDecl> arrays;
  std::vector<GraphDecl> graphs;
  std::vector<Command> commands;
  /// Calls about one stream are all ordered on the host: else nobody could say whose synchronisation meets a failure.
  bool streams_in_turn = false;
  bool defaults_in_turn = false;  ///< and those about all streams of a device that its legacy stream orders
};

/// One use of memory by a command: while the host makes the call, or when the stream gets there.
struct Access {
  Operand operand;
  bool write;
  bool at_call;
};

enum class Object : std::uint8_t { stream, event, pool, array, graph };

/// One use of a handle by a call. Two calls of which one is exclusive must be ordered on the host.
struct Use {
  Object object;
  int id;
  bool exclusive;
};

Operand whole(const Program& program, int array);
bool is_whole(const Program& program, const Operand& operand);
bool overlap(const Operand& a, const Operand& b);
/// The sizes of a part, 1 beyond the rank; reversed if transposed.
std::array<std::size_t, 4> shape_of(const Program& program, const Operand& operand);
std::size_t count_of(const Operand& operand);

std::vector<Access> accesses(const Program& program, const Command& command);
std::vector<Use> uses(const Program& program, const Command& command);
/// Those of a call about a stream.
std::vector<Use> uses_of_stream(const Program& program, int stream, bool exclusive);
const GraphDecl& graph_of(const Program& program, const Command& command);
/// Whether it is put on a stream, and runs later.
bool runs_in_stream(Kind kind);
/// Whether it takes part in the rules of the legacy stream. Allocations and waits hold their own stream only: no rule says
/// that they are barriers for others.
bool is_barrier(const Command& command);
/// Whether the call returns only when the command has run, because pageable memory or a result is at stake.
bool blocks_host(const Program& program, const Command& command);
/// Whether the old values of `out` matter.
bool reads_out(Kind kind);
/// Whether it writes all of `out`, whatever was there.
bool writes_all(const Program& program, const Command& command);
bool is_wait(Kind kind);

std::string to_text(const Program& program, const Command& command);
/// One line a command.
std::string to_text(const Program& program);

}  // namespace weir::stress
