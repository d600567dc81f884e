// A graph of the driver's, made by captures alone: of the user's streams, or of streams of our own that are handed the
// commands of a form. So one code makes nodes, whoever asked for them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/graphs/graph_calls.hpp"
#include "backends/cuda/graphs/graph_replays.hpp"
#include "collective_call.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;
class ReduceBoxes;
struct CudaEvent;
struct NcclRanks;

/// The driver's nodes that one node of the form became.
struct DriverNodes {
  cudaGraph_t graph = nullptr;  ///< that they are in: the body of a conditional node, perhaps
  Nodes nodes;
  Nodes ends;                                      ///< what comes behind the form's node depends on these
  std::uint64_t place = 0;                         ///< in Replays
  std::vector<std::shared_ptr<const void>> owned;  ///< what the nodes use
};

/// Nodes of a form by what they are in: [parent + 1][...], in the form's order.
using Members = std::vector<std::vector<std::uint32_t>>;

/// What a graph that holds more than its form brings to a graph that it becomes a child of. Copies of the form have the same
/// one, whichever threads make graphs of them; the driver knows no locks for graphs, which reading calls need, too.
struct ForeignChild {
  ~ForeignChild();
  int device = 0;
  mutable detail::Mutex mutex;
  cudaGraph_t graph WEIR_GUARDED_BY(mutex) = nullptr;
  std::vector<Nodes> nodes WEIR_GUARDED_BY(mutex);  ///< by node of the form
  std::vector<std::shared_ptr<const void>> owned;
};

/// Thread rule: one thread at a time.
class DriverGraph {
 public:
  explicit DriverGraph(CudaDevice& device);
  ~DriverGraph();
  DriverGraph(const DriverGraph&) = delete;
  DriverGraph& operator=(const DriverGraph&) = delete;

  // A capture of the user's streams.

  void begin(CudaQueue& origin, SourceLocation where);
  /// A stream that waits for an event of this capture next.
  void join(CudaQueue& queue, SourceLocation where);
  /// Throws if something that the core does not know of made the capture void.
  void end(bool discard, SourceLocation where);
  /// Before a command, and after it: what it became.
  void expect(CudaQueue& queue, SourceLocation where);
  /// No two captures have the same; 0: it is one of the library's own, in which nobody waits for events that it recorded.
  std::uint64_t number() const { return recording_->number; }
  /// An event for a place in the capture, which has it until it ends.
  cudaEvent_t take_fork(CudaDevice& device, SourceLocation where);
  void captured(CudaQueue& queue, const detail::GraphForm& form, std::size_t node);
  /// A rank's part of a collective that others have yet to call, as the queue's next.
  void open_part(CudaQueue& queue, std::size_t node, std::size_t index, SourceLocation where);
  /// All have called it.
  void close_parts(const detail::GraphForm& form, std::size_t node);
  /// A node with nodes inside, as the queue's next.
  void insert(CudaQueue& queue, const detail::GraphForm& form, std::size_t node);

  // A graph of a form.

  void build(const detail::GraphForm& form);
  /// Puts the node as it is now in the place of what it was. Throws before anything has changed, or leaves a graph that is
  /// broken().
  void replace(const detail::GraphForm& form, std::size_t node);

  // For queues that are captured.

  /// A queue of another device in the same capture, behind what `queue` would be behind.
  CudaQueue& helper_behind(CudaQueue& queue, CudaDevice& device, SourceLocation where);
  void rejoin(CudaQueue& queue, CudaQueue& helper, SourceLocation where);
  /// A host function as the queue's next node; it must live as long as the graph.
  void add_call(CudaQueue& queue, const Command& command, detail::HostFunction& function);
  bool in_doubt() const { return replays_->place() != 0; }
  detail::DeviceGuard guard() const { return replays_->guard(place()); }
  detail::DeviceGuard guard_of(std::size_t threads, const CudaDevice& device) const {
    return replays_->guard_of(place(), threads, device);
  }
  /// Kept as long as the present node is in the graph, and until the last replay with it has ended.
  void own(std::shared_ptr<const void> thing) {
    present_owned_.push_back(std::move(thing));
    owns_things_ = true;
  }
  void note_recorded(CudaEvent& event);
  /// Throws where the present node is in the body of a conditional one, which holds kernels, copies and fills only.
  void check_not_in_body(const char* what, const std::string& object, SourceLocation where) const;

  // For the instance.

  /// A change failed halfway: it is good for its instances, and for no more changes.
  bool broken() const { return broken_ || torn_; }
  cudaGraph_t graph() const { return graph_; }
  const DriverNodes& nodes_of(std::size_t node) const { return nodes_[node]; }
  Replays& replays() { return *replays_; }
  bool has_calls() const { return replays_->place() != 0; }
  bool owns_things() const { return owns_things_; }
  /// What replaced nodes owned goes. No replay is pending.
  void forget_replaced() noexcept { replaced_.clear(); }
  const std::vector<CudaEvent*>& recorded_events() const { return recorded_; }
  /// Adds what every replay of a graph with host functions begins and ends with.
  void complete(const detail::GraphForm& form, SourceLocation where);
  /// Whether there are nodes of which the form does not know.
  bool is_foreign(const detail::GraphForm& form) const;
  /// A copy without the work of some nodes.
  std::shared_ptr<ForeignChild> as_child(const std::vector<std::size_t>& without, const char* operation,
                                         SourceLocation where) const;
  /// The same as a graph of its own. This one has no host functions.
  std::unique_ptr<DriverGraph> copy(const std::vector<std::size_t>& without, SourceLocation where) const;

