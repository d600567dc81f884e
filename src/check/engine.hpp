// The checker's engine: told of a program's calls one by one, in their order, it keeps what each moment comes after and what
// touched which bytes, and finds uses that nothing orders. It keeps no program. Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weir/check.hpp>
#include <weir/recording.hpp>

#include "check/circles.hpp"
#include "check/clock.hpp"
#include "check/graphs.hpp"
#include "check/history.hpp"

namespace weir::check {

using recorded::Op;
using recorded::Use;

/// Who calls, and what. Files are kept by their pointers.
struct Call {
  std::uint32_t thread = 0;
  std::uint64_t command = 0;
  const char* file = "";
  std::uint32_t line = 0;
  bool collective = false;  ///< which the library refuses unless its arguments may share what they share
};

struct StreamFact {
  std::string name;
  std::uint32_t device = 0;
  recorded::StreamKind kind = recorded::StreamKind::blocking;
  std::string unseen = {};  ///< why others may order it, if they may
  const char* file = "";
  std::uint32_t line = 0;
  std::string code = {};  ///< what stands for it in mends; empty: its name
};
struct BufferFact {
  std::string name;
  MemoryKind kind = MemoryKind::device;
  recorded::Owner owner = recorded::Owner::array;
  std::uint64_t bytes = 0;
  std::uint32_t device = 0;
  std::uint32_t home = none;  ///< a stream
  bool live = true;
  bool written = true;
  std::string unseen = {};
};

/// For tests: what of hazards.md, section 2, holds.
struct Rules {
  std::array<bool, 15> edge = {true, true, true, true, true, true, true, true,
                               true, true, true, true, true, true, true};
};

struct EngineOptions {
  HostOrder host_order = HostOrder::observed;
  bool hints = false;
  bool leaks = false;
  bool keys_by_line = false;  ///< the keys of findings have files and lines, else commands
  bool gives_later = false;   ///< host functions give as they run: gave()
  Rules rules;
  /// The id of a command, of a device, and of a host thread.
  std::function<std::string(std::uint64_t)> command_text = [](std::uint64_t id) { return std::to_string(id); };
  std::function<std::string(std::uint32_t)> device_text = [](std::uint32_t place) { return std::to_string(place); };
  std::function<std::string(std::uint32_t)> thread_text = [](std::uint32_t place) { return std::to_string(place); };
  std::function<std::string(std::uint32_t)> graph_text = [](std::uint32_t id) { return std::to_string(id); };
  /// Told of each finding.
  std::function<void(Finding)> found;
};

class Engine {
 public:
  explicit Engine(EngineOptions options);
  ~Engine();

  std::uint32_t add_stream(const StreamFact& fact);
  std::uint32_t add_event(const std::string& name);
  std::uint32_t add_buffer(const BufferFact& fact);
  /// What is found out later: names, kinds and sizes.
  BufferFact& buffer_fact(std::uint32_t buffer);
  StreamFact& stream_fact(std::uint32_t stream);
  /// The line that has pinned memory which nobody was seen to allocate; 0: none has.
  std::uint32_t pinned_at(std::uint32_t buffer) const;
  void set_pinned(std::uint32_t buffer, const char* file, std::uint32_t line);
  /// These bytes may hold other memory from here on, and what touched them until now is over.
  void unpinned(std::uint32_t buffer, std::uint64_t begin, std::uint64_t end);
  /// Two ranges of memory turn out to be one: what touched `part`, and guards of it, are `whole`'s from here on.
  void absorb_buffer(std::uint32_t whole, std::uint32_t part);
  /// Others may use the memory, unseen, from here on.
  void share_buffer(std::uint32_t buffer, const std::string& why);
  void made_stream(const Call& call, std::uint32_t stream);
  void drop_stream(const Call& call, std::uint32_t stream);
  void made_event(std::uint32_t event);
  void drop_event(std::uint32_t event);
  /// What was freed, or dropped, and will not be named again: whether its place may be another one's from here on. Of streams that
  /// were dropped the engine finds out for itself, and add_stream() gives their places again.
  bool forget_buffer(std::uint32_t buffer);
  bool forget_event(std::uint32_t event);

