// A rank whose other ranks are in other processes: its streams wait for a word, and all else is the core's and a link's.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <memory>
#include <span>
#include <string_view>

#include "collective_copies.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;

class RankTransport final : public detail::CopyingTransport {
 public:
  explicit RankTransport(CudaDevice& device) : device_(device) {}
  std::string_view name() const override { return "pinned memory"; }
  detail::TransportTraits traits() const override {
    return {.by_elements = false, .captured = false, .halves = true, .reaches_memory = false};
  }
  void run(detail::CollectiveCall&, std::size_t) override {}  // the core does it
  void let_go(detail::CollectivePart& part) noexcept override;
  void gather() noexcept override;
  void give_out() noexcept override;
  /// Makes the streams that copies go through.
  void start(SourceLocation where) override;
  void copy(detail::CollectiveCall& call, std::span<const detail::RankCopy> copies,
            std::shared_ptr<detail::RankMove> copied) noexcept override;
  void within(void (*what)(void*), void* argument) override;

 private:
  CudaDevice& device_;
  std::atomic<unsigned> copies_{0};
};

/// What is in the lane by now is `move`: it is over when the lane is through with that, and the call's engine is told. Throws weir::Error.
void tell_when_over(CudaQueue& lane, detail::CollectiveCall& call, const std::shared_ptr<detail::RankMove>& move,
                    SourceLocation where);

/// A part's stream has come to it, as the driver says.
void note_arrival(detail::CollectivePart& part, cudaError_t answer) noexcept;
/// Tells the part's call when its stream has come to it, which is a wait there by now.
void tell_arrival(detail::CollectivePart& part);

}  // namespace weir::cuda
