// Recordings: whole programs as data, a list of commands with what they touch; kept in little memory, and in files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <weir/op.hpp>
#include <weir/source_location.hpp>

namespace weir {

/// The parts of a Recording. Strings are held once: a part has their Name; other parts are named by their place.
namespace recorded {

using Name = std::uint32_t;

/// What commands and graphs' nodes do; the members of the scenario format are in docs/scenarios.md.
enum class Op : std::uint8_t {
  launch,
  external,
  host_function,
  copy,
  fill,
  alloc,
  free,
  record,
  wait,
  synchronize,
  query,
  host_read,
  host_write,
  host_open,
  host_close,
  give,
  take,
  work,
  make,
  drop,
  begin_capture,
  end_capture,
  launch_graph,
  build_graph,
  update_node,
  enable_node,
  // only of nodes
  graph,
  empty,
  if_,
  switch_,
  while_,
};
inline constexpr std::size_t op_count = 31;
/// "host_function"; "if" for if_.
std::string_view to_text(Op op);

enum class StreamKind : std::uint8_t { blocking, non_blocking, legacy, per_thread };
enum class Owner : std::uint8_t { array, pool, user };
enum class Access : std::uint8_t { in, out, inout, accumulate };
/// What `Command::target` is: for the first four the place of one, for the others a Name.
enum class Target : std::uint8_t { none, stream, event, device, buffer, graph, scope, hand_off, all };

inline constexpr std::uint32_t none = 0xffffffff;  // below Target::none, which g++ 12 takes for one that hides it

struct Device {
  Name name = none;
  Name profile = none;
};
struct Stream {
  Name name = none;
  std::uint32_t device = 0;
  std::uint32_t thread = 0;  ///< whose, for per_thread
  std::int32_t priority = 0;
  StreamKind kind = StreamKind::blocking;
  bool later = false;  ///< made by a command
};
struct Event {
  Name name = none;
  std::uint32_t device = 0;
  bool timed = false;
  bool later = false;
};
struct Buffer {
  Name name = none;
  std::uint32_t device = 0;   ///< of device memory
  std::uint32_t home = none;  ///< the stream that a device array of the start belongs to
  std::uint64_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  Owner owner = Owner::array;
  bool later = false;  ///< made by a command or node
  bool written = true;
};

/// `count` times, `stride` bytes apart.
struct Repeat {
  std::uint64_t count = 1;
  std::uint64_t stride = 0;
  friend bool operator==(const Repeat&, const Repeat&) = default;
};
/// Scenario files say no more of one use.
inline constexpr std::size_t most_repeats_in_files = 3;
/// Memory that a command touches: `bytes` from `offset`, repeated up to four times, the innermost first.
struct Use {
  std::uint32_t buffer = none;
  Access access = Access::in;
  bool raw = false;             ///< through a raw view, which the array does not know of
  std::uint8_t dimensions = 0;  ///< of `repeat`
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::array<Repeat, max_rank> repeat = {};

  /// How many bytes it touches, and from offset to its end; they saturate.
  std::uint64_t total() const;
  std::uint64_t extent() const;
  friend bool operator==(const Use&, const Use&) = default;
};

/// How long a command lasts on its device, for runs and predictions. Of `work`: `ns`, on the host.
struct Cost {
  std::optional<double> ns = {};
  std::optional<std::uint64_t> bytes = {};
  std::optional<std::uint64_t> blocks = {};
  std::optional<std::uint64_t> threads = {};
  std::optional<double> block_ns = {};
  std::optional<std::uint64_t> shared_bytes = {};
  friend bool operator==(const Cost&, const Cost&) = default;
};

/// One command. Its uses, cost, hand-offs and nodes are asked for by the functions of Recording. A copy has two uses, `to`
/// and `from`; so has an update_node with `ends`.
struct Command {
  Op op = Op::launch;
  Target target_kind = Target::none;
  /// External of record and wait, answer of query, enabled of enable_node. Of a wait for a stream: by a collective of both, so that
  /// what follows that one's part is no part of it.
  bool flag = false;
  bool ends = false;  ///< update_node: the uses are `to`, and `from` if there are two
  std::uint32_t thread = 0;
  Name id = none;    ///< none: # and the place in the list
  Name name = none;  ///< of a kernel or function; the path of a node that is changed
  Name file = none;
  std::uint32_t line = none;
  std::uint32_t stream = none;  ///< of build_graph: the device
  std::uint32_t target = none;  ///< what it names beside the stream

