// An instantiated graph on GPUs.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "backends/cuda/graphs/dead_instances.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/times_memory.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;
class GuardedGraph;
class LateReplay;
class NcclTransport;
class Watched;
struct LastHanded;

cudaError_t launch_instance(cudaGraphExec_t instance, cudaStream_t stream);

/// Thread rule: launches and updates from any thread.
class CudaGraph final : public detail::GraphExecutable {
 public:
  CudaGraph(CudaDevice& device, const detail::GraphForm& form, std::unique_ptr<DriverGraph> graph,
            SourceLocation where);

  /// `watched`: who wants to know when its kernels run.
  void launch(CudaQueue& queue, SourceLocation where, Watched& watched);
  /// Deletes graphs that were closed while replays were pending, if nothing is any more, and destroys dead instances, if nothing else
  /// is. Two loads if there are none. Not under a lock.
  static void collect() noexcept {
    if (buried.load(std::memory_order_relaxed) != 0) bury(nullptr);
    DeadInstances::collect();
  }

  /// Of its collectives.
  const std::vector<NcclTransport*>& transports() const { return transports_; }
  /// A launch that had to wait: beside its stream, before the word that this waits for. By its LateReplay.
  void hand_over(LateReplay& replay, LastHanded& last);
  void end_late() noexcept;

  void update(const detail::GraphForm& form, std::size_t node) override;
  void update_all(detail::GraphForm& form, std::vector<detail::NodeChange>& changes) override;
  bool update_arguments(std::size_t node, detail::Payload& payload, const void* closure) override;
  void close() noexcept override;
  bool does_more() override;
  std::shared_ptr<const void> beyond_form() override;
  void* driver_copy(SourceLocation where) override;

 private:
  /// A launch of which only the arguments change: everything else that the driver wants to hear of it again.
  struct Told;
  struct ToldDeleter {
    void operator()(Told* told) const noexcept;
  };
  /// What the driver's nodes of a node of the form do now.
  struct Applied {
    const detail::Payload* payload = nullptr;  ///< the form's, or the one that it had before the present change
    int device = 0;
    bool enabled = true;
    bool switched_off = false;                ///< by the instance alone: the graph has the work
    bool stale = false;                       ///< the instance has other parameters than the graph
    bool astray = false;                      ///< the graph has work that no instance took
    detail::KernelTimes* times = nullptr;     ///< where the instance's kernel notes when it ran
    std::unique_ptr<Told, ToldDeleter> told;  ///< after a first update of its arguments, until another change
  };

  struct InstanceDeleter {
    InstanceDeleter() noexcept : conditional(false), device(0), device_of_all(0) {}
    InstanceDeleter(bool has_conditional_nodes, int its_device, int its_nodes_device) noexcept
        : conditional(has_conditional_nodes), device(its_device), device_of_all(its_nodes_device) {}
    bool conditional;
    int device;
    int device_of_all;
    void operator()(cudaGraphExec_t instance) const noexcept;
  };
  using Instance = std::unique_ptr<CUgraphExec_st, InstanceDeleter>;
  /// What the graph was before a change, with replays that may be pending.
  struct Earlier {
    std::unique_ptr<DriverGraph> graph;
    Instance instance;
  };

  /// A queue, and the stream that had it.
  struct Place {
    CudaQueue* queue = nullptr;
    StreamId owner = 0;
  };

