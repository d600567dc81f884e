// How a collective gets to NCCL: into the streams themselves where nothing stands behind its parts yet, else beside them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/staging.hpp"

namespace weir::cuda {

/// One call, and what is done with it. Under the lock of CallOrder.
class Handing {
 public:
  /// `hurry`: others may wait for its end.
  Handing(LastHanded& last, NcclTransport& transport, detail::CollectiveCall& call, bool hurry);
  ~Handing();
  Handing(const Handing&) = delete;
  Handing& operator=(const Handing&) = delete;

  /// Whether the call, which comes next, may be done by the kernels of this one: small sums of one unit, in the same streams.
  bool take_along(detail::CollectiveCall& call);
  /// How many were, behind run().
  std::size_t taken_along() const { return is_with_nccl_ ? along_.size() : 0; }

  enum class Outcome {
    handed,
    waits,   ///< a part is neither deferred nor held: the thread that is about to hold it will say when
    later,   ///< its communicator has to be made, and a stream waits for another call: it is looked again behind that
    is_over  ///< it failed before
  };
  /// Throws weir::Error, and then nothing more of it is done.
  Outcome run();

 private:
  /// Where NCCL does one part, and what it moves for it.
  struct Target {
    std::shared_ptr<NcclPart> part;
    std::size_t rank = 0;
    CudaQueue* lane = nullptr;
    bool taken = false;   ///< the queue's deferred parts are ours
    bool direct = false;  ///< nothing stands behind the part in its stream
    bool beside = false;  ///< in the lane
    bool by_nccl = false;
    cudaStream_t stream = nullptr;
    void* from = nullptr;
    void* to = nullptr;
    std::shared_ptr<StockEvent> end = nullptr;
    CudaQueue& in() const { return beside ? *lane : part->queue(); }
  };
  struct Along {
    detail::CollectiveCall* call;
    std::vector<std::shared_ptr<NcclPart>> parts;  ///< of each target
  };
  bool is_apart(const detail::CollectiveCall& call) const;
  void check_along();
  bool take_parts();
  bool make_what_it_needs();
  bool come_to_part(Target& target);
  void come_behind_all();
  void mark_in_stream(Target& target);
  void mark_in_lane(Target& target);
  void stage();
  void copy_parts();
  void reduce_in_boxes();
  void call_nccl();
  NcclResult call_nccl(const Target& target, const detail::CollectiveShare& share);
  void go_on();
  void note_times(const Target& target) noexcept;
  void watch_ends();

  LastHanded& last_;
  NcclTransport& transport_;
  detail::CollectiveCall& call_;
  const bool hurry_;
  const SourceLocation where_;
  enum class Way {
    nccl,
    boxes,  ///< by kernels of ours: what is small
    copies  ///< by the GPUs' copy engines: what is large
  };
  Way way_ = Way::nccl;
  bool is_with_nccl_ = false;
  std::vector<Target> targets_;
  std::vector<Along> along_;
  std::size_t blocks_ = 0;  ///< of their kernel, if there are any
  Staging staging_;
};

}  // namespace weir::cuda
