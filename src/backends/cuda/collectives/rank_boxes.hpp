// all_reduce of little among GPUs of several processes of one host: a kernel in each rank's stream, which waits there for the others'.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <weir/detail/device_code.hpp>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_first_calls.hpp"
#include "backends/cuda/collectives/reduce_kernels.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "collective_call.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class NcclPart;

/// The boxes of all ranks as one rank has them. Their memory is the process's until the end: others write to it when they like.
class RankBoxes {
 public:
  RankBoxes();

  /// With all ranks. None has any where one does not reach the others' memory, as on another host.
  void open(const FirstCaller& opener, SourceLocation where);
  /// Whether a call is for them; for all ranks the same. Any thread.
  bool suit(const detail::CollectiveRequest& request) const;

  /// What this one's failures are tagged with.
  std::uint64_t tag() const { return tag_; }
  struct Place {
    CudaQueue& queue;
    cudaStream_t stream;
    std::shared_ptr<NcclPart> part;
    detail::DeviceGuard guard;  ///< of what comes before it in the stream
    bool behind_collective;
  };
  /// Puts the kernel of this rank into the stream, behind that of its call before. It ends when all ranks' have come, or when the part is
  /// let go. By one thread at a time. Throws weir::Error before the kernel is there.
  void launch(detail::CollectiveCall& call, const Place& place);

  /// This thread makes calls that are one unit, up to give_out(). Those in a row in one stream get one kernel, which does them as if each
  /// had one of its own: the other ranks need not group alike. Of all communicators.
  static void gather() noexcept;
  static void give_out() noexcept;
  /// The kernel of those that this thread has gathered so far, before something else comes behind them.
  static void launch_gathered() noexcept;

  /// A kernel ended before all ranks' had come: nobody may use them any more.
  bool spoiled() const { return spoiled_->load(std::memory_order_acquire); }

 private:
  /// What a kernel does; its caller keeps the call and the part.
  struct Share {
    detail::CollectiveCall& call;
    const std::shared_ptr<NcclPart>& part;
    BoxPiece piece;  ///< where the elements lie, unless they are staged
  };
  struct Gathered {
    CallRef call;
    std::shared_ptr<NcclPart> part;
    BoxPiece piece;
  };
  bool exchange(const FirstCaller& opener, void* box, SourceLocation where);
  bool joins_row(const detail::CollectiveCall& call, const Place& place) const WEIR_NEEDS(mutex_);
  void launch_row() noexcept WEIR_NEEDS(mutex_);
  /// One kernel of all of them, in their order.
  void enter(std::span<const Share> shares, const Place& place) WEIR_NEEDS(mutex_);
  static cudaError_t launch(const BoxReduce& job, std::span<const Share> shares, int device, cudaStream_t stream);

  const std::uint64_t tag_;
  const std::shared_ptr<std::atomic<bool>> spoiled_ = std::make_shared<std::atomic<bool>>(false);
  std::atomic<bool> open_{false};
  void* boxes_[most_box_ranks] = {};
  std::uint32_t rank_ = 0;
  std::uint32_t ranks_ = 0;

  detail::Mutex mutex_;
  LastHanded::OfDevice last_ WEIR_GUARDED_BY(mutex_);
  // What a thread has gathered.
  std::vector<Gathered> row_ WEIR_GUARDED_BY(mutex_);
  std::optional<Place> row_place_ WEIR_GUARDED_BY(mutex_);  ///< of its first
  const void* row_by_ WEIR_GUARDED_BY(mutex_) = nullptr;    ///< the thread
};

}  // namespace weir::cuda