  // For the library.
  std::uint32_t first_use = 0;
  std::uint32_t use_count = 0;
  std::uint32_t cost = none;
  std::uint32_t extra = none;
};

/// One rank's call of a collective: a launch or external with it. Scenario files have them in `x-collectives`.
struct Collective {
  std::uint64_t communicator = 0;  ///< a number that no other one has
  Name name = none;                ///< what people call that
  std::uint64_t number = 0;        ///< counts the communicator's calls from 1, the same on all ranks; 0: send, receive
  std::uint64_t unit = 0;          ///< the same for all calls of one group; 0: it is in none
  std::int32_t rank = 0;
  std::int32_t ranks = 0;           ///< how many the communicator has; 0: some are in other processes
  std::int32_t from = -1, to = -1;  ///< of a send or receive
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// A node of a graph that is built, as it is handed over.
struct Node {
  Op op = Op::empty;
  Target target_kind = Target::none;  ///< buffer, event or graph
  Name name = none;
  Name file = none;
  std::uint32_t line = none;
  std::uint32_t target = none;
  std::vector<Use> uses;  ///< of a conditional node: the condition
  std::optional<Cost> cost;
  Name label = none;               ///< what people call it, as its kernel's name; files do not have it
  bool collective = false;         ///< which may have a region within another one; files do not say it
  std::uint64_t communicator = 0;  ///< as GraphNodeInfo has it; files: in `x-collectives`
  Name communicator_name = none;
  std::uint32_t stream = none;            ///< that it was captured on; files do not say it
  std::vector<std::uint32_t> after;       ///< places in the same list, all before this one's
  std::vector<std::vector<Node>> bodies;  ///< of a conditional node
};

/// What a host function of a graph worked in one launch of that, by sim::host_work() or measured. Scenario files have them in
/// `x-host-work`.
struct NodeWork {
  Name node = none;  ///< its path
  double ns = 0;
  friend bool operator==(const NodeWork&, const NodeWork&) = default;
};

/// What else belongs to a command.
struct Details {
  std::span<const Use> uses = {};
  std::optional<Cost> cost = {};
  std::span<const Name> gives = {};  ///< host_function
  std::span<const Node> nodes = {};  ///< build_graph
  std::optional<Collective> collective = {};
};

}  // namespace recorded

/// A program as data. It never takes more memory than its limit: what does not fit throws Error(out_of_memory) and is not
/// added. Thread rule: one thread at a time; any number of threads read.
class Recording {
 public:
  static constexpr std::size_t default_limit = std::size_t{1} << 30;

  explicit Recording(std::size_t limit = default_limit);
  Recording(Recording&&) noexcept;
  Recording& operator=(Recording&&) noexcept;
  ~Recording();

  /// The bytes that it takes, and may take.
  std::size_t bytes() const;
  std::size_t limit() const;

  /// The Name of a text, the same for equal texts; and back. Texts stay where they are, ended by a 0, as long as the recording lives.
  recorded::Name intern(std::string_view text);
  std::optional<recorded::Name> find(std::string_view text) const;
  const char* text(recorded::Name name) const;

  recorded::Name name = recorded::none;
  recorded::Name about = recorded::none;

