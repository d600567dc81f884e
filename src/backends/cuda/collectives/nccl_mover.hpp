// NCCL as one rank of several processes has it: asked for a collective once all ranks' streams have come to it, in a lane.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collective_call.hpp"

namespace weir::cuda {

class CudaDevice;
class RankBoxes;
struct NcclRank;

/// The streams wait for their words until the lane is through, so that nothing of NCCL's runs that another rank has yet to come to.
class NcclMover final : public detail::RankMover {
 public:
  explicit NcclMover(CudaDevice& device) : device_(device) {}
  /// What NCCL has of it is kept for the next communicator of the same ranks, unless it failed.
  ~NcclMover() override;

  std::string_view name() const override { return "NCCL"; }
  std::string offer(int rank, int size) override;
  std::string make_key(const std::vector<std::string>& offers) override;
  void open(const std::string& key, int rank, int size, std::shared_ptr<detail::RankMove> opened) noexcept override;
  bool moves(const detail::CollectiveRequest& request) const override;
  bool launches(const detail::CollectiveRequest& request) const override;
  RankBoxes& boxes();
  void move(detail::CollectiveCall& call, std::shared_ptr<detail::RankMove> move) noexcept override;
  void abandon() noexcept override;

 private:
  CudaDevice& device_;
  std::shared_ptr<NcclRank> rank_;
  std::atomic<bool> abandoned_{false};
};

/// As Backend::rank_mover() has it: empty without NCCL.
std::string mover_of(const CudaDevice& device);

}  // namespace weir::cuda