  /// Of copies and fills: `to`, and `from`.
  void work(const Call& call, std::uint32_t stream, Op op, const char* name, std::span<const Use> uses,
            std::span<const std::uint32_t> gives = {});
  /// Find what work(), open(), free() and launch_graph() would find between two uses, and keep nothing of it.
  void try_work(const Call& call, std::uint32_t stream, Op op, const char* name, std::span<const Use> uses);
  void try_open(const Call& call, const Use& use);
  /// Of what was tried last. Refused, it leaves its stream as it was.
  void end_attempt(bool refused);
  void try_free(const Call& call, std::uint32_t buffer, std::uint32_t stream);
  void try_launch(const Call& call, std::uint32_t stream, std::uint32_t graph);
  /// A rank's part in a collective, whose work() comes next: what it is behind by the order of its communicator.
  void begin_collective(const Call& call, std::uint32_t stream, const CollectiveCall& made, bool tried = false);
  /// Which was told as work() already; or before it is.
  void collective(const Call& call, std::uint32_t stream, const CollectiveCall& made);
  void try_collective(const Call& call, std::uint32_t stream, const CollectiveCall& made);
  void alloc(const Call& call, std::uint32_t buffer, std::uint32_t stream);
  void free(const Call& call, std::uint32_t buffer, std::uint32_t stream);
  /// Some bytes of host memory end, and the rest stays.
  void part_gone(const Call& call, std::uint32_t buffer, std::uint64_t begin, std::uint64_t end);
  void try_part_gone(const Call& call, std::uint32_t buffer, std::uint64_t begin, std::uint64_t end);
  /// `node`: in a capture, the record or wait is a node of the graph; `external`: and nothing else.
  void record(const Call& call, std::uint32_t stream, std::uint32_t event, bool node = false, bool external = false);
  void wait(const Call& call, std::uint32_t stream, std::uint32_t event, bool node = false);
  void wait_stream(const Call& call, std::uint32_t stream, std::uint32_t other, bool scoped = false);
  /// Also what was done when it was asked about.
  void synchronize_stream(const Call& call, std::uint32_t stream, bool asked = false);
  void synchronize_event(const Call& call, std::uint32_t event, bool asked = false);
  void synchronize_device(const Call& call, std::uint32_t device);
  void synchronize_all(const Call& call);
  void not_done(const Call& call, std::uint32_t stream, std::uint32_t event);
  void host_access(const Call& call, Op op, std::span<const Use> uses);
  void open(const Call& call, std::uint32_t scope, const Use& use);
  void close(const Call& call, std::uint32_t scope);
  void give(const Call& call, std::uint32_t hand_off);
  void take(const Call& call, std::uint32_t hand_off);
  /// A host function gives: what was before it, is before who takes.
  void gave(std::uint64_t command, std::uint32_t hand_off);

  void begin_capture(const Call& call, std::uint32_t stream);
  /// Without a graph: nothing came of it.
  void end_capture(const Call& call, std::uint32_t stream, std::uint32_t graph);
  bool capturing(std::uint32_t stream) const;
  void build(const Call& call, std::uint32_t graph, std::span<const recorded::Node> nodes,
             const std::function<const char*(recorded::Name)>& text);
  void update(const Call& call, std::uint32_t graph, const std::string& node, std::span<const Use> uses, bool ends);
  void enable(const Call& call, std::uint32_t graph, const std::string& node, bool enabled);
  void launch_graph(const Call& call, std::uint32_t stream, std::uint32_t graph);
  void drop_graph(std::uint32_t graph);

  /// Of what has touched memory until now, or not, nothing is said any more: it takes too much.
  void forget_uses();
  /// The program's end: hints and leaks come last.
  void finish();
  /// At the end, of a capture that began in that call.
  void leaves_capturing(const Call& call, std::uint32_t stream);

  const std::vector<Unchecked>& unchecked() const { return unchecked_; }
  /// What it takes for accesses and the places that they come from, and how many accesses there are.
  std::size_t history_bytes() const;
  std::size_t history_size() const;
  /// How long clocks can be.
  std::size_t timelines() const { return timelines_; }

