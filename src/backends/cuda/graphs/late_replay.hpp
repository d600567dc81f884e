// A launch of a graph with collectives that must not reach the driver yet.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/collectives/nccl_part.hpp"
#include "collective_launches.hpp"
#include "weir/error.hpp"

namespace weir::cuda {

class CudaGraph;
class DriverGraph;
class NcclTransport;
struct LastHanded;

/// A wait for a word in the stream stands for the launch until all that was before it has ended well; what comes behind it in the
/// stream waits for that word. Then it is launched beside the stream. The launch of an instance, as that was by then.
/// Thread rule: under the lock of CallOrder. Each ends by one call of launch() or a drop.
class LateReplay {
 public:
  LateReplay(CudaGraph& graph, std::shared_ptr<NcclPart> part, SourceLocation where);

  const std::shared_ptr<NcclPart>& part() const { return part_; }
  /// Of its collectives.
  const std::vector<NcclTransport*>& transports() const;
  /// What fails here fails the stream.
  void launch(LastHanded& last) noexcept;
  /// It does not run, and the stream goes on, with the failure if there is one.
  void drop(std::shared_ptr<const Error> failure) noexcept;
  /// It waits from here on, as the one with this number of all that is handed over; until launch() or drop().
  static void note(const std::shared_ptr<LateReplay>& replay, std::uint64_t number);
  /// Those with collectives of the transport. Any thread.
  static std::vector<detail::WaitingLaunch> waiting_of(const NcclTransport& transport);
  /// For a drop because a communicator has failed.
  const std::shared_ptr<const Error>& communicator_failed() const { return communicator_failed_; }

 private:
  friend class CudaGraph;
  void attend() noexcept;

  CudaGraph& graph_;  ///< which stays as long as it has late replays
  const std::shared_ptr<NcclPart> part_;
  const SourceLocation where_;
  const std::shared_ptr<const Error> communicator_failed_;
  DriverGraph* driver_graph_ = nullptr;  ///< as the instance is
  cudaGraphExec_t instance_ = nullptr;
  std::uint64_t calls_place_ = 0;  ///< of its host functions; 0: it has none
  std::uint64_t number_ = 0;
  std::atomic<std::int64_t> ready_nanoseconds_{0};
  std::atomic<bool> attended_{false};  ///< somebody is about to look whether its stream has come
};

}  // namespace weir::cuda
