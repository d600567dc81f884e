// What a CUDA program did, as CUPTI tells it, in plain values: timelines of programs that know nothing of Weir are made of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <weir/trace.hpp>

namespace weir::foreign {

/// One thing that was told. Moments are nanoseconds of CUPTI's clock.
struct Activity {
  enum class Kind : std::uint8_t {
    api,  ///< a call of the runtime or of the driver
    kernel,
    copy,
    fill,
    graph,       ///< a graph's launch as a whole
    record,      ///< of an event
    wait,        ///< of a stream, for an event
    event_sync,  ///< the host waited
    stream_sync,
    device_sync,
    range_begins,  ///< NVTX
    range_ends,
    mark,
  };

  std::uint64_t begin = 0;  ///< of ranges and marks: when
  std::uint64_t end = 0;
  std::uint64_t bytes = 0;  ///< of copies and fills
  std::uint64_t number =
      0;  ///< of kernels: blocks; of records, waits and event_sync: the record's own number, 0: not known
  std::uint32_t correlation = 0;  ///< of the call that asked for it
  std::uint32_t context = 0;
  std::uint32_t stream = 0;
  std::uint32_t device = 0;
  std::uint32_t thread = 0;          ///< of calls, ranges and marks: as the system numbers it
  std::uint32_t name = trace::none;  ///< its place in Collected::texts
  std::uint32_t object = 0;          ///< the event, range or graph
  Kind kind = Kind::api;
  trace::Lane lane = trace::Lane::kernel;  ///< of copies
  bool blocks = false;                     ///< a copy whose call returns when it is over
  bool pageable = false;                   ///< a copy of pageable memory
  bool in_graph = false;                   ///< a node of a graph
};

/// Whether it is a command of a stream.
inline bool is_command(const Activity& one) {
  return one.kind >= Activity::Kind::kernel && one.kind <= Activity::Kind::wait;
}

struct Context {
  std::uint32_t device = 0;
  std::uint32_t null_stream = 0;
};
struct Stream {
  std::int32_t priority = 0;
  bool blocking = true;
  std::string name;  ///< as NVTX was told; empty: it was not
};
/// A context and a stream in it.
using StreamKey = std::pair<std::uint32_t, std::uint32_t>;

/// What CUPTI says that it took itself: nanoseconds, of all threads together.
struct Overhead {
  std::uint64_t instrumentation = 0;  ///< of calls, and of what they ask for
  std::uint64_t resources = 0;        ///< made and given back
  std::uint64_t buffers = 0;          ///< got, and handed over, with what becomes of the records then
};

/// All that was told until now.
struct Collected {
  std::vector<Activity> activities;  ///< in any order
  std::vector<std::string> texts;
  std::map<std::uint32_t, Context> contexts;
  std::map<StreamKey, Stream> streams;  ///< those that were made; others are used without being told of
  std::uint64_t started = 0;
  std::uint64_t stopped = 0;
  std::uint64_t dropped = 0;  ///< commands that made room for later ones
  std::uint64_t lost = 0;     ///< records that CUPTI had no room for
  Overhead overhead;
};

/// Puts in order what was told: commands with what they depend on, the host's waits, ranges. What is not told of a command,
/// such as a line of source, stays unknown.
trace::Timeline assemble(const Collected& collected);

}  // namespace weir::foreign
