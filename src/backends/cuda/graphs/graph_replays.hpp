// Host functions of a graph: the driver calls them in each replay, and one that fails skips what is behind it there.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <weir/detail/device_code.hpp>
#include <weir/error.hpp>

#include "backends/cuda/streams/failures.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;

/// The replays of one graph, of which the driver runs one at a time (R153). Places number the host functions in the order
/// of the capture: what fails at one skips the commands behind it in that order, as long as they have not begun.
class Replays {
 public:
  explicit Replays(CudaDevice& device) : device_(device) {}
  ~Replays();
  Replays(const Replays&) = delete;
  Replays& operator=(const Replays&) = delete;

  /// A host function is about to be captured.
  std::uint64_t open_place(SourceLocation where);
  std::uint64_t place() const { return place_; }
  /// For commands behind a place; 0 lies before the first host function. Null in graphs without any.
  detail::DeviceGuard guard(std::uint64_t place) const;
  /// The same for a kernel of so many threads on a device: where they are many, a copy of the word in memory of the graph's.
  detail::DeviceGuard guard_of(std::uint64_t place, std::size_t threads, const CudaDevice& device) const;
  /// Whether there is such a copy. Then each replay sets it first, and lowers it behind each host function.
  bool has_copy() const { return copy_ != nullptr; }
  cudaError_t set_copy(cudaStream_t stream) const;
  cudaError_t lower_copy(cudaStream_t stream) const;

  /// A replay is about to be launched behind `place` of a queue's failures, which it settles.
  void launched(FailureState& queue, std::uint64_t place);
  /// It was not.
  void take_back_launch();

  // By threads of the driver's.
  void begin();
  void end();
  bool skips(std::uint64_t place);
  void fail(std::uint64_t place, std::shared_ptr<const Error> error);

 private:
  struct Launched {
    FailureState* queue;
    std::uint64_t place;
  };
  void set_failed_at(std::uint64_t place) WEIR_NEEDS(mutex_);

  CudaDevice& device_;
  std::uint64_t place_ = 0;
  volatile unsigned long long* flag_ = nullptr;
  volatile unsigned long long* copy_ = nullptr;  ///< of the flag
  detail::Mutex mutex_;
  std::deque<Launched> launched_ WEIR_GUARDED_BY(mutex_);
  std::uint64_t failed_at_ WEIR_GUARDED_BY(mutex_) = FailureState::never;
  std::shared_ptr<const Error> error_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::cuda