  ~CudaGraph() override;
  void update_node(const detail::GraphForm& form, std::size_t index) WEIR_NEEDS(mutex_);
  bool has_call_for(const detail::NodeChange& change) const WEIR_NEEDS(mutex_);
  void update_by_one_instance(detail::GraphForm& form, std::vector<detail::NodeChange>& changes) WEIR_NEEDS(mutex_);
  bool set_launch(std::size_t index, int device, const Launch& launch) WEIR_NEEDS(mutex_);
  bool prepare_to_tell(std::size_t node, const Launch& launch) WEIR_NEEDS(mutex_);
  bool switch_on(std::size_t index, bool on) WEIR_NEEDS(mutex_);
  void update_graph(const detail::GraphForm& form, std::size_t index) WEIR_NEEDS(mutex_);
  void replace(const detail::GraphForm& form, std::size_t index, SourceLocation where) WEIR_NEEDS(mutex_);
  std::vector<std::size_t> switched_off() const WEIR_NEEDS(mutex_);
  void bring_up_to_date(std::size_t but, SourceLocation where) WEIR_NEEDS(mutex_);
  void instantiate(const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  Instance instance_of(DriverGraph& graph, const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  void make_anew(const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  GuardedGraph* guarded(SourceLocation where) WEIR_NEEDS(mutex_);
  int device_of_all() const WEIR_NEEDS(mutex_);
  void make_end(int device, SourceLocation where);
  void note_end(int device, cudaStream_t stream) noexcept WEIR_NEEDS(mutex_);
  bool is_over() noexcept WEIR_NEEDS(mutex_);
  void replay(CudaQueue& queue, SourceLocation where, Watched& watched) WEIR_NEEDS(mutex_);
  // late_replay.cpp
  void note_collectives(const detail::GraphForm& form);
  void launch_in_order(CudaQueue& queue, SourceLocation where, Watched& watched);
  void launch_late(CudaQueue& queue, SourceLocation where, Watched& watched);
  void come_behind_collectives(cudaStream_t stream, const CudaQueue& queue, const LastHanded& last,
                               SourceLocation where);
  void note_last(LastHanded& last, const std::shared_ptr<StockEvent>& end, const CudaQueue* in) const;
  // graph_times.cpp
  detail::DeviceGuard guard_of(std::size_t index, const Launch& launch) const WEIR_NEEDS(mutex_);
  bool tell_driver(std::size_t index) WEIR_NEEDS(mutex_);
  void note_times(bool on) WEIR_NEEDS(mutex_);
  void choose_timed() WEIR_NEEDS(mutex_);
  void forget_earlier() noexcept WEIR_NEEDS(mutex_);
  static void bury(CudaGraph* graph) noexcept;

  static std::atomic<std::size_t> buried;

  CudaDevice& device_;
  std::unique_ptr<DriverGraph> graph_;
  bool foreign_ = false;
  bool conditional_ = false;  ///< has conditional nodes
  bool priorities_ = false;
  std::vector<std::shared_ptr<const detail::Payload>> collectives_;  ///< one of each transport, which they keep
  std::vector<NcclTransport*> transports_;
  std::vector<int> ranks_devices_;  ///< of all their ranks
  detail::FairMutex mutex_;         ///< launches hold it while they wait for room
  Instance instance_ WEIR_GUARDED_BY(mutex_);
  std::vector<Applied> applied_ WEIR_GUARDED_BY(mutex_);
  std::vector<Earlier> earlier_ WEIR_GUARDED_BY(mutex_);  ///< of graphs that were made anew
  std::unique_ptr<GuardedGraph> guarded_ WEIR_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<GuardedGraph>> earlier_guarded_ WEIR_GUARDED_BY(mutex_);
  bool guarded_made_ WEIR_GUARDED_BY(mutex_) = false;  ///< as far as it can be
  bool last_guarded_ WEIR_GUARDED_BY(mutex_) = false;
  std::size_t late_ WEIR_GUARDED_BY(mutex_) =
      0;  ///< launches that the driver does not know of, of this or earlier instances
  std::shared_ptr<StockEvent> replay_end_ WEIR_GUARDED_BY(mutex_);  ///< behind the last one, which was in this queue
  const CudaQueue* replay_end_in_ WEIR_GUARDED_BY(mutex_) = nullptr;
  Place last_queue_ WEIR_GUARDED_BY(mutex_);
  /// Replays of an earlier instance, which the driver does not keep apart from this one's.
  Place behind_ WEIR_GUARDED_BY(mutex_);
  /// Whether the end of each replay is known: of graphs that own things, or whose instances have conditional nodes.
  bool tracked_ WEIR_GUARDED_BY(mutex_) = false;
  /// Behind the last replay, by the device of its stream.
  std::vector<StockEvent> done_ WEIR_GUARDED_BY(mutex_);
  int last_device_ WEIR_GUARDED_BY(mutex_) = 0;
  bool end_known_ WEIR_GUARDED_BY(mutex_) = true;  ///< the event stands for the last replay; else its queue says
  bool launched_ WEIR_GUARDED_BY(mutex_) = false;
  /// Kernels of the instance note when they run: of the launches that somebody watches.
  bool times_noted_ WEIR_GUARDED_BY(mutex_) = false;
  bool all_noted_ WEIR_GUARDED_BY(mutex_) = false;     ///< and nothing else is in it
  bool times_copied_ WEIR_GUARDED_BY(mutex_) = false;  ///< behind the last replay
  std::shared_ptr<const std::vector<std::uint32_t>> timed_nodes_ WEIR_GUARDED_BY(mutex_);  ///< by place in the blocks
  std::vector<TimesMemory::Block> times_ WEIR_GUARDED_BY(mutex_);                          ///< the graph's to its end
};

}  // namespace weir::cuda
