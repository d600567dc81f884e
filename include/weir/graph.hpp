// Graphs: what streams would do, recorded once and replayed at a fraction of the cost.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/graph_node.hpp>
#include <weir/stream.hpp>

namespace weir {

/// Owns an instantiated graph. Replays of one graph never overlap each other, whatever streams they are on; replays of
/// different graphs may. The arrays that its nodes use are kept alive by it, on every backend. Destroying it while replays
/// are pending is safe: they run to their end. Thread rule: launches from any thread; changes by one thread at a time.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;  // a graph is not copied by =: graph.clone(), std::move(graph), or a reference
  Graph(Graph&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();

  /// Replays the graph once, in the order of `stream`, like a kernel (W4, W21): asynchronous; on any stream of its backend.
  /// What its nodes read is read when they run. Into a capturing stream it becomes a child graph, as it is now.
  /// A failure of a node skips the rest of the replay and is thrown by the next synchronisation of the stream.
  void launch(StreamRef stream, SourceLocation where = SourceLocation::current()) const;
  /// On the current stream of the device that it was made for.
  void launch(SourceLocation where = SourceLocation::current()) const;

  /// Another graph with the same nodes, as they are now. Changes of one do not touch the other, and replays of both may
  /// overlap. Node handles of one are good for the other, and arrays are kept alive by both. Memory that the graph
  /// allocates is the same in both: order replays that use it.
  /// Throws not_supported if the device cannot copy what another library captured into it.
  Graph clone(SourceLocation where = SourceLocation::current()) const;

  /// The device that it was made for.
  Device device(SourceLocation where = SourceLocation::current()) const;
  /// Its nodes in the order in which they were added; those of child graphs and conditional bodies with a parent.
  std::vector<NodeInfo> nodes(SourceLocation where = SourceLocation::current()) const;
  NodeInfo node(Node node, SourceLocation where = SourceLocation::current()) const;
  /// The first node of this name. Throws invalid_value if there is none.
  Node find(std::string_view name, SourceLocation where = SourceLocation::current()) const;
  std::size_t size(SourceLocation where = SourceLocation::current()) const;
  /// The same as size().
  std::size_t node_count(SourceLocation where = SourceLocation::current()) const;
  /// Whether it has no nodes: its replays do nothing.
  bool empty(SourceLocation where = SourceLocation::current()) const;

  // Changes: replays that were launched before keep what they had, later ones use the new. A call that fails changes
  // nothing. #include <weir/graph_update.hpp> (or weir.hpp) for those that take kernels and arrays.

  /// New arguments for a launch, whose kernel and extent stay: for nodes that a GraphBuilder's launch() or launch_blocks()
  /// returned.
  template <class F, class... A>
    requires detail::BindsTo<F, A...>
  void update(const LaunchNode<F>& node, A&&... arguments);
  /// A kernel with its arguments for a launch, whose extent stays. Another kernel than before is fine, but over blocks
  /// one that takes a weir::Block, and else one that takes an index.
  template <class F, class... A>
    requires(!detail::IsExtent<F>)
  void update(NodeArg node, F&& kernel, A&&... arguments);
  /// The same with another extent.
  template <class F, class... A>
  void update(NodeArg node, ExtentArg extent, F&& kernel, A&&... arguments);
  template <class F, class... A>
  void update(NodeArg node, const NamedExtent& extent, F&& kernel, A&&... arguments);
  /// The same with another number of blocks, or another size of theirs: a BlockExtent, or `{.blocks = 8, .threads = 64}`.
  template <std::same_as<BlockExtent> E, class F, class... A>
  void update(NodeArg node, const E& extent, F&& kernel, A&&... arguments);
  template <class F, class... A>
  void update(NodeArg node, const NamedBlockExtent& extent, F&& kernel, A&&... arguments);
  /// Another extent for a launch; the kernel and its arguments stay. An extent of 0 launches nothing.
  void resize(Node node, const Shape& extent, SourceLocation where = SourceLocation::current());
  /// New ends for a copy.
  template <class To, class From>
  void update_copy(Node node, To&& to, From&& from, SourceLocation where = SourceLocation::current());
  /// A new destination and value for a fill.
  template <class To, class V>
  void update_fill(Node node, To&& to, const V& value, SourceLocation where = SourceLocation::current());
  /// Another function for a host function's node.
  template <class F>
  void update_host_call(Node node, F&& function, SourceLocation where = SourceLocation::current());
  /// All nodes do from here on what those of `other` do: kernels, arguments, extents, copies, fills, host functions, and
  /// whether they are enabled; priorities stay. Nodes stand for each other by the order in which they were added. As other
  /// changes: replays that were launched before are not touched, and what fails changes nothing. All nodes change at once: a
  /// replay that another thread launches meanwhile has all of the changes or none. The error says what differs.
  /// Throws wrong_device for a graph of another device; invalid_value for one of another topology, with other devices,
  /// events, conditions or memory of its own; not_supported if one holds what another library captured.
  void update(const Graph& other, SourceLocation where = SourceLocation::current());
  /// A disabled node does nothing; what depends on it still waits for what it depends on.
  void enable(Node node, SourceLocation where = SourceLocation::current()) { set_enabled(node, true, where); }
  void disable(Node node, SourceLocation where = SourceLocation::current()) { set_enabled(node, false, where); }
  bool enabled(Node node, SourceLocation where = SourceLocation::current()) const;

  /// For the library.
  explicit Graph(detail::GraphState* state) : state_(state) {}
  detail::GraphState* state() const { return state_; }

 private:
  void set_enabled(Node node, bool enabled, SourceLocation where);

  detail::GraphState* state_ = nullptr;
};

/// Which calls, on which threads, void a capture. In every mode a wait for a capturing stream, for its device or for all
/// devices does, on any thread; so does using the legacy stream while a blocking one captures (R115, R116, R125, R148).
enum class CaptureMode : std::uint8_t {
  global,      ///< also any other wait of the host, and allocating pinned memory, on any thread
  per_thread,  ///< the same, but only on the thread that began the capture (R117, R120 to R122); CUDA's thread-local mode
  relaxed,     ///< no other call; any thread may end the capture (R117, R133)
};

/// Begins a capture on `stream`: from here on its calls are recorded instead of executed. Other streams, of other devices
/// too, join by waiting for an event that was recorded in the capture, and must be joined back (W20).
/// Until the end, these are errors, and discard the capture: waiting for or asking about a capturing stream, its device or
/// an event that it recorded; waiting for anything, or pinning memory, on the thread that began the capture (the
/// CaptureMode changes this); using the legacy stream while a blocking stream captures; waiting for an event from outside.
/// Throws capture_unsupported for a legacy stream and for one that is capturing already.
void capture_begin(StreamRef stream, SourceLocation where = SourceLocation::current());
void capture_begin(StreamRef stream, CaptureMode mode, SourceLocation where = SourceLocation::current());
/// Ends a capture and instantiates its graph. If the graph has no nodes while commands of the capturing thread went to
/// other streams, a line on stderr says so, unless WEIR_REPORT_UNSEEN=0. Throws capture_invalidated after an error inside, capture_unjoined,
/// capture_wrong_thread: the capture is discarded, and its streams execute again (R124, R130, R133). Throws
/// capture_unmatched on another stream than it began on: the capture is then invalid, and ends as such on its own (R114).
/// Throws not_capturing, and changes nothing, if there is none (R113).
Graph capture_end(StreamRef stream, SourceLocation where = SourceLocation::current());
/// Whether calls on the stream are recorded now. Throws capture_implicit for the legacy stream while a blocking stream of
/// its device captures, which goes on (R125).
bool is_capturing(StreamRef stream, SourceLocation where = SourceLocation::current());

/// A capture as it is now, for looking: to_dot(info.nodes) draws it.
struct CaptureInfo {
  std::uint64_t id = 0;         ///< different for each capture
  bool valid = true;            ///< false after an error: it will give no graph
  std::vector<NodeInfo> nodes;  ///< so far; their handles are those of the graph that it will give
  std::vector<Node> behind;     ///< what the stream's next node would depend on
};
/// The capture that the stream takes part in; none if it does not capture (R134). From any thread.
std::optional<CaptureInfo> capture_info(StreamRef stream, SourceLocation where = SourceLocation::current());

/// A capture for a block, whose stream is the current one of the thread until the end. Without finish(), as when an
/// exception leaves the block, it is discarded.
class ScopedCapture {
 public:
  /// On a stream, or on a device's current stream.
  explicit ScopedCapture(StreamArg stream, CaptureMode mode = CaptureMode::per_thread);
  ~ScopedCapture();
  ScopedCapture(const ScopedCapture&) = delete;
  ScopedCapture& operator=(const ScopedCapture&) = delete;
  /// As capture_end().
  Graph finish(SourceLocation where = SourceLocation::current());