 private:
  static constexpr const char* making = "weir: making a graph";

  /// One capture of the driver's into a graph.
  struct Recording {
    cudaGraph_t graph = nullptr;  ///< null where what is recorded goes at once
    CudaQueue* main = nullptr;
    std::vector<CudaQueue*> joined;                              ///< the user's
    std::vector<CudaQueue*> helpers;                             ///< ours: other devices, other priorities
    std::vector<std::pair<CudaDevice*, cudaEvent_t>> forks;      ///< recorded in it
    std::uint64_t number = 0;                                    ///< where it is of the user's streams
    std::vector<std::pair<CudaDevice*, Nodes>> last_collective;  ///< each device's ends of its last one
    bool body = false;
  };
  /// A rank's part of a collective in a capture.
  struct OpenPart {
    std::size_t node;
    std::size_t index;
    CudaQueue* queue;
    Nodes behind;         ///< what its stream had
    cudaGraphNode_t end;  ///< empty; what its stream has had since comes behind this
  };
  /// One rank's side of a collective: its kernels come behind some nodes, and end in others.
  struct Side {
    CudaQueue* queue;
    Nodes behind;
    Nodes ends;
  };
  /// The kernel of a condition that was captured before any host function.
  struct Unguarded {
    cudaGraphNode_t node;
    cudaGraphConditionalHandle handle;
    const std::int32_t* value;
    bool number;
  };

  std::uint64_t place() const { return fixed_place_.value_or(replays_->place()); }
  static void give_back(CudaQueue& queue) noexcept;
  CudaQueue& queue_for(const detail::FormNode& node);
  CudaQueue& helper(CudaDevice& device, int priority, SourceLocation where);
  template <class Make>
  void record_into(cudaGraph_t graph, bool body, SourceLocation where, const Make& make);
  cudaError_t close(Recording& recording);
  Nodes add_scope(const detail::GraphForm& form, const Members& members, std::int32_t parent, std::uint32_t branch,
                  const Nodes& behind);
  void add(const detail::GraphForm& form, const Members& members, std::uint32_t node, const Nodes& behind);
  void add_empty(DriverNodes& made, const Nodes& behind, SourceLocation where);
  void add_command(const detail::GraphForm& form, std::uint32_t node, const Nodes& behind);
  void try_out(const detail::FormNode& node);
  void add_collective(const detail::GraphForm& form, std::uint32_t node, const Nodes& behind,
                      const detail::CapturedCollective& collective);
  void call_collective(const detail::CapturedCollective& collective, std::vector<Side>& sides, DriverNodes& became,
                       SourceLocation where);
  static void reduce_in_boxes(const detail::CapturedCollective& collective, const std::vector<Side>& sides,
                              const ReduceBoxes& boxes, SourceLocation where);
  static void call_nccl_for_all(const detail::CapturedCollective& collective, const std::vector<Side>& sides,
                                const NcclRanks& ranks, SourceLocation where);
  void forget_unused_ends() noexcept;
  void add_child(const detail::GraphForm& form, std::uint32_t node, const Nodes& behind);
  void add_conditional(const detail::GraphForm& form, const Members& members, std::uint32_t node, const Nodes& behind);
  void guard_first_commands(const detail::GraphForm& form);
  void lower_copy(CudaQueue& queue, SourceLocation where);
  cudaGraphNode_t add_copy_behind(cudaGraphNode_t first, SourceLocation where);
  void set_condition(const detail::FormNode& node, cudaGraphConditionalHandle handle, const Nodes& behind,
                     DriverNodes& made);
  DriverNodes& made(std::size_t node);
  void take_back_nodes(cudaGraph_t graph, const Nodes& before) noexcept;

  CudaDevice& device_;
  cudaGraph_t graph_ = nullptr;
  std::shared_ptr<Replays> replays_;
  std::vector<DriverNodes> nodes_;                          ///< by node of the form
  std::vector<std::shared_ptr<const void>> present_owned_;  ///< of the node that is being made
  std::vector<std::shared_ptr<const void>> replaced_;       ///< pending replays may use it
  bool owns_things_ = false;
  /// A capture into it, or into a body in it, became void: the driver has destroyed that (seen with 580.159), and crashes if
  /// the graph around is destroyed. So it stays.
  bool broken_ = false;
  bool torn_ = false;  ///< some nodes of one of the form's are gone
  std::vector<CudaEvent*> recorded_;
  std::vector<Unguarded> unguarded_;
  std::vector<OpenPart> open_parts_;
  /// Ends of parts behind which their streams had nothing yet when the last rank called, and the form's nodes.
  std::vector<std::pair<std::size_t, cudaGraphNode_t>> unused_ends_;
  std::unique_ptr<Recording> capture_;        ///< of the user's streams
  Recording* recording_ = nullptr;            ///< present one
  Nodes before_;                              ///< the tails when the present command was expected
  std::optional<std::uint64_t> fixed_place_;  ///< while a node is replaced
  cudaGraphNode_t end_node_ = nullptr;
};

}  // namespace weir::cuda
