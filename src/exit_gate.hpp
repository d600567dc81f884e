// How the library's own threads end with the process: drivers come down in its exit handlers, beside whoever calls them.
#pragma once

#include <condition_variable>

#include "thread_safety.hpp"

namespace weir::detail {

/// Keeps the library's threads out of the driver from before it comes down at exit. Closing waits for who is inside, but only for
/// a moment: what they do may wait. A forked child has none of the threads. Lives as long as the process.
class ExitGate {
 public:
  /// Before the first thread comes. One that is opened behind the end of the others is closed from the start.
  void open();
  /// By a thread, before each thing that it does: false once the process ends. Not twice by one thread without leaving.
  bool enter() noexcept;
  void leave() noexcept;

 private:
  friend void close_gates() noexcept;
  void close() noexcept;

  Mutex mutex_;
  std::condition_variable_any left_;
  unsigned inside_ WEIR_GUARDED_BY(mutex_) = 0;
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
  bool opened_ = false;  ///< under the lock of all gates
  ExitGate* next_ = nullptr;
};

/// For a thread that has called the driver, once the process ends: what the driver keeps of a thread ends with the thread, and must not
/// beside the driver's own end.
[[noreturn]] void stay_until_the_end() noexcept;

}  // namespace weir::detail