 private:
  void end_current() noexcept;

  StreamRef stream_;
  Device previous_device_;
  StreamRef previous_stream_;
  bool current_ = true;
  std::uint64_t capture_;
};

/// The graph of what `body()` does on `stream`, which is the current stream meanwhile, and on streams that join it by
/// waiting. What the body does on any other stream is no part of the capture, and runs at once, as in CUDA. An exception
/// of the body ends the capture and passes through.
template <class Body>
Graph capture(StreamArg stream, Body&& body) {
  return capture(stream, CaptureMode::per_thread, static_cast<Body&&>(body));
}
template <class Body>
Graph capture(StreamArg stream, CaptureMode mode, Body&& body) {
  static_assert(std::is_invocable_v<Body>,
                "weir::capture calls body(): what it does on the captured stream becomes the graph");
  ScopedCapture scope(stream, mode);
  static_cast<Body&&>(body)();
  return scope.finish(stream.where);
}
/// On the current stream of the default device.
template <class Body>
  requires std::is_invocable_v<Body> Graph capture(Body&& body, SourceLocation where = SourceLocation::current()) {
    return capture(StreamArg(get_stream(where), where), static_cast<Body&&>(body));
  }

/// Records and waits that become nodes of a captured graph: each replay records the event, or waits for it, as
/// StreamRef::record and wait do outside of captures, where these are the same. A TimedEvent is always recorded so.
void record_external(StreamRef stream, EventRef event, SourceLocation where = SourceLocation::current());
void wait_external(StreamRef stream, EventRef event, SourceLocation where = SourceLocation::current());

/// The graph in Graphviz's language: nodes by kind with their names, coloured by stream, the source line as tooltip.
std::string to_dot(const Graph& graph, SourceLocation where = SourceLocation::current());
/// The same from what was read about the nodes.
std::string to_dot(const std::vector<NodeInfo>& nodes);

}  // namespace weir
