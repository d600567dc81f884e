#include "backends/cuda/streams/command_times.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

using Clock = std::chrono::steady_clock;
using How = TimedCommand::How;

/// Commands are added and settled by those who submit them, read by the poller's thread once no more can come.
class TimedBatch {
 public:
  static constexpr std::size_t size = TimesMemory::block_size;

  TimedBatch(CudaQueue& queue, std::shared_ptr<TimedBatch> before)
      : queue_(queue),
        owner_(queue.owner()),
        before_(std::move(before)),
        kernels_(queue.device().times_memory().take()) {}

  bool has_kernels() const { return kernels_.on_device != nullptr; }

  /// Its number; size: there is no room any more, or no more may come.
  std::size_t add(TimedCommand&& command) noexcept {
    const detail::LockGuard guard(mutex_);
    if (closed_ || count_ == size) return size;
    commands_[count_] = std::move(command);
    return count_++;
  }
  TimedCommand& command(std::size_t number) { return commands_[number]; }
  detail::KernelTimes* kernel(std::size_t number) const {
    return has_kernels() ? kernels_.on_device + number : nullptr;
  }

  bool settle() noexcept {
    const detail::LockGuard guard(mutex_);
    return ++settled_ == size;
  }
  void close(StockEvent behind) noexcept {
    const detail::LockGuard guard(mutex_);
    if (closed_) return;  // all is over already
    behind_ = std::move(behind);
  }
  void close() noexcept {
    const detail::LockGuard guard(mutex_);
    closed_ = true;
  }

  // The poller's thread.

  cudaError_t ask() noexcept;
  void tell(cudaError_t answer) noexcept;

 private:
  struct Told {
    CommandId id;
    StreamId stream;
    Span span;
  };

  cudaError_t ask_whether_over() noexcept;
  cudaError_t fetch() noexcept;
  std::vector<Told> spans();
  Span span_of(std::size_t number);
  bool any(How how) const {
    return std::any_of(all_.begin(), all_.end(), [=](const TimedCommand& one) { return one.how == how; });
  }

  CudaQueue& queue_;
  const StreamId owner_;
  std::shared_ptr<TimedBatch> before_;  ///< is told first
  const TimesMemory::Block kernels_;
  detail::Mutex mutex_;
  std::array<TimedCommand, size> commands_;  ///< each its submitter's until it is settled
  std::size_t count_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t settled_ WEIR_GUARDED_BY(mutex_) = 0;
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;  ///< no more may be added
  StockEvent behind_ WEIR_GUARDED_BY(mutex_);    ///< of a full batch
  std::span<TimedCommand> all_;                  ///< once it is over
  bool over_ = false;
  bool told_ = false;
  Clock::time_point seen_;  ///< when it was over
  StockEvent fetched_;
};

/// Whether all of it is over: then it is closed.
cudaError_t TimedBatch::ask_whether_over() noexcept {
  std::size_t count = 0;
  cudaEvent_t behind = nullptr;
  {
    const detail::LockGuard guard(mutex_);
    if (settled_ < count_) return cudaErrorNotReady;
    count = settled_;
    behind = behind_.get();
  }
  cudaError_t answer = cudaSuccess;
  if (behind != nullptr) {
    answer = cudaEventQuery(behind);
  } else if (queue_.owner() == owner_) {
    answer = queue_.ask_driver();
  }
  // The end of a copy that was over before its call returned is recorded beside the stream.
  for (std::size_t i = 0; i < count && answer == cudaSuccess; ++i) {
    if (commands_[i].end) answer = cudaEventQuery(commands_[i].end.get());
  }
  if (answer != cudaSuccess) return answer;
  const detail::LockGuard guard(mutex_);
  if (count_ != count) return cudaErrorNotReady;
  closed_ = true;
  all_ = {commands_.data(), count};
  return cudaSuccess;
}

cudaError_t TimedBatch::fetch() noexcept {
  if (!has_kernels() || !any(How::kernel)) return cudaSuccess;
  try {
    StockEvent fetched(queue_.device(), false, {});
    const cudaError_t answer = queue_.device().times_memory().fetch(kernels_, all_.size(), fetched.get());
    if (answer == cudaSuccess) fetched_ = std::move(fetched);
    return answer == cudaSuccess ? cudaErrorNotReady : answer;
  } catch (...) {
    return cudaErrorUnknown;  // the driver makes no more events
  }
}