 private:
  struct Site;
  struct Stream;
  struct Event;
  struct Buffer;
  struct Thread;
  struct Scope;
  struct Graph;
  struct Capture;
  struct Hit;
  struct Second;
  struct HostWait;
  struct Place {
    const char* file = "";
    std::uint32_t line = 0;
  };

  // ---- engine.cpp
  Thread& thread(const Call& call);
  Timeline new_timeline() { return timelines_++; }
  void begin_timeline(Stream& stream);
  bool over(Stream& stream);
  void collect_streams();
  std::vector<bool> used_sites() const;
  std::uint32_t add_site(Site site);
  void give_site_back(std::uint32_t site);
  void collect_sites();
  void note_in_graphs(const GraphNode& node);
  Event& event_at(std::uint32_t which);
  bool rule(unsigned edge) const { return options_.rules.edge[edge]; }
  Stream& enter(const Call& call, std::uint32_t stream, bool own_only = false);
  void remember(std::uint32_t stream);
  struct Sides;
  Sides sides_of(Op op, std::span<const Use> given) const;
  void check_work(const Second& second, const Sides& sides);
  void leave(const Call& call, Stream& stream);
  void learn(Thread& thread, const Clock& clock);
  void learn_stream(Thread& thread, std::uint32_t stream);
  void note_wait(const Call& call, HostWait wait);
  /// Of the streams that have work, those that `which` names.
  template <class Which>
  void learn_all(Thread& thread, const Which& which);
  Tick host_tick(Thread& thread);
  void order_behind(const Call& call, std::uint32_t stream, std::uint32_t event, bool hints);
  std::uint32_t site(const Call& call, Op op, std::uint32_t stream, const char* name);
  bool before(const Access& access, const Clock& clock) const;

  // ---- engine_memory.cpp
  void check_use(const Use& use, std::size_t number, const Clock& now, bool host, std::uint32_t launch = none,
                 bool kept = false);
  void add_use(const Use& use, std::size_t number, const Access& like, const Clock& now);
  void check_contents(const Second& second, std::span<const Use> uses);
  void check_overlaps(const Second& second, std::span<const Use> uses);
  void wrote(Buffer& buffer, std::span<const Run> runs);
  std::span<const Run> runs(const Use& use);
  std::span<const Run> rows(const Use& use);
  void hit(FindingKind kind, const Access& first, std::uint32_t buffer, std::span<const Run> runs, const Use& second,
           std::size_t number, bool host);
  void check_free(const Second& second, std::uint32_t buffer, const Clock& end);
  void check_free(const Second& second, std::uint32_t buffer, const Runs& bytes, const Clock& end);
  std::uint32_t check_end(const Call& call, std::uint32_t buffer, std::uint32_t stream, bool tried = false);

  // ---- engine_graphs.cpp
  std::uint32_t captured(const Call& call, std::uint32_t stream, Op op, const char* name, std::vector<Use> uses,
                         std::uint32_t target = none, std::span<const std::uint32_t> gives = {});
  void check_inside(const Call& call, std::uint32_t stream, Graph& graph, std::uint32_t site);
  std::uint32_t launch_site(const Call& call, std::uint32_t stream, const Graph& graph);
  bool may_race(const GraphVersion& version, const Clock& now) const;
  Clock clock_of(const GraphVersion& version, std::span<const std::uint32_t> waits, std::uint32_t node,
                 const Clock& begin) const;
  void check_nodes(const Call& call, std::uint32_t stream, const Graph& graph, std::uint32_t site, const Clock& begin);
  void launch_whole(const Call& call, Stream& stream, Graph& graph, std::uint32_t site);
  void add_nodes(std::vector<GraphNode>& nodes, std::span<const recorded::Node> list, std::uint32_t parent,
                 std::uint32_t body, const std::string& prefix, const std::function<const char*(recorded::Name)>& text,
                 std::uint32_t graph);
  void expand(const Hit& hit, const Site& site, std::vector<Hit>& made) const;

