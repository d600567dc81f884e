// Collectives among GPUs of this process, by NCCL.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/collectives/nccl_library.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;

/// What NCCL has of a communicator, which may be on its way out when the transport is gone.
struct NcclRanks {
  std::vector<CudaDevice*> devices;
  std::vector<NcclLibrary::Comm> comms;  ///< empty: not made yet
  std::vector<CudaQueue*> lanes;         ///< for what cannot go to the user's stream itself
  std::vector<void*> scratch;            ///< a few bytes on each device, for barriers
};

class NcclTransport final : public detail::CollectiveTransport {
 public:
  explicit NcclTransport(std::vector<CudaDevice*> devices);
  ~NcclTransport() override;

  std::string_view name() const override { return "NCCL"; }
  detail::TransportTraits traits() const override { return {.by_elements = false, .captured = false, .halves = true}; }
  void start(SourceLocation where) override;
  void run(detail::CollectiveCall& call, std::size_t lane) override;
  void let_go(detail::CollectivePart& part) noexcept override;
  void attend(detail::CollectiveCall& call) noexcept override;
  void abandon() noexcept override;

  /// Unlike every other one's, and not 0.
  std::uint64_t tag() const { return tag_; }
  bool abandoned() const { return abandoned_.load(std::memory_order_acquire); }
  NcclRanks& ranks() { return *ranks_; }
  /// Under the lock of CallOrder: makes what start() makes, unless that was done. Throws weir::Error.
  void make_ranks(SourceLocation where);
  /// What NCCL says has gone wrong since; success otherwise.
  NcclResult error() const;

 private:
  const std::uint64_t tag_;
  std::shared_ptr<NcclRanks> ranks_;
  std::atomic<bool> abandoned_{false};
};

/// Throws what NCCL answers.
void check_nccl(NcclResult answer, const char* call, SourceLocation where);

}  // namespace weir::cuda
