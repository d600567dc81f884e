// What the core keeps of a graph beyond what backends see.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weir/graph.hpp>

#include "core/graphs/capture.hpp"
#include "core/runtime.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

class CallingGraph;
struct CommunicatorState;

/// Where new work for the nodes of one device is made: a stream whose recorder hands it to the edit.
struct EditStream {
  explicit EditStream(DeviceState& on);
  ~EditStream();
  EditStream(const EditStream&) = delete;
  EditStream& operator=(const EditStream&) = delete;

  const int device;  ///< its index
  Stream stream;
  Capture capture;
  Recorder* recorder;
};

struct CoreGraph final : GraphState {
  DeviceState* on = nullptr;
  std::uint64_t family = 0;  ///< what handles of its nodes name: that of the graph that it is a clone of, or its own id
  CallingGraph* calling = nullptr;  ///< the executable, where calls of ranks of several processes are in it
  std::atomic<StreamId> last_stream{0};
  mutable Mutex launched_mutex;
  /// Whose ranks each launch is a call of.
  std::vector<std::shared_ptr<CommunicatorState>> communicators WEIR_GUARDED_BY(launched_mutex);
  std::atomic<bool> has_collectives{false};  ///< there are any
  /// Arrays that leave the graph must outlive the work of these.
  std::vector<QueuePlace> launched_on WEIR_GUARDED_BY(launched_mutex);

  /// What its launches are told to use, and the events that they record: made at the first launch that is observed.
  struct Uses {
    std::vector<Region> regions;
    std::vector<EventState*> records;
  };
  mutable Mutex uses_mutex;
  std::shared_ptr<const Uses> uses WEIR_GUARDED_BY(uses_mutex);
  std::atomic<std::uint64_t> told{0};  ///< the observers that know it, as observed_graphs() counts

  Mutex edit_mutex;
  /// As changes of the form are: of each device whose nodes were changed.
  std::vector<std::unique_ptr<EditStream>> edit_streams WEIR_GUARDED_BY(edit_mutex);

  void note_launch(StreamState& stream, StreamId id);
  /// The form has other nodes, or others do what they do.
  void note_communicators();
};

/// Throws invalid_handle for a graph that was moved from.
CoreGraph& graph_of(const Graph& graph, const char* operation, SourceLocation where);
/// Throws invalid_handle for a node of another graph.
FormNode& node_of(CoreGraph& graph, Node node, const char* operation, SourceLocation where);
/// The payload is about to leave the graph: its arrays outlive all replays so far.
void keep_until_launched_work_is_done(const CoreGraph& graph, const Payload& payload);
std::string name_of(const FormNode& node);
/// What users see of a node.
NodeInfo info_of(const FormNode& node, std::uint64_t graph, std::size_t index);
/// What its nodes do, but for those that are disabled.
std::shared_ptr<const CoreGraph::Uses> uses_of(CoreGraph& graph);
/// Tells of a graph that is made, or that observers have come behind. No change of it is under way, here as next.
void observe_graph(CoreGraph& graph, SourceLocation where);
/// A node has changed.
void observe_change(CoreGraph& graph, std::size_t node) noexcept;
/// Sizes, for people.
std::string detail_of(const FormNode& node);

}  // namespace weir::detail
