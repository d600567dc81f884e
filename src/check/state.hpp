// What the engine keeps of streams, events, memory, host threads and graphs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "check/engine.hpp"

namespace weir::check {

inline constexpr Timeline no_timeline = 0xffffffff;
inline constexpr Tick never = (Tick{1} << 48) - 1;  ///< of what has not ended

/// Where accesses come from; equal for equal lines, so that an access is small.
inline constexpr std::uint64_t no_command = ~std::uint64_t{0};

struct Engine::Site {
  Op op = Op::launch;
  std::uint32_t stream = none;
  std::uint32_t thread = 0;
  const char* name = "";
  Place place;
  // Of a graph launch.
  std::shared_ptr<const GraphVersion> version = nullptr;
  std::uint32_t graph = none;
  std::uint32_t node = none;
  /// Nodes that record or give, and are behind the node: who is behind one of them is behind the node.
  std::vector<std::pair<Timeline, Tick>> also_before = {};
};

/// What a host thread has waited for.
struct Engine::HostWait {
  std::uint32_t stream = none;  ///< also the one that recorded an event
  std::uint32_t device = none;
  Place recorded = {};  ///< of an event
  Place place = {};
  std::uint64_t last_command = 0;  ///< of those before it

  bool of_event() const { return recorded.line != 0; }
};

struct Engine::Thread {
  Timeline timeline = 0;
  Tick tick = 0;
  std::uint64_t version = 1;
  Clock clock;
  bool synchronized = false;    ///< ever
  std::vector<HostWait> waits;  ///< for explanations: the latest
};

struct Engine::Stream {
  StreamFact fact;
  std::uint32_t id = 0;
  bool alive = true;
  bool forgotten = false;  ///< nothing names it any more: its place waits for another one
  bool working = false;
  Timeline timeline = no_timeline;  ///< from its first command on
  Tick tick = 0;
  Tick before_work = 0;  ///< before the last command's uses
  std::uint64_t version = 0;
  std::uint64_t commands = 0;
  std::uint64_t last_command = 0;
  Clock clock;
  std::uint32_t seen_thread = none;
  std::uint64_t seen_thread_version = 0;
  std::vector<std::uint64_t> seen_streams;  ///< versions that were joined by the rules of the legacy stream

  std::uint32_t capture = 0;
  std::vector<std::uint32_t> frontier;  ///< what its next node comes after

  std::uint64_t unit = 0;  ///< the group of the last collective
  Clock before_unit;

  /// For explanations: the last wait for each other stream.
  struct Waited {
    std::uint32_t other;
    std::uint32_t event;  ///< none: for the stream itself
    Place place;
    bool empty;
    std::uint32_t before;  ///< the stream that the event was recorded on before, if it was
    Place recorded;
    Place recorded_before;  ///< by the stream before
    std::uint64_t launch;   ///< as the event's
    std::uint32_t generation = 0;
  };
  std::vector<Waited> waits;
  Place not_done;
  std::uint64_t not_done_behind = 0;  ///< the last command before that question
  bool asked_in_vain = false;
};

/// What entering a stream changes of it.
struct Engine::Tried {
  std::uint32_t stream = none;
  Clock clock;
  std::uint32_t seen_thread = none;
  std::uint64_t seen_thread_version = 0;
  std::vector<std::uint64_t> seen_streams;
};

struct Engine::Event {
  std::string name;
  std::uint32_t generation = 0;  ///< counts the events that have had this place
  bool in_graphs = false;        ///< some graph's node has named it
  bool alive = true;
  bool recorded = false;
  std::uint32_t stream = none;
  std::uint32_t stream_before = none;  ///< of the record before the last one
  std::uint64_t launch = no_command;   ///< of the graph that recorded it, if one did
  Place place, place_before;
  std::uint64_t sequence = 0;
  Clock clock;
  std::uint32_t capture = 0;
  std::vector<std::uint32_t> frontier;
};

struct Engine::Buffer {
  BufferFact fact;
  std::uint32_t id = 0;
  Place place;
  Access alloc;  ///< tick 0: it was there
  Access freed;
  bool is_freed = false;
  bool in_graphs = false;  ///< some graph's node has named it
  bool forgotten = false;  ///< nobody will name it again: its place waits for another one
  History history;
  RangeMap<bool> written;  ///< what was, where it matters
  bool all_written = true;
  std::vector<std::uint64_t> users;   ///< bits of streams that were given the array
  std::unique_ptr<Clock> keepers;     ///< the ends of launches of graphs that hold it
  std::vector<std::uint32_t> guards;  ///< scopes open on it
  std::uint32_t launch = none;        ///< the launch that is allocating it now

  bool exempt(const Access& access) const { return access.kept != 0; }
};

struct Engine::Scope {
  Use use;
  Access access;
  Runs runs;
};

struct Engine::Graph {
  std::uint32_t id = 0;
  std::shared_ptr<const GraphVersion> version;
  bool launched = false;  ///< since the version was made
  Clock end;              ///< of its last launch
  std::uint64_t launches = 0;
  std::vector<Timeline> record_timelines;  ///< for each node that records or gives, in their order
  /// Pairs of nodes and their buffer: the bytes that were told.
  std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>, Runs> reported;
  std::set<std::uint32_t> overlapping;  ///< nodes that were asked whether their arguments overlap
};

struct Engine::Capture {
  std::uint32_t id;
  std::uint32_t origin;
  std::uint32_t thread;
  std::vector<GraphNode> nodes;
  Place place;
};

struct Engine::Hit {
  FindingKind kind;
  Access first;
  std::uint32_t buffer;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint32_t number;  ///< of the second's use
  recorded::Access how;
  bool host;                  ///< the second is the host thread itself
  std::uint32_t node = none;  ///< of the first
  bool inside = false;        ///< both are nodes of one launch
};

/// The command that is looked at now.
struct Engine::Second {
  Call call;
  Op op = Op::launch;
  std::uint32_t stream = none;
  const char* name = "";
  const GraphVersion* version = nullptr;
  std::uint32_t graph = none;
  std::uint32_t node = none;
};

struct Engine::Hint {
  Finding finding;
  bool ordered;  ///< some execution of the line did
};

/// The bytes of a use; none, and listed as unchecked, where there are too many rows. Until the next one's are asked for.
inline std::span<const Run> Engine::runs(const Use& use) {
  if (use.dimensions != 0) return rows(use);
  run_ = {use.offset, use.offset + use.bytes};
  return {&run_, use.bytes != 0 ? std::size_t{1} : 0};
}

inline bool Engine::before(const Access& access, const Clock& clock) const {
  if (clock[access.timeline] >= access.tick) return true;
  if (access.site < first_launch_) return false;
  for (const auto& [timeline, tick] : sites_[access.site].also_before) {
    if (clock[timeline] >= tick) return true;
  }
  return false;
}

/// The kinds of a pair in which both touch the same bytes.
template <class Each>
void kinds_of(recorded::Access first, recorded::Access second, const Each& each) {
  if (writes(first) && reads(second)) each(FindingKind::read_after_write);
  if (writes(first) && writes(second)) each(FindingKind::write_after_write);
  if (reads(first) && writes(second)) each(FindingKind::write_after_read);
}

}  // namespace weir::check
