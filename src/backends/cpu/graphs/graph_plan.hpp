// A graph as the CPU runs it: chains fused into segments, segments with counters, bodies of conditional nodes as scopes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/streams/cpu_event.hpp"
#include "graph_form.hpp"

namespace weir::cpu {

/// One node's work inside a segment.
struct Step {
  enum class Kind : std::uint8_t {
    nothing,  ///< disabled, empty, or the core's business
    single,   ///< a kernel of one element
    launch,
    blocks,
    copy,
    fill,
    call,
    record,
    wait,  ///< begins its segment
  };
  Kind kind = Kind::nothing;
  std::uint32_t node = 0;
  void (*run)(const void* closure, const KernelRange&) = nullptr;
  const void* closure = nullptr;
  const detail::Payload* payload = nullptr;
};

/// A chain of nodes that is run without looking for other work, then what it makes ready.
struct Segment {
  std::uint32_t first_step = 0;
  std::uint32_t steps = 0;
  std::uint32_t first_successor = 0;
  std::uint32_t successors = 0;
  std::uint32_t in_degree = 0;
  std::uint32_t scope = 0;
  std::int32_t control = -1;  ///< the conditional or child graph node that it is: its bodies' scopes follow each other
  std::uint32_t bodies = 0;   ///< first scope of the bodies
  std::uint64_t urgency = 0;  ///< stream priority, then what depends on it: greater goes first
};

/// Nodes of one parent and branch. The whole graph is scope 0.
struct Scope {
  std::uint32_t first_root = 0;
  std::uint32_t roots = 0;
  std::uint32_t segments = 0;
  std::int32_t parent = -1;  ///< the segment whose body it is
};

/// An event node of the graph, and the queue whose counter says how far it is.
struct RecordNode {
  CpuEvent* event = nullptr;
  std::uint64_t event_id = 0;
  CpuQueue* timeline = nullptr;
  Stamp* stamp = nullptr;
};
struct WaitNode {
  CpuEvent* event = nullptr;
  std::uint64_t event_id = 0;
};

/// One version of an instantiated graph with the counters of a replay; replays use it one at a time.
class Plan {
 public:
  explicit Plan(const detail::GraphForm& form);
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  /// The step of a node as its payload and enabled flag say.
  void set_step(std::size_t node, const detail::FormNode& form);
  /// Whether an update of this node keeps the shape of the plan.
  bool has_step(std::size_t node) const { return step_of_node[node] >= 0; }

  std::vector<Step> steps;
  std::vector<Segment> segments;
  std::vector<std::uint32_t> successors;
  std::vector<std::uint32_t> roots;
  std::vector<Scope> scopes;
  std::vector<detail::Condition> conditions;  ///< by control
  std::vector<std::int32_t> step_of_node;
  std::vector<std::uint32_t> records;  ///< nodes that record events; RecordNodes are the graph's
  std::vector<std::uint32_t> waits;    ///< nodes that wait for events, by their place among a launch's marks
  std::vector<std::shared_ptr<const detail::Payload>> payloads;  ///< by node
  int most_urgent = 0;                                           ///< stream priority

  // Counters of the present replay. Whoever brings one to 0 sets it for the next.
  std::unique_ptr<std::atomic<std::uint32_t>[]> pending;    ///< by segment
  std::unique_ptr<std::atomic<std::uint32_t>[]> remaining;  ///< by scope: segments that are not finished

  /// Under the graph's lock: pending launches that use this version.
  std::uint32_t launches = 0;

 private:
  void fuse(const detail::GraphForm& form);
  void sort(const detail::GraphForm& form);
  void connect(const detail::GraphForm& form);
  void rank();

  std::vector<std::uint32_t> segment_of_node_;
  std::vector<std::vector<std::uint32_t>> members_;
};

}  // namespace weir::cpu
