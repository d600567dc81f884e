// Learns that events are reached by asking the driver, on a thread of its own. So no host function of the library's stands
// in a stream: behind a wait they block the submitting thread after 56 (R213), and the driver's one thread for them may call
// nothing (R88).
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>

#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// What is to happen when an event is reached. Owns the event, or sees to it that nothing records it until then.
class Reached {
 public:
  virtual ~Reached() = default;
  /// Called once, by the poller's thread, which must not wait: see may_call_driver(). `answer`: success, or why the driver
  /// does not say any more.
  virtual void reached(cudaError_t answer) noexcept = 0;
  /// What the driver says of it now, in calls that do not wait. By the poller's thread, with the device current.
  virtual cudaError_t ask() noexcept { return cudaEventQuery(event_); }

 private:
  friend class Poller;
  friend class Polls;
  const void* order_ = nullptr;
  int device_ = 0;
  bool hurry_ = true;
  cudaEvent_t event_ = nullptr;
  Reached* next_ = nullptr;
};

/// One thread for the process. It sleeps soon when nothing is pending. What was added last it asks about at once, then every few
/// microseconds, and less and less often, down to once in most_pause: a stream that waits for an event of another backend
/// goes on as soon as with a callback of the driver's, and a long wait costs a few percent of a core.
/// Thread rule: any thread. Nobody waits: no call of the driver's is made with a lock held.
class Poller {
 public:
  static constexpr auto most_pause = std::chrono::microseconds(100);

  static Poller& instance();

  enum class Hurry : std::uint8_t {
    yes,
    no,  ///< nobody waits for it: asked for at leisure
  };
  /// Calls `then` when the last record of the event is reached, or what it asks for itself. Events of one order, mostly a queue, are reached in the order
  /// in which they are added but for a few that threads add at once; of these the first is asked for. Takes `then` unless it
  /// throws, for want of a thread.
  void add(const void* order, int device, cudaEvent_t event, std::unique_ptr<Reached>& then, Hurry hurry = Hurry::yes);

 private:
  friend class Polls;
  using Time = std::chrono::steady_clock::time_point;
  void start();
  void serve() noexcept;
  /// Until something was added. Awake for so long, and not fast asleep for so long.
  void wait_for_more(Time awake_until, Time naps_until) noexcept;

  // All sequentially consistent: who adds finds that the thread sleeps, or it finds what was added.
  std::atomic<Reached*> inbox_{nullptr};  ///< the newest first
  std::atomic<bool> naps_{false};
  std::atomic<bool> sleeps_{false};
  std::atomic<bool> started_{false};
  detail::Mutex mutex_;
  std::condition_variable_any added_;
  detail::ExitGate gate_;
};

}  // namespace weir::cuda
