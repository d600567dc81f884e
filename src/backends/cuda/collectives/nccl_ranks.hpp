// What NCCL has of a communicator: kept for the next one of the same GPUs when it is gone, stopped where a call of it is stuck.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <weir/error.hpp>

#include "backends/cuda/collectives/nccl_library.hpp"
#include "backends/cuda/collectives/reduce_boxes.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaDevice;
class CudaQueue;

/// The streams of one priority share hardware queues (R182): a lane must not be in one behind a stream that waits for it. Few streams
/// have this priority; those of waits between backends have the greatest.
constexpr int lane_priority = -4;

/// Calls that are with NCCL. Thread rule: any thread.
class CallsWithNccl {
 public:
  void add() noexcept;
  void remove() noexcept;
  std::size_t size() const noexcept;
  /// They are another communicator's from here on.
  void belong_to_another();
  /// Its number.
  std::uint64_t owner() const;
  /// Waits at most so long for all of the owner's to end. True: some have not, and are given up. Their communicators are to be stopped.
  bool give_up_after(std::chrono::milliseconds time, std::uint64_t owner);
  bool given_up() const noexcept;

 private:
  mutable detail::Mutex mutex_;
  std::condition_variable_any none_;
  std::size_t count_ WEIR_GUARDED_BY(mutex_) = 0;
  std::uint64_t owner_ WEIR_GUARDED_BY(mutex_) = 0;
  bool given_up_ WEIR_GUARDED_BY(mutex_) = false;
};

/// Of one communicator at a time. Under the lock of CallOrder and `in_use`, but for `calls`.
struct NcclRanks {
  std::vector<CudaDevice*> devices;
  /// Held by who hands its calls over, or makes it. Who stops it, or asks how it is, takes this lock alone: the order's may be held by
  /// who makes another one, and NCCL waits there for what is to be stopped here.
  detail::Mutex in_use;
  std::vector<NcclLibrary::Comm> comms;  ///< empty: not made yet, or stopped
  std::vector<CudaQueue*> lanes;         ///< for what cannot go to the user's stream itself
  std::vector<void*> scratch;            ///< a few bytes on each device, for barriers
  ReduceBoxes boxes;
  std::atomic<bool> made{false};  ///< all of these are there
  CallsWithNccl calls;
  std::atomic<std::size_t> in_graphs{0};  ///< nodes whose kernels are its communicators'
};

/// For who has such nodes. As long as any are there, nothing of its communicators is freed: NCCL would wait for their end.
std::shared_ptr<const void> keep_for_graph(const std::shared_ptr<NcclRanks>& ranks);

/// Those that a communicator of these GPUs had, or new ones. No call of the driver's or NCCL's.
std::shared_ptr<NcclRanks> take_ranks(std::vector<CudaDevice*> devices);
/// The communicator is gone, and no call of it is with NCCL. NCCL's end of a communicator waits for all that runs on its GPUs, with
/// the driver's own lock held; so none is ended, and the next communicator of the same GPUs has them. Any thread.
void put_away(std::shared_ptr<NcclRanks> ranks) noexcept;

/// The communicator has failed, and no call of it is handed over any more. What is with NCCL ends by itself as soon as the ranks' streams
/// come to it; where one does not, the others' kernels are set free. Returns immediately.
void stop_if_stuck(const std::shared_ptr<NcclRanks>& ranks) noexcept;

/// What NCCL says has gone wrong since they were made; success otherwise. Under `in_use`, or by who has them alone.
NcclResult error_of(const NcclRanks& ranks);

/// Makes what is not there yet; which waits for what runs on the GPUs, and takes long, unless they were another communicator's before.
/// Under the lock of CallOrder and `in_use`. Throws weir::Error.
void make_ranks(NcclRanks& ranks, SourceLocation where);
/// Takes the locks for that.
void make_unless_made(NcclRanks& ranks, SourceLocation where);

/// Throws what NCCL answers.
void check_nccl(NcclResult answer, const char* call, SourceLocation where);

}  // namespace weir::cuda
