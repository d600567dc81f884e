// A batch of observed commands of one stream.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/command_times.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/time_reports.hpp"
#include "backends/cuda/streams/timed_rooms.hpp"
#include "backends/cuda/streams/times_memory.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// Commands are added and settled by those who submit them, read by the poller's thread once no more can come.
class TimedBatch : public std::enable_shared_from_this<TimedBatch> {
 public:
  static constexpr std::size_t size = TimesMemory::batch_size;

  TimedBatch(CudaQueue& queue, std::shared_ptr<TimedBatch> before)
      : queue_(queue),
        owner_(queue.owner()),
        before_(std::move(before)),
        kernels_(queue.device().times_memory().take_for_batch()) {}

  bool has_kernels() const { return kernels_.on_device != nullptr; }

  // By its CommandTimes, under the lock there.

  /// For that command and those behind it in its room.
  void give_room(std::size_t number, std::unique_ptr<Rooms::Room>& room) { rooms_[number / Rooms::size].swap(room); }
  bool has_room_for(std::size_t number) const { return number < size && rooms_[number / Rooms::size] != nullptr; }
  void set_count(std::size_t count) { final_count_ = count; }
  std::size_t count() const { return final_count_; }

  TimedCommand& command(std::size_t number) { return (*rooms_[number / Rooms::size])[number % Rooms::size]; }
  /// Another core had the one behind it last: who writes to that next shall not wait for it then.
  void fetch_behind(std::size_t number) const {
    const std::size_t behind = number + 1;
    if (behind % Rooms::size != 0) __builtin_prefetch(&(*rooms_[behind / Rooms::size])[behind % Rooms::size], 1);
  }
  detail::KernelTimes* kernel(std::size_t number) const {
    return has_kernels() ? kernels_.on_device + number : nullptr;
  }

  /// Itself, if it is full now. Who has the last place and finds another one that is not settled leaves it: the stream is asked instead.
  std::shared_ptr<TimedBatch> settle(std::size_t number) noexcept {
    std::shared_ptr<TimedBatch> kept;  // nobody else may keep it behind the last place
    if (number + 1 == size && has_settled(number)) kept = shared_from_this();
    settled_[number].store(true, std::memory_order_release);
    return kept;
  }
  void close(StockEvent behind) noexcept {
    if (told()) return;
    const detail::LockGuard guard(mutex_);
    behind_ = std::move(behind);
  }

  // The poller's thread.

  cudaError_t ask() noexcept;
  void tell(cudaError_t answer) noexcept;

  // Any thread.

  bool told() const noexcept { return told_.load(std::memory_order_acquire); }
  /// All of the first ones, of at most so many.
  std::size_t settled(std::size_t most) noexcept {
    std::size_t first = all_settled_.load(std::memory_order_acquire);
    while (first < most && settled_[first].load(std::memory_order_acquire)) ++first;
    all_settled_.store(first, std::memory_order_release);  // one that is smaller than another thread's is right, too
    return first;
  }
  bool has_settled(std::size_t count) noexcept { return settled(count) >= count; }
  /// The host has waited for that many.
  void note_over(std::size_t count) noexcept {
    std::size_t known = known_over_.load(std::memory_order_relaxed);
    while (known < count && !known_over_.compare_exchange_weak(known, count, std::memory_order_release)) {
    }
  }
  /// Somebody waits for what is over by now.
  void want() noexcept { wanted_.store(true, std::memory_order_relaxed); }
  /// What the driver says of the stream as far as it was added; not ready, too, if some of it is being submitted.
  cudaError_t state(std::size_t& count) noexcept;

 private:
  cudaError_t ask_whether_over() noexcept;
  void report() noexcept;
  cudaError_t fetch() noexcept;
  std::vector<RanAt> spans();
  void add_nodes(const TimedCommand& launch, Span& span, std::vector<RanAt>& all);
  Span span_of(std::size_t number);
  template <class Predicate>
  bool any(Predicate&& is) {
    for (std::size_t i = 0; i < all_; ++i) {
      if (is(command(i))) return true;
    }
    return false;
  }

  static constexpr auto least_age = std::chrono::milliseconds(2);

  CudaQueue& queue_;
  const StreamId owner_;
  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  std::atomic<bool> wanted_{false};
  std::shared_ptr<TimedBatch> before_;  ///< is told first
  const TimesMemory::Block kernels_;
  std::array<std::unique_ptr<Rooms::Room>, size / Rooms::size>
      rooms_;                       ///< a command is its submitter's until it is settled
  std::size_t final_count_ = size;  ///< once it is not the newest
  std::array<std::atomic<bool>, size> settled_{};
  std::atomic<std::size_t> all_settled_{0};  ///< up to there all are
  std::atomic<std::size_t> known_over_{0};
  detail::Mutex mutex_;
  StockEvent behind_ WEIR_GUARDED_BY(mutex_);  ///< of a full batch
  std::size_t settled_before_ = 0;             ///< when it was asked last
  std::size_t seen_ = 0;                       ///< commands that are over so far
  std::size_t all_ = 0;                        ///< commands, once it is over
  bool over_ = false;
  bool asks_ = false;                   ///< what time it is on the device
  cudaError_t fetching_ = cudaSuccess;  ///< not ready: until the event is reached
  std::atomic<bool> told_{false};
  StockEvent fetched_;
};

}  // namespace weir::cuda
