// Collectives among GPUs of this process, by NCCL.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/collectives/nccl_library.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "collective_launches.hpp"

namespace weir::cuda {

class CudaDevice;

class NcclTransport final : public detail::LaunchingTransport {
 public:
  explicit NcclTransport(std::vector<CudaDevice*> devices);
  ~NcclTransport() override;

  std::string_view name() const override { return "NCCL"; }
  detail::TransportTraits traits() const override { return {.by_elements = false, .halves = true}; }
  void check_captured(const detail::CollectiveRequest& request, const std::string& object,
                      SourceLocation where) const override;
  void start(SourceLocation where) override;
  void gather() noexcept override;
  void give_out() noexcept override;
  void run(detail::CollectiveCall& call, std::size_t lane) override;
  void let_go(detail::CollectivePart& part) noexcept override;
  void attend(detail::CollectiveCall& call) noexcept override;
  void abandon() noexcept override;
  std::vector<detail::WaitingLaunch> waiting_launches() override;

  /// Unlike every other one's, and not 0.
  std::uint64_t tag() const { return tag_; }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  const std::shared_ptr<NcclRanks>& ranks() { return ranks_; }

 private:
  void ask_nccl(detail::CollectiveCall& call) noexcept;

  const std::uint64_t tag_;
  std::shared_ptr<NcclRanks> ranks_;
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> asking_{false};
};

}  // namespace weir::cuda
