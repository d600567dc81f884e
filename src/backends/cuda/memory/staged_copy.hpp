// Large copies between pageable and device memory: one kernel in the stream, and host threads that fill or empty its ring of
// pinned memory. So such a copy is a command like any other, whoever else submits to the stream, and needs no call of the
// driver's once it is submitted.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weir/error.hpp>

#include "backends/cuda/memory/chunks.hpp"
#include "backends/cuda/memory/staged_kernels.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// What one copy needs beside its memory: a ring, and the kernel's counters. Kept for use again.
class StagingLanes {
 public:
  struct Lane {
    std::uint32_t number;
    StagedWords* words;
    char* ring;
  };

  /// Null where as many copies are on their way as a device takes, or where there is no pinned memory.
  Lane* take(SourceLocation where) noexcept;
  /// One is made by the housekeeping thread: who needs the first one does not wait with the driver (R214).
  void fill_soon() noexcept;
  /// The kernel has ended, or was refused.
  void give(Lane& lane) noexcept;

 private:
  Lane* take_or_make(SourceLocation where);

  detail::Mutex mutex_;
  std::vector<Lane*> free_ WEIR_GUARDED_BY(mutex_);
  std::uint32_t made_ WEIR_GUARDED_BY(mutex_) = 0;
};

/// One copy on its way. Any number of threads may move chunks; it is over when the kernel has ended and, on the way out,
/// everything was moved.
class StagedCopy final : public Chunks {
 public:
  /// `bytes` of device memory at `device`, and as many of the user's at `pageable`.
  StagedCopy(StagingLanes::Lane& lane, void* device, void* pageable, std::size_t bytes, StagedWay way);

  const StagedJob& job() const { return job_; }
  StagedWay way() const { return way_; }
  void note_submitted() { submitted_ = true; }
  bool submitted() const { return submitted_; }

  /// Whether the stream has come to the kernel: pageable memory is not touched before.
  bool begun() const;
  bool move_one() noexcept override;
  bool all_taken() const noexcept override { return next_.load(std::memory_order_relaxed) >= job_.chunks; }
  bool over() const;
  /// A failure before it in its stream: the kernel has moved nothing.
  bool skipped() const;

 private:
  StagedWords& words() const { return *job_.words; }

  StagedJob job_;
  StagedWay way_;
  bool submitted_ = false;
  char* pageable_;
  std::atomic<std::uint32_t> next_{0};
  std::atomic<std::uint32_t> moved_{0};
};

}  // namespace weir::cuda
