// Communicators of NCCL on their way to quiet, and the end of the process.
#pragma once

#include <condition_variable>

#include "thread_safety.hpp"

namespace weir::cuda {

/// To stop one takes a while, and NCCL and the driver must not come down meanwhile.
class Stops {
 public:
  static Stops& instance();
  /// False: the process is ending, and the communicator ends with it.
  bool begin() noexcept;
  void end() noexcept;
  bool closed() noexcept;

 private:
  Stops();
  void close() noexcept;

  detail::Mutex mutex_;
  std::condition_variable_any ended_;
  int running_ WEIR_GUARDED_BY(mutex_) = 0;
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::cuda
