// What the model is given, and what it answers: a program as calls of host threads, and when each of its commands ran.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weir::sim::model {

inline constexpr std::uint32_t none = 0xffffffff;

/// What keeps a device busy. copy_within is within a device's memory, copy_host between two places on the host; collective is one
/// rank's part of one; nothing is a graph's beginning or end, or a node that does nothing.
enum class Work : std::uint8_t {
  h2d,
  d2h,
  copy_within,
  copy_peer,
  copy_host,
  fill,
  kernel,
  host_function,
  collective,
  nothing
};

struct Task {
  Work work = Work::nothing;
  bool pageable = false;
  bool staged = false;  ///< of pageable memory, which the library moves itself
  double bytes = 0;     ///< of a copy or fill; of a kernel, read and written at the memory's rate
  double block_us = 0;  ///< of each block that has its place
  double fixed_us =
      0;  ///< at least that long, from the first block's begin; of a collective, from when all parts are there
  std::uint32_t blocks = 1;  ///< of a kernel, fill, or copy within the device
  std::uint32_t threads = 1;
  std::uint32_t shared_bytes = 0;
  friend bool operator==(const Task&, const Task&) = default;
};

/// A graph: tasks in an order in which each comes behind those that it waits for.
struct Node {
  std::uint32_t task = none;
  std::vector<std::uint32_t> after;
  std::uint32_t waits = none;    ///< the event of another stream: for what it stands for at the launch
  std::uint32_t records = none;  ///< the event that stands for this node from the launch on
};
using Graph = std::vector<Node>;

enum class Action : std::uint8_t {
  enqueue,       ///< the task, in the stream
  launch_graph,  ///< target: the graph
  record,        ///< target: the event
  wait_event,    ///< target: the event
  wait_stream,   ///< target: the other stream
  sync_stream,   ///< of the stream
  sync_event,    ///< target: the event
  sync_device,   ///< target: the device
  sync_all,
  query_stream,  ///< of the stream
  query_event,   ///< target: the event
  poll_stream,   ///< of the stream: asks until all of it has ended
  poll_event,    ///< target: the event
  work,          ///< `us`, on the host
  allocate,      ///< target: the device, or none for the host
  give,          ///< target: the hand-off
  take,          ///< target: the hand-off
};

struct Call {
  Action action = Action::work;
  std::uint32_t thread = 0;
  std::uint32_t stream = none;
  std::uint32_t target = none;
  std::uint32_t task = none;
  double us = 0;
  // Of a part of a collective, whose `target` is the meeting of all parts.
  std::uint32_t parts = 0;     ///< how many they are
  std::uint64_t unit = 0;      ///< parts of one unit do not wait for each other; 0: it is in none
  std::uint32_t chain = none;  ///< it comes behind the one before of the same chain
};

struct Stream {
  std::uint32_t device = 0;
  std::int32_t priority = 0;
  enum class Kind : std::uint8_t { blocking, non_blocking, legacy } kind = Kind::blocking;
};

/// What a host function of a graph works in one launch of that, at least.
struct NodeWork {
  std::uint32_t call = none;
  std::uint32_t node = none;
  double us = 0;
};

/// In the order of the calls.
struct Program {
  std::uint32_t devices = 1;
  std::uint32_t threads = 1;
  std::uint32_t events = 0;
  std::uint32_t hand_offs = 0;
  std::vector<Stream> streams;
  std::vector<Task> tasks;
  std::vector<Graph> graphs;
  std::vector<Call> calls;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> gives;  ///< task of a host function, hand-off; by tasks
  std::vector<NodeWork> works;
};

/// Why a command did not begin earlier.
enum class Cause : std::uint8_t {
  host,        ///< it was issued only then
  order,       ///< a command that it comes behind lasted
  link,        ///< its copy engine was busy
  copy_order,  ///< its copy engine waited for an earlier copy that could not begin
  device,      ///< no places on the multiprocessors
  check,       ///< the dependency check of older devices
  barrier,     ///< the legacy stream, or implicit synchronisation
  queue,       ///< a work queue that it shares
  driver,      ///< the thread of host functions
};

/// A command, or a node of a graph's launch.
struct Span {
  std::uint32_t call = none;
  std::uint32_t node = none;
  std::uint32_t task = none;
  std::uint32_t stream = none;
  double issued = 0;
  double ready = 0;
  double begin = 0;
  double end = 0;
  double last_block = 0;  ///< when the last block of a kernel begins
  Cause ready_by = Cause::host;
  Cause begin_by = Cause::host;  ///< equal to ready_by if it began when it was ready
  std::uint32_t behind = none;   ///< the span that made it ready last
  std::uint32_t holder = none;   ///< the span that its engine was busy with
  std::uint32_t before = none;   ///< copy_order: what the engine did before that one, if this one was ready then
  double idle_from = 0;          ///< copy_order: since when the engine did nothing before the holder began
};

/// What a host thread did in a call.
struct HostSpan {
  double begin = 0;
  double end = 0;
  std::uint32_t awaited = none;  ///< the span whose end a wait waited for last
};

struct Result {
  double makespan = 0;
  double host = 0;                  ///< time that host threads spent in calls, without waiting
  std::vector<Span> spans;          ///< in the order in which they were issued
  std::vector<HostSpan> calls;      ///< one for each call
  bool stuck = false;               ///< calls are left that wait for what never comes
  std::uint32_t stuck_call = none;  ///< the first of them
};

}  // namespace weir::sim::model
