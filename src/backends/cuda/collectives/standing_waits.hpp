// NCCL makes a communicator while no stream waits for a call that has yet to be handed over: it waits for all that its GPUs have.
#pragma once

#include <condition_variable>
#include <cstddef>

#include "thread_safety.hpp"

namespace weir::cuda {

/// How many waits for words stand in streams whose calls NCCL does not have yet. Thread rule: any thread.
class StandingWaits {
 public:
  static StandingWaits& instance();

  /// A stream is about to get one. Waits while NCCL makes something, but not in the thread that has it made.
  void come() noexcept;
  /// What was handed over was not, after all. Under the lock of CallOrder, so that nothing is being made.
  void come_back() noexcept;
  /// Its calls are handed over, or over.
  void go() noexcept;
  /// Waits until there are none. More may come behind that.
  void wait_until_gone() noexcept;
  /// How many threads wait in one of these.
  std::size_t waiting() const noexcept;

 private:
  friend class Making;
  bool begin(bool beside_them) noexcept;
  void end() noexcept;

  void wait() noexcept WEIR_NEEDS(mutex_);

  mutable detail::Mutex mutex_;
  std::condition_variable_any changed_;
  std::size_t count_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t waiting_ WEIR_GUARDED_BY(mutex_) = 0;
  bool making_ WEIR_GUARDED_BY(mutex_) = false;
  bool refused_ WEIR_GUARDED_BY(mutex_) = false;  ///< some call waits until there are none
};

/// Something is made by NCCL while this lives, and no more such waits come; unless some stand. Under the lock of CallOrder.
class Making {
 public:
  /// `beside_them`: whether some stand or not. Refused, it is looked again when they are gone.
  explicit Making(bool beside_them) noexcept : begun_(StandingWaits::instance().begin(beside_them)) {}
  ~Making() {
    if (begun_) StandingWaits::instance().end();
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;

  bool begun() const noexcept { return begun_; }

 private:
  const bool begun_;
};

}  // namespace weir::cuda
