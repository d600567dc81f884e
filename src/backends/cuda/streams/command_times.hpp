// When the observed commands of a stream ran, found out beside it: what they note is collected in batches, which are told once
// the driver says that they are over. So observing puts nothing into a stream where kernels and host functions note their own
// times, but for an event behind each batch that is full (docs/observers.md).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <weir/detail/device_code.hpp>
#include <weir/op.hpp>

#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/times_memory.hpp"
#include "short_lock.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class TimedBatch;

/// Of a host function, by itself. Zero: it was skipped, or has not run.
struct HostTimes {
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::rep> begin{0};
  std::atomic<Clock::rep> end{0};

  /// While it runs.
  class Scope {
   public:
    explicit Scope(HostTimes* times) : times_(times) {
      if (times_ != nullptr) times_->begin.store(Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    }
    ~Scope() {
      if (times_ != nullptr) times_->end.store(Clock::now().time_since_epoch().count(), std::memory_order_release);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    HostTimes* const times_;
  };
};

/// Of a rank's part of a collective, which may be given to the device long after its call: then by who gives it.
class PartTimes {
 public:
  /// Two events that are timed: the stream has come to the part, and the device is through. Once, before the stream goes on.
  void set(std::shared_ptr<StockEvent> begin, std::shared_ptr<StockEvent> end) noexcept {
    const detail::LockGuard guard(mutex_);
    begin_ = std::move(begin);
    end_ = std::move(end);
  }
  struct Events {
    std::shared_ptr<StockEvent> begin;  ///< null: it failed, or nobody knows when it ran
    std::shared_ptr<StockEvent> end;
  };
  Events events() noexcept {
    const detail::LockGuard guard(mutex_);
    return {begin_, end_};
  }

 private:
  detail::Mutex mutex_;
  std::shared_ptr<StockEvent> begin_ WEIR_GUARDED_BY(mutex_);
  std::shared_ptr<StockEvent> end_ WEIR_GUARDED_BY(mutex_);
};

/// Of a replay of a graph: what its kernels noted, copied behind it.
struct ReplayTimes {
  std::shared_ptr<const std::vector<std::uint32_t>> nodes;  ///< by place in the blocks
  std::vector<TimesMemory::Block> blocks;
};

/// One command of a batch.
struct TimedCommand {
  enum class How : std::uint8_t {
    no_time,
    kernel,
    host,
    events,
    part,  ///< of a collective among GPUs of this process
    nodes  ///< a replay of kernels that all note their times
  };

  CommandId id = 0;
  StreamId stream = 0;
  std::chrono::steady_clock::time_point submitted;
  How how = How::no_time;
  bool refused = false;                        ///< the call threw
  std::chrono::steady_clock::time_point seen;  ///< over; the poller's
  std::shared_ptr<HostTimes> host;
  std::shared_ptr<PartTimes> part;
  std::unique_ptr<ReplayTimes> replay;
  StockEvent begin;                    ///< of two events; without, nobody knows when it ran
  const StockEvent* behind = nullptr;  ///< instead of it: the end of the command before, which it began right behind
  StockEvent end;

  /// Null: there is none.
  cudaEvent_t begin_event() const { return behind != nullptr ? behind->get() : begin.get(); }
};

/// A command's place in its batch, which stays there until all its places are settled; empty: nobody watches it.
class TimedPlace {
 public:
  TimedPlace() = default;
  TimedPlace(TimedBatch& batch, std::size_t number) : batch_(&batch), number_(number) {}

  explicit operator bool() const { return batch_ != nullptr; }
  bool operator==(const TimedPlace&) const = default;
  TimedCommand& command() const;
  /// Where its kernel notes when it ran; null: not there.
  detail::KernelTimes* kernel() const;
  /// It is in the stream, or was refused. From here on others read it, and the place is empty. The batch, if it is full now and
  /// nothing of it is on its way into the stream any more; else null.
  std::shared_ptr<TimedBatch> settle() noexcept;

 private:
  TimedBatch* batch_ = nullptr;
  std::size_t number_ = 0;
};

/// The event stands behind all of a batch that is full.
void close(TimedBatch& batch, StockEvent behind) noexcept;

/// Of one queue. Thread rule: any thread.
class CommandTimes {
 public:
  struct Added {
    TimedPlace place = {};
    /// Of a command of its batch whose end is the last that takes time in the stream; else empty.
    TimedPlace before = {};
  };
  /// A place behind those that were taken before, for a command of which nothing is known yet. Empty without memory, or without
  /// a thread to ask.
  Added add(CudaQueue& queue, bool takes_time) noexcept;
  /// The stream's last is the event of the command's end, unless something was added behind it.
  void note_end(const TimedPlace& place) noexcept;
  /// The same for a kernel that is to note its own times; empty, too, where it has no memory for them.
  TimedPlace add_kernel(CudaQueue& queue) noexcept;
  /// The queue has another owner.
  void begin_anew() noexcept;
  /// Where the queue's commands ended when the host began to wait for them.
  struct End {
    std::shared_ptr<TimedBatch> batch = nullptr;
    std::size_t count = 0;
    /// The host has waited: they are over, whatever the stream has got since.
    void reached() const noexcept;
  };
  /// Empty, too, while another thread submits one.
  End end() noexcept;
  /// Of all queues: what is over by now is told when this returns.
  static void tell_what_is_over() noexcept;

  // For its batches.

  /// How many commands it has. Of the newest that may change.
  std::size_t count_of(const TimedBatch& batch) noexcept;
  /// No more are added. False: it has more by now.
  bool close(const TimedBatch& batch, std::size_t count) noexcept;
  void close(const TimedBatch& batch) noexcept;

 private:
  /// Whether the newest batch has a place for one more.
  bool has_room() const WEIR_NEEDS(lock_);
  TimedPlace take_place() WEIR_NEEDS(lock_);
  /// Then somebody may take it before. False: without memory, or without a thread to ask.
  bool make_room(CudaQueue& queue) noexcept;
  void begin_batch(CudaQueue& queue, std::shared_ptr<TimedBatch> before) WEIR_NEEDS(making_);

  std::atomic<bool> any_{false};                              ///< a batch
  detail::Mutex making_;                                      ///< of who makes room
  detail::ShortLock lock_;                                    ///< behind the other one
  std::shared_ptr<TimedBatch> batch_ WEIR_GUARDED_BY(lock_);  ///< the newest; null before the first
  std::size_t count_ WEIR_GUARDED_BY(lock_) = 0;              ///< of the newest
  bool closed_ WEIR_GUARDED_BY(lock_) = true;                 ///< the newest takes no more
  TimedPlace last_end_ WEIR_GUARDED_BY(lock_);  ///< of the newest; empty: its last command has no event behind it
};

}  // namespace weir::cuda
