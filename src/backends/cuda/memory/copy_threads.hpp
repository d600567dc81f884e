// The host threads that move the chunks of staged copies, started at first need and shared by all copies of the process.
#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstddef>
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

 private:
  struct Entry {
    StagedCopy& copy;
    unsigned users = 0;
  };
  struct Watched {
    int device;
    cudaStream_t idle;
  };
  class Part;
  class Watch;

  void start_movers() noexcept;
  void move_for_all() noexcept;
  void watch_devices() noexcept;

  detail::Mutex mutex_;
  std::condition_variable_any joined_;
  std::condition_variable_any left_;
  std::vector<Entry*> entries_ WEIR_GUARDED_BY(mutex_);
  std::size_t turn_ WEIR_GUARDED_BY(mutex_) = 0;
  bool movers_started_ WEIR_GUARDED_BY(mutex_) = false;
  detail::ExitGate gate_;

  detail::Mutex watch_mutex_;
  std::condition_variable_any watching_;
  std::vector<Watched> watched_ WEIR_GUARDED_BY(watch_mutex_);
  bool watch_started_ WEIR_GUARDED_BY(watch_mutex_) = false;
  detail::ExitGate watch_gate_;
};

}  // namespace weir::cuda