  /// What it has, each in the order in which it was added.
  const std::vector<recorded::Device>& devices() const;
  const std::vector<recorded::Name>& threads() const;
  const std::vector<recorded::Stream>& streams() const;
  const std::vector<recorded::Event>& events() const;
  const std::vector<recorded::Buffer>& buffers() const;
  /// Each returns the place. Where no device or thread is added, there is one: dev0, main.
  std::uint32_t add(const recorded::Device& device);
  std::uint32_t add_thread(recorded::Name name);
  std::uint32_t add(const recorded::Stream& stream);
  std::uint32_t add(const recorded::Event& event);
  std::uint32_t add(const recorded::Buffer& buffer);

  /// The commands, in the order of the calls.
  std::size_t size() const;
  const recorded::Command& command(std::size_t place) const;
  std::size_t add(const recorded::Command& command, const recorded::Details& details = {});
  /// One with the uses of the command at `place`, which are not kept again. Throws invalid_value where there is none.
  std::size_t add_like(const recorded::Command& command, std::size_t place);
  /// What is known only later: how long a command lasted, and what a host function gave.
  void set_cost(std::size_t place, const recorded::Cost& cost);
  void add_give(std::size_t place, recorded::Name name);
  /// The same of what a host function of a graph worked in the launch at `place`. Throws invalid_value where there is no launch_graph.
  void add_work(std::size_t place, const recorded::NodeWork& work);
  /// The same of what only a check of collectives needs: of a launch or external all of it; of a node of a graph that is built its
  /// communicator and name; of a wait for a stream nothing but that it is a collective's. Throws invalid_value for others.
  void set_collective(std::size_t place, const recorded::Collective& made, std::size_t node = recorded::none);
  /// "c7", or "#7" for the eighth command if it has no id.
  std::string id(std::size_t place) const;
  /// Where it was called: its file and line, else those given.
  SourceLocation where(std::size_t place, const char* file) const;

  std::size_t use_count(const recorded::Command& command) const { return command.use_count; }
  /// What is kept beside a command: its uses, its cost, what it gives, its graph's nodes, and what these worked.
  recorded::Use use(const recorded::Command& command, std::size_t number) const;
  std::optional<recorded::Cost> cost(const recorded::Command& command) const;
  std::span<const recorded::Name> gives(const recorded::Command& command) const;
  std::span<const recorded::Node> nodes(const recorded::Command& command) const;
  std::span<const recorded::NodeWork> works(const recorded::Command& command) const;
  std::optional<recorded::Collective> collective(const recorded::Command& command) const;

 private:
  friend class Recorder;
  /// Lets `place` say where each use, and each buffer that a command names, really is.
  void resolve(const std::function<void(recorded::Use&)>& place);

  struct State;
  std::unique_ptr<State> state_;
};

/// Writes a scenario file: gzip if the path ends in ".gz". A file that was there is replaced only once all is written.
/// Throws invalid_value where it cannot be written.
void save(const Recording& recording, const std::filesystem::path& path,
          SourceLocation where = SourceLocation::current());
/// The same as text.
std::string to_json(const Recording& recording);
/// Why save() could not write a file of that path; empty where it could. What is there stays as it is, and a pipe is not opened:
/// that would wait for who reads it.
std::string why_unwritable(const std::filesystem::path& path);

struct LoadOptions {
  std::size_t limit = Recording::default_limit;  ///< of memory, for the recording and for reading it
};

/// Reads a scenario file, plain or gzip, and checks all that docs/scenarios.md asks of one. Throws invalid_value with the path of the
/// member that is wrong ("program[3].uses[1].buffer"), out_of_memory where the limit is reached, invalid_value also for a file
/// that cannot be read. In the library weir::tools.
Recording load_recording(const std::filesystem::path& path, const LoadOptions& options = {},
                         SourceLocation where = SourceLocation::current());
/// The same from text, plain or gzip; `name` stands for the file in errors.
Recording parse_recording(std::string_view text, const std::string& name = "scenario", const LoadOptions& options = {},
                          SourceLocation where = SourceLocation::current());

}  // namespace weir
