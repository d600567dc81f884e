// Observed commands: when they ran, by events of the driver's on the host's clock.
#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/device_clock.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

namespace {

constexpr const char* observing = "weir: observing a command";

class Ran final : public Reached {
 public:
  Ran(CudaDevice& device, CommandId command, StreamId stream, std::chrono::steady_clock::time_point submitted,
      StockEvent begin, StockEvent end)
      : device_(device),
        command_(command),
        stream_(stream),
        submitted_(submitted),
        begin_(std::move(begin)),
        end_(std::move(end)) {}
  cudaEvent_t event() const { return end_.get(); }

  void reached(cudaError_t answer) noexcept override {
    if (answer != cudaSuccess) return;  // nobody knows what ran before the device failed
    const Span span = device_.clock().span_of(stream_, submitted_, begin_.get(), end_);
    try {
      auto task =
          make_task([command = command_, stream = stream_, span] { detail::report_ran(command, stream, span); });
      TaskThread::reporter().post(task);
    } catch (...) {
      // It is not told when the command ran.
    }
  }

 private:
  CudaDevice& device_;
  const CommandId command_;
  const StreamId stream_;
  const std::chrono::steady_clock::time_point submitted_;
  StockEvent begin_;
  StockEvent end_;
};

}  // namespace

Watched::Watched(CudaQueue& queue, const Command& command)
    : queue_(queue), command_(command.id), is_over_(detail::returns_when_over(command.op)), where_(command.where) {
  if (command_ == 0 || queue.capture() != nullptr) return;
  submitted_ = std::chrono::steady_clock::now();
  const cudaStream_t stream = queue.stream(where_);
  StockEvent begin(queue.device(), true, where_);
  const DeviceScope scope(queue.device().index());
  check(cudaEventRecord(begin.get(), stream), observing, queue.label(), where_);
  begin_ = std::move(begin);
}

void Watched::end() {
  if (!begin_) return;
  CudaDevice& device = queue_.device();
  // The command is in its stream: what goes wrong here is no failure of its call.
  try {
    StockEvent end(device, true, where_);
    {
      const DeviceScope scope(device.index());
      const cudaStream_t stream = is_over_ ? device.side_stream(where_) : queue_.stream(where_);
      check(cudaEventRecord(end.get(), stream), observing, queue_.label(), where_);
    }
    auto ran = std::make_unique<Ran>(device, command_, queue_.owner(), submitted_, std::move(begin_), std::move(end));
    const cudaEvent_t event = ran->event();
    std::unique_ptr<Reached> reached = std::move(ran);
    Poller::instance().add(&queue_, device.index(), event, reached, Poller::Hurry::no);
  } catch (...) {
    // It is not told when the command ran.
  }
}

}  // namespace weir::cuda
