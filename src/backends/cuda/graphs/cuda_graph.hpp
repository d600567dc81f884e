// An instantiated graph on GPUs.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <vector>

#include "backends/cuda/graphs/driver_graph.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;
class GuardedGraph;

/// Thread rule: launches and updates from any thread.
class CudaGraph final : public detail::GraphExecutable {
 public:
  CudaGraph(CudaDevice& device, const detail::GraphForm& form, std::unique_ptr<DriverGraph> graph,
            SourceLocation where);

  void launch(CudaQueue& queue, SourceLocation where);
  /// Deletes graphs that were closed while replays were pending, if nothing is any more. One load if there are none.
  static void collect() noexcept {
    if (buried.load(std::memory_order_relaxed) != 0) bury(nullptr);
  }

  void update(const detail::GraphForm& form, std::size_t node) override;
  bool update_arguments(std::size_t node, detail::Payload& payload, const Launch& launch) override;
  void close() noexcept override;
  std::shared_ptr<const void> beyond_form() override;

 private:
  /// What the driver's nodes of a node of the form do now.
  struct Applied {
    std::shared_ptr<const detail::Payload> payload;
    int device = 0;
    bool enabled = true;
    bool switched_off = false;  ///< by the instance alone: the graph has the work
    bool stale = false;         ///< the instance has other parameters than the graph
    bool astray = false;        ///< the graph has work that no instance took
  };

  struct InstanceDeleter {
    void operator()(cudaGraphExec_t instance) const noexcept;
  };
  using Instance = std::unique_ptr<CUgraphExec_st, InstanceDeleter>;
  /// What the graph was before a change, with replays that may be pending.
  struct Earlier {
    std::unique_ptr<DriverGraph> graph;
    Instance instance;
  };

  ~CudaGraph() override;
  bool set_launch(std::size_t index, int device, const Launch& launch) WEIR_NEEDS(mutex_);
  bool switch_on(std::size_t index, bool on) WEIR_NEEDS(mutex_);
  void update_graph(const detail::GraphForm& form, std::size_t index) WEIR_NEEDS(mutex_);
  void bring_up_to_date(std::size_t but, SourceLocation where) WEIR_NEEDS(mutex_);
  void instantiate(const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  Instance instance_of(DriverGraph& graph, const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  void make_anew(const detail::GraphForm& form, SourceLocation where) WEIR_NEEDS(mutex_);
  GuardedGraph* guarded(SourceLocation where) WEIR_NEEDS(mutex_);
  void note_end(int device, cudaStream_t stream) noexcept WEIR_NEEDS(mutex_);
  bool is_idle() noexcept WEIR_NOT_ANALYSED;  ///< of a closed one: nobody launches it any more
  static void bury(CudaGraph* graph) noexcept;

  static std::atomic<std::size_t> buried;

  CudaDevice& device_;
  std::unique_ptr<DriverGraph> graph_;
  bool foreign_ = false;
  bool conditional_ = false;  ///< has conditional nodes
  bool priorities_ = false;
  detail::Mutex mutex_;
  Instance instance_ WEIR_GUARDED_BY(mutex_);
  std::vector<Applied> applied_ WEIR_GUARDED_BY(mutex_);
  std::vector<Earlier> earlier_ WEIR_GUARDED_BY(mutex_);  ///< of graphs with conditional nodes
  std::unique_ptr<GuardedGraph> guarded_ WEIR_GUARDED_BY(mutex_);
  bool guarded_made_ WEIR_GUARDED_BY(mutex_) = false;  ///< as far as it can be
  bool last_guarded_ WEIR_GUARDED_BY(mutex_) = false;
  CudaQueue* last_queue_ WEIR_GUARDED_BY(mutex_) = nullptr;
  /// Replays of an earlier instance, which the driver does not keep apart from this one's.
  CudaQueue* behind_ WEIR_GUARDED_BY(mutex_) = nullptr;
  /// Behind the last replay, by the device of its stream: for graphs that own things or have conditional nodes, else empty.
  std::vector<cudaEvent_t> done_ WEIR_GUARDED_BY(mutex_);
  int last_device_ WEIR_GUARDED_BY(mutex_) = 0;
  bool launched_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::cuda
