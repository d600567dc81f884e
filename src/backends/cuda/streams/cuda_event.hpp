// Events: a driver's event that is kept with its state, and what its last record means for failures.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "backend.hpp"

namespace weir::cuda {

class CudaQueue;
class FailureState;

struct CudaEvent final : detail::EventState {
  std::atomic<cudaEvent_t> native{nullptr};  ///< taken from the stock at the first record
  std::atomic<bool> recorded{false};
  /// Of the last record, if something in it may fail; with its place under a lock.
  std::atomic<FailureState*> failures{nullptr};
  std::atomic<std::uint64_t> place{0};
  /// Of the last record, for who follows its events in their order; null: nobody knows.
  std::atomic<CudaQueue*> recorder{nullptr};
  /// Stands for its last record in a capture, which is the one with this number: an event of that capture's own, since no
  /// other thread may touch what a capture recorded. Under the core's lock of captures.
  cudaEvent_t fork = nullptr;
  std::uint64_t fork_capture = 0;
  /// Polls of the last record that are not over: the next record is another driver's event, which leaves them theirs.
  std::atomic<int> polls{0};

  // Guarded by the device's lock of events.
  struct Older {
    cudaEvent_t native;
    int polls;
  };
  /// Former natives that are polled.
  std::vector<Older> older;
  /// Former natives that are not: this event's alone, for a record that was overtaken may still hit them.
  std::vector<cudaEvent_t> spares;
  /// That record it in their replays.
  int graphs = 0;
  /// Nobody's but the graphs' and the polls': used again once they are over.
  bool closed = false;

  void close() noexcept override;
  bool is_recorded() override { return recorded.load(std::memory_order_acquire); }
  bool done() override;
  bool passed() override;
  void synchronize(const char* operation, SourceLocation where) override;
  Milliseconds elapsed_since(detail::EventState& start, SourceLocation where) override;
  void signal_after(std::unique_ptr<detail::Signal>& signal, SourceLocation where) override;

  /// The driver's event, made if it was not.
  cudaEvent_t made(SourceLocation where);
  /// The same for a new record.
  cudaEvent_t to_record(SourceLocation where) {
    return polls.load(std::memory_order_acquire) == 0 ? made(where) : replaced(where);
  }

  /// Where the last record is in a stream that may fail before it; null: nowhere.
  struct FailurePlace {
    FailureState* failures = nullptr;
    std::uint64_t place = 0;
  };
  FailurePlace failure_place() const;
  void set_failure_place(const FailurePlace& now);

 private:
  cudaEvent_t replaced(SourceLocation where);
};

/// The last record of an event, which no later record disturbs while this lives. Not for one that graphs record.
class PolledRecord {
 public:
  explicit PolledRecord(CudaEvent& event);
  PolledRecord(PolledRecord&& other) noexcept : event_(std::exchange(other.event_, nullptr)), native_(other.native_) {}
  ~PolledRecord();

  cudaEvent_t get() const { return native_; }

 private:
  CudaEvent* event_;
  cudaEvent_t native_;
};

}  // namespace weir::cuda
