// The host threads that move the chunks of copies, started at first need and shared by all copies of the process.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/memory/staged_copy.hpp"
#include "exit_gate.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// A copy has its own caller's thread, and the others by turns with every other copy that its stream has come to. One whose
/// stream is held has none, and whatever the others do, its caller alone brings it to an end.
/// Thread rule: any thread that may wait.
class CopyThreads {
 public:
  static CopyThreads& instance();

  /// Threads for one copy where there is no other, the caller's among them: WEIR_COPY_THREADS, or by the number of cores.
  static unsigned most();

  /// Brings a copy that was submitted to its end. `idle` is a stream of its device in which nothing ever is: it is asked now
  /// and then whether the device still answers. False: it does not, and the kernel may never end.
  bool drive(StagedCopy& copy, int device, cudaStream_t idle);

  /// A copy between host memories, which is done on return.
  void copy(void* to, const void* from, std::size_t bytes) noexcept;

 private:
  /// A copy with chunks that nobody has taken, and how many threads may take them at once beside its caller's.
  struct Entry {
    Chunks& chunks;
    unsigned wanted;
    bool listed = true;
    std::atomic<unsigned> users{0};  ///< the last that a thread touches of it
  };
  struct Watched {
    int device;
    cudaStream_t idle;
  };
  class Part;
  class Watch;

  void start_movers() noexcept;
  /// So many are awake soon, unless there are fewer.
  void wake_movers(unsigned wanted) noexcept;
  void move_for_all() noexcept;
  void rest() noexcept;
  Entry* take_entry() noexcept;
  void leave(Entry& entry) noexcept;
  void watch_devices() noexcept;

  detail::Mutex mutex_;
  std::vector<Entry*> entries_ WEIR_GUARDED_BY(mutex_);
  std::size_t turn_ WEIR_GUARDED_BY(mutex_) = 0;
  bool movers_started_ WEIR_GUARDED_BY(mutex_) = false;
  std::atomic<unsigned> places_{0};        ///< that movers may take; changed under the lock
  std::atomic<unsigned> awake_{0};         ///< movers that move, or look for a place
  std::atomic<std::uint32_t> wakings_{0};  ///< whoever sleeps waits for another number
  detail::ExitGate gate_;

  detail::Mutex watch_mutex_;
  std::condition_variable_any watching_;
  std::vector<Watched> watched_ WEIR_GUARDED_BY(watch_mutex_);
  bool watch_started_ WEIR_GUARDED_BY(watch_mutex_) = false;
  detail::ExitGate watch_gate_;
};

}  // namespace weir::cuda
