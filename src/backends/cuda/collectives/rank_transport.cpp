#include "backends/cuda/collectives/rank_transport.hpp"

#include <chrono>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"

namespace weir::cuda {

namespace {

NcclPart& part_of(const detail::CollectivePart& part) { return *static_cast<NcclPart*>(part.own.get()); }

class ToldArrival final : public Reached {
 public:
  explicit ToldArrival(detail::CollectivePart& part) : call_(*part.call), part_(part), ready_(part_of(part).ready) {}
  void reached(cudaError_t answer) noexcept override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    part_.ready_nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                                  std::memory_order_release);
    const NcclPart& own = part_of(part_);
    std::shared_ptr<const Error> failure = own.failures().failure_at(own.behind);
    if (!failure && answer != cudaSuccess) failure = lost_device(own);
    call_->arrived(part_, std::move(failure));
  }

 private:
  static std::shared_ptr<const Error> lost_device(const NcclPart& own) noexcept {
    try {
      return std::make_shared<const Error>(Errc::device_failed, "weir: a collective", own.queue().label(),
                                           "the driver does not say whether the stream has come to it",
                                           SourceLocation{});
    } catch (...) {
      return nullptr;  // the others hear of it when the time is over
    }
  }

  CallRef call_;
  detail::CollectivePart& part_;
  std::shared_ptr<StockEvent> ready_;
};

}  // namespace

void RankTransport::let_go(detail::CollectivePart& part) noexcept {
  if (part.own != nullptr) part_of(part).let_go(part.failure);
}

void tell_arrival(detail::CollectivePart& part) {
  const NcclPart& own = part_of(part);
  std::unique_ptr<Reached> reached = std::make_unique<ToldArrival>(part);
  Poller::instance().add(&own, own.queue().device().index(), own.ready->get(), reached);
}

}  // namespace weir::cuda