  // ---- engine_collectives.cpp
  Circles::Part part_of(const Call& call, std::uint32_t stream, const CollectiveCall& made) const;
  std::vector<Circles::Link> find_circle(const Circles::Part& part, const Clock& before);
  Clock before_part(const Stream& stream, const CollectiveCall& made, bool added) const;
  void begin_launch(Clock& clock, const GraphVersion& version) const;
  void end_launch(const Call& call, Stream& stream, const GraphVersion& version, const Clock& before);

  // ---- findings.cpp
  void conclude(const Second& second, std::vector<Hit>& hits);
  Finding base(FindingKind kind, const Second& second, const Buffer* buffer, const Runs& runs) const;
  Side side_of(const Access& access) const;
  Side side_of(const Second& second, std::size_t use, recorded::Access how, bool host, bool whole) const;
  std::string why(const Second& second, const Hit& first, const Side& named) const;
  std::string why_host(const Second& second, const Hit& first) const;
  std::string waited_instead(const Second& second, const Hit& first) const;
  std::vector<std::pair<std::string, std::string>> unseen(const Second& second, const Buffer& buffer,
                                                          const Site& from) const;
  std::string named(std::uint32_t stream) const;
  const std::string& in_code(std::uint32_t stream) const;
  void warn(FindingKind kind, const Second& second, std::uint32_t buffer, const Runs& runs, std::size_t use);
  void hint(FindingKind kind, const Call& call, std::uint32_t stream, Op op, const std::string& why);
  void report(Finding finding);

  // ---- mends.cpp
  FindingPart<Mend> mend(const Second& second, const std::vector<Hit>& hits, bool host_second) const;
  FindingPart<Mend> mend_inside(const Second& second, const std::vector<Hit>& hits) const;
  std::string new_event() const;
  bool covered(const std::vector<Hit>& hits, const Clock& clock) const;

  void skip(const std::string& what, const std::string& why, std::uint64_t count = 1);

  EngineOptions options_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::uint32_t> legacy_streams_;
  std::vector<std::uint32_t> free_streams_, free_buffers_, free_sites_;  ///< places
  std::size_t dropped_streams_ = 0;                                      ///< that have kept their places
  std::size_t collect_at_ = 0;                                           ///< so many of them are worth a look again
  std::vector<std::uint32_t> working_;  ///< streams with commands that host threads may not be behind
  struct Ended {
    Timeline timeline;
    Tick tick;
  };
  std::vector<Ended> ended_;  ///< timelines of streams that are gone
  std::vector<Event> events_;
  std::unique_ptr<Event> stream_event_;  ///< of waits for streams: nobody else has it
  std::vector<std::unique_ptr<Buffer>> buffers_;
  std::vector<Site> sites_;
  std::uint32_t first_launch_ = none;  ///< the first site that may have record nodes behind it
  std::size_t launch_sites_ = 0;       ///< sites of graphs' launches, used or not
  std::size_t collect_sites_at_ = 0;   ///< so many of them are worth a look again
  std::unordered_map<std::uint64_t, std::uint32_t> site_table_;
  std::array<std::uint32_t, 256> recent_sites_ = {};  ///< some of them, by their hashes
  std::unordered_map<std::uint32_t, Scope> scopes_;
  std::unordered_map<std::uint32_t, Clock> hand_offs_;
  std::map<std::uint64_t, Clock> may_give_;  ///< what the latest host functions were behind
  std::unordered_map<std::uint32_t, std::unique_ptr<Graph>> graphs_;
  std::map<std::uint32_t, std::unique_ptr<Capture>> captures_;
  std::uint32_t next_capture_ = 1;
  Circles circles_;
  Timeline timelines_ = 0;
  std::vector<Unchecked> unchecked_;
  Run run_;  ///< of the last use that had one, or several
  Runs runs_;
  std::vector<Hit> hits_;
  struct Tried;
  std::unique_ptr<Tried> tried_;  ///< a stream before the call that is tried
  struct Hint;
  std::vector<Hint> hints_;
  std::uint64_t records_ = 0;
  std::uint64_t launches_ = 0;      ///< of graphs with collectives
  std::uint64_t last_command_ = 0;  ///< that a stream was given
  mutable std::uint64_t new_events_ = 0;
};

}  // namespace weir::check