cudaError_t TimedBatch::ask() noexcept {
  if (before_ != nullptr) {
    if (!before_->told_) return cudaErrorNotReady;
    before_.reset();
  }
  if (!over_) {
    const cudaError_t answer = ask_whether_over();
    if (answer != cudaSuccess) return answer;
    over_ = true;
    seen_ = Clock::now();
    return fetch();
  }
  return cudaEventQuery(fetched_.get());
}

void TimedBatch::tell(cudaError_t answer) noexcept {
  told_ = true;
  close();
  if (answer != cudaSuccess) return;  // nobody knows what ran before the device failed
  try {
    auto task = make_task([all = spans()] {
      for (const Told& one : all) detail::report_ran(one.id, one.stream, one.span);
    });
    TaskThread::reporter().post(task);
  } catch (...) {
    // It is not told when they ran.
  }
  if (has_kernels()) queue_.device().times_memory().give(kernels_);
}

std::vector<TimedBatch::Told> TimedBatch::spans() {
  DeviceClock& clock = queue_.device().clock();
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].how == How::kernel && kernels_.on_host[i].end != 0) {
      clock.learn(all_[i].submitted, seen_, kernels_.on_host[i]);
    }
  }
  std::vector<Told> all;
  all.reserve(all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    if (all_[i].refused) continue;
    all.push_back({all_[i].id, all_[i].stream, span_of(i)});
  }
  return all;
}

Span TimedBatch::span_of(std::size_t number) {
  TimedCommand& one = all_[number];
  DeviceClock& clock = queue_.device().clock();
  const auto in_order = [&](const Span& span) { return clock.in_order(one.stream, one.submitted, seen_, span); };
  if (one.how == How::kernel && kernels_.on_host[number].end != 0) {
    return in_order(clock.of_kernel(kernels_.on_host[number]));
  }
  if (one.how == How::events && one.begin && one.end) {
    return in_order(clock.between(one.submitted, seen_, one.begin.get(), one.end));
  }
  if (one.how == How::host && one.host != nullptr) {
    const Clock::rep end = one.host->end.load(std::memory_order_acquire);
    const Clock::rep begin = one.host->begin.load(std::memory_order_relaxed);
    if (end != 0) return in_order({Clock::time_point(Clock::duration(begin)), Clock::time_point(Clock::duration(end))});
  }
  return clock.at_the_end(one.stream, one.submitted);
}

TimedCommand& TimedPlace::command() const { return batch_->command(number_); }
detail::KernelTimes* TimedPlace::kernel() const { return batch_->kernel(number_); }
bool TimedPlace::settle() noexcept { return batch_->settle(); }
void TimedPlace::close(StockEvent behind) noexcept { batch_->close(std::move(behind)); }

namespace {

class BatchOver final : public Reached {
 public:
  explicit BatchOver(std::shared_ptr<TimedBatch> batch) : batch_(std::move(batch)) {}
  cudaError_t ask() noexcept override { return batch_->ask(); }
  void reached(cudaError_t answer) noexcept override { batch_->tell(answer); }

 private:
  const std::shared_ptr<TimedBatch> batch_;
};

}  // namespace

TimedPlace CommandTimes::add(CudaQueue& queue, TimedCommand&& command) noexcept {
  try {
    const detail::LockGuard guard(mutex_);
    for (;;) {
      if (batch_ != nullptr) {
        const std::size_t number = batch_->add(std::move(command));
        if (number != TimedBatch::size) return {batch_, number};
      }
      auto made = std::make_shared<TimedBatch>(queue, batch_);
      std::unique_ptr<Reached> over = std::make_unique<BatchOver>(made);
      Poller::instance().add(this, queue.device().index(), nullptr, over, Poller::Hurry::no);
      batch_ = std::move(made);
    }
  } catch (...) {
    return {};
  }
}

void CommandTimes::begin_anew() noexcept {
  const detail::LockGuard guard(mutex_);
  if (batch_ != nullptr) batch_->close();
}

}  // namespace weir::cuda
