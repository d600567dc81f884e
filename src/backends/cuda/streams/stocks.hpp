// Streams, events and words of one device that are ready before anybody needs one: while a thread waits for room in a full
// stream, the driver makes none (R214).
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

#include "backend.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;

/// What is taken is made again by the housekeeping thread once half of a stock is gone. Who takes one of the last quarter makes another
/// one, unless a thread waits for room now (R214); who comes when there is none left makes one, and may wait with the driver. No call of the driver's is made with a lock held.
/// Thread rule: any thread. Takes by threads that may call the driver; gives need no call.
class Stocks {
 public:
  static constexpr std::size_t events = 512;        ///< that order work
  static constexpr std::size_t timed_events = 512;  ///< that measure time
  static constexpr std::size_t streams = 64;        ///< blocking ones, and as many non-blocking ones, of priority 0
  static constexpr std::size_t other_streams = 8;   ///< of any other kind, once one of it was asked for
  static constexpr std::size_t flags = 512;

  explicit Stocks(CudaDevice& device) : device_(device) {}

  /// With the device current, when it starts.
  void fill(SourceLocation where);

  cudaEvent_t take_event(bool timed, SourceLocation where);
  /// One that nobody waits for any more but the driver: it may be recorded anew at once.
  void give_event(cudaEvent_t event, bool timed) noexcept;

  cudaStream_t take_stream(bool blocking, int priority, const char* operation, const std::string& object,
                           SourceLocation where);
  /// One in which nothing is pending.
  void give_stream(cudaStream_t stream, bool blocking, int priority) noexcept;

  /// A word that host functions and kernels share.
  volatile unsigned long long* take_flag(SourceLocation where);
  void give_flag(volatile unsigned long long* flag) noexcept;

 private:
  struct StreamsOfKind {
    bool blocking;
    int priority;
    std::vector<cudaStream_t> ready;
    std::size_t depth() const { return priority == 0 ? streams : other_streams; }
  };
  static std::size_t depth_of_events(bool timed) { return timed ? timed_events : events; }
  cudaError_t make_event(bool timed, cudaEvent_t& event) const;
  cudaError_t make_stream(bool blocking, int priority, cudaStream_t& stream) const;
  bool few_flags();
  cudaError_t make_flags();
  cudaError_t make_room_for_streams(std::vector<cudaStream_t>& kept) const;
  StreamsOfKind& of_kind(bool blocking, int priority) WEIR_NEEDS(mutex_);
  void leave_event(bool timed) noexcept;
  void leave_stream(bool blocking, int priority) noexcept;
  void refill_soon() noexcept;
  void refill() noexcept;
  cudaError_t refill_events(bool timed);
  bool refill_a_stream();

  CudaDevice& device_;
  std::atomic<bool> refilling_{false};
  detail::Mutex mutex_;
  /// [timed]; used in turn, so that who has just looked up the event of a record finds that it was reached, and not another record
  std::array<std::deque<cudaEvent_t>, 2> events_ WEIR_GUARDED_BY(mutex_);
  std::deque<StreamsOfKind> streams_ WEIR_GUARDED_BY(mutex_);
  std::vector<volatile unsigned long long*> flags_ WEIR_GUARDED_BY(mutex_);
};

/// An event out of a stock, while this lives.
class StockEvent {
 public:
  StockEvent() = default;
  StockEvent(CudaDevice& device, bool timed, SourceLocation where);
  StockEvent(StockEvent&& other) noexcept
      : device_(other.device_), event_(std::exchange(other.event_, nullptr)), timed_(other.timed_) {}
  StockEvent& operator=(StockEvent&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(event_, other.event_);
    std::swap(timed_, other.timed_);
    return *this;
  }
  ~StockEvent();

  cudaEvent_t get() const { return event_; }
  explicit operator bool() const { return event_ != nullptr; }
  bool timed() const { return timed_; }

 private:
  CudaDevice* device_ = nullptr;
  cudaEvent_t event_ = nullptr;
  bool timed_ = false;
};

}  // namespace weir::cuda
