#include "backends/cuda/collectives/rank_transport.hpp"

#include <array>
#include <chrono>
#include <exception>
#include <map>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/collectives/rank_boxes.hpp"
#include "backends/cuda/collectives/stream_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "recycled.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

NcclPart& part_of(const detail::CollectivePart& part) { return *static_cast<NcclPart*>(part.own.get()); }

std::shared_ptr<const Error> lost_device(const NcclPart& own) noexcept {
  try {
    return std::make_shared<const Error>(Errc::device_failed, "weir: a collective", own.queue().label(),
                                         "the driver does not say whether the stream has come to it", SourceLocation{});
  } catch (...) {
    return nullptr;  // the others hear of it when the time is over
  }
}

class ToldArrival final : public Reached {
 public:
  explicit ToldArrival(detail::CollectivePart& part) : call_(*part.call), part_(part), ready_(part_of(part).ready) {}
  void reached(cudaError_t answer) noexcept override { note_arrival(part_, answer); }

 private:
  CallRef call_;
  detail::CollectivePart& part_;
  std::shared_ptr<StockEvent> ready_;
};

class Moved final : public Reached {
 public:
  Moved(CallRef call, std::shared_ptr<detail::RankMove> move, std::shared_ptr<StockEvent> end)
      : call_(std::move(call)), move_(std::move(move)), end_(std::move(end)) {}
  void reached(cudaError_t answer) noexcept override {
    if (answer == cudaSuccess) {
      move_->state.store(detail::RankMove::State::done, std::memory_order_release);
    } else {
      move_->fail(std::string("CUDA says: ") + cudaGetErrorString(answer));
    }
    call_->look_again();
  }

 private:
  CallRef call_;
  std::shared_ptr<detail::RankMove> move_;
  std::shared_ptr<StockEvent> end_;
};

/// A device's streams for pieces. Nothing but copies is in them, so none waits for what is not there yet; two, for copies to the device
/// and from it run side by side. They live as long as the process, whatever communicators come and go.
class CopyLanes {
 public:
  using Pair = std::array<CudaQueue*, 2>;

  static CopyLanes& instance() {
    static auto& lanes = *new CopyLanes;
    return lanes;
  }
  /// They are opened without the lock: that may wait. Where two threads open them, the second one gives its own back.
  Pair of(CudaDevice& device, SourceLocation where) {
    {
      const detail::LockGuard guard(mutex_);
      const auto found = lanes_.find(device.index());
      if (found != lanes_.end()) return found->second;
    }
    Opened opened;
    open(device, opened.pair, where);
    const detail::LockGuard guard(mutex_);
    const auto [place, first] = lanes_.emplace(device.index(), opened.pair);
    if (first) opened.pair = {};
    return place->second;
  }

 private:
  /// Those that nobody has taken go back.
  struct Opened {
    Opened() = default;
    ~Opened() {
      for (CudaQueue* const lane : pair) {
        if (lane != nullptr) lane->retire();
      }
    }
    Opened(const Opened&) = delete;
    Opened& operator=(const Opened&) = delete;
    Pair pair{};
  };

  static void open(CudaDevice& device, Pair& pair, SourceLocation where) {
    device.start(where);
    for (CudaQueue*& lane : pair) {
      QueueOptions options;
      options.kind = QueueOptions::Kind::internal;
      options.blocking = false;
      options.priority = lane_priority;
      options.label = "pieces of collectives on " + device.name();
      lane = &device.open_queue(options);
      static_cast<void>(lane->stream(where));
    }
  }

  detail::Mutex mutex_;
  std::map<int, Pair> lanes_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace

void RankTransport::gather() noexcept { RankBoxes::gather(); }
void RankTransport::give_out() noexcept { RankBoxes::give_out(); }

void tell_when_over(CudaQueue& lane, detail::CollectiveCall& call, const std::shared_ptr<detail::RankMove>& move,
                    SourceLocation where) {
  CudaDevice& device = lane.device();
  auto end = detail::make_recycled<StockEvent>(device, false, where);
  check(record_in(lane.stream(where), end->get(), device.index()), "weir: a collective", lane.label(), where);
  const cudaEvent_t event = end->get();
  std::unique_ptr<Reached> reached = std::make_unique<Moved>(CallRef(call), move, std::move(end));
  Poller::instance().add(&lane, device.index(), event, reached);
}

void RankTransport::start(SourceLocation where) { static_cast<void>(CopyLanes::instance().of(device_, where)); }

void RankTransport::copy(detail::CollectiveCall& call, std::span<const detail::RankCopy> copies,
                         std::shared_ptr<detail::RankMove> copied) noexcept {
  try {
    const SourceLocation where = call.share(0).where;
    CudaQueue& lane = *CopyLanes::instance().of(device_, where)[copies_.fetch_add(1, std::memory_order_relaxed) % 2];
    const RoomCall room;
    const DeviceScope scope(device_.index());
    for (const detail::RankCopy& one : copies) {
      check(cudaMemcpyAsync(one.to, one.from, one.bytes, cudaMemcpyDefault, lane.stream(where)), "weir: a collective",
            lane.label(), where);
    }
    tell_when_over(lane, call, copied, where);
  } catch (const std::exception& error) {
    copied->fail(error.what());
  }
}

void RankTransport::within(void (*what)(void*), void* argument) {
  const DeviceScope scope(device_.index());
  what(argument);
}

void RankTransport::let_go(detail::CollectivePart& part) noexcept {
  if (part.own != nullptr) part_of(part).let_go(part.failure);
}

void note_arrival(detail::CollectivePart& part, cudaError_t answer) noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  part.ready_nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                               std::memory_order_release);
  const NcclPart& own = part_of(part);
  std::shared_ptr<const Error> failure = own.failures().failure_at(own.behind);
  if (!failure && answer != cudaSuccess) failure = lost_device(own);
  part.call->arrived(part, std::move(failure));
}

void tell_arrival(detail::CollectivePart& part) {
  const NcclPart& own = part_of(part);
  std::unique_ptr<Reached> reached = std::make_unique<ToldArrival>(part);
  Poller::instance().add(&own, own.queue().device().index(), own.ready->get(), reached);
}

}  // namespace weir::cuda
