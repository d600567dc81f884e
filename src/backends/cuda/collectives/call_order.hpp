// The one order in which collectives of this process are handed to NCCL, on all GPUs and for all communicators.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "backend.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

class CudaQueue;
class LateReplay;
class NcclPart;
class NcclTransport;

/// Counted, as the core counts calls.
class CallRef {
 public:
  CallRef() = default;
  explicit CallRef(detail::CollectiveCall& call) : call_(&call) { call.retain(); }
  CallRef(CallRef&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  CallRef& operator=(CallRef&& other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  ~CallRef() {
    if (call_ != nullptr) call_->release();
  }
  detail::CollectiveCall& operator*() const { return *call_; }
  detail::CollectiveCall* operator->() const { return call_; }

 private:
  detail::CollectiveCall* call_ = nullptr;
};

/// The last collective that each device was handed.
struct LastHanded {
  struct OfDevice {
    std::uint64_t tag = 0;  ///< the communicator's
    bool by_nccl = true;    ///< else it moved nothing for that rank, and NCCL does not know of it
    std::shared_ptr<StockEvent> end;
    const CudaQueue* in = nullptr;  ///< where its end stands; null: in another stream than its devices
    StreamId owner = 0;             ///< of that queue, then
    /// What comes into the queue now is behind it.
    bool stands_in(const CudaQueue& queue) const noexcept;
  };
  std::vector<OfDevice> devices;
};

/// NCCL's kernels wait for each other across GPUs, so all GPUs run them in one order: that in which they are handed over. What
/// may still come to nothing, because something before it in a stream may fail, or waits for ranks that have not called, is
/// handed over when that is settled; until then it holds up later calls of its own lane alone.
/// Thread rule: any thread. NCCL is called under its lock.
class CallOrder {
 public:
  static CallOrder& instance();

  detail::Mutex& lock() WEIR_RETURNS(mutex_) { return mutex_; }
  /// Made by who takes the lock to hand over or to make something.
  class Mine {
   public:
    Mine() noexcept { mine_ = true; }
    ~Mine() { mine_ = false; }
    Mine(const Mine&) = delete;
    Mine& operator=(const Mine&) = delete;
  };
  /// Whether this thread did.
  static bool is_mine() noexcept { return mine_; }
  /// All ranks have called.
  void add(NcclTransport& transport, detail::CollectiveCall& call, std::size_t lane);
  /// What this thread adds up to give_out() may be handed over together.
  static void gather() noexcept { ++gathers_; }
  void give_out() noexcept;
  /// The launch of a graph with collectives of some transports, a call of all their ranks.
  void add(std::shared_ptr<LateReplay> replay);
  /// Whether something of them waits, behind which such a launch comes.
  bool any_wait(const std::vector<NcclTransport*>& transports) const WEIR_NEEDS(mutex_);
  LastHanded& last() WEIR_NEEDS(mutex_) { return last_; }
  /// Something that some may wait for has come.
  void look() noexcept;
  /// The same by another thread, if any wait.
  void look_if_any_wait() noexcept;
  /// A thread may have gathered some, and wait.
  void look_if_any_are_gathered() noexcept;

  /// For what needs no answer, and waits for nothing but this lock.
  static TaskThread& worker();
  /// For questions whether streams have come to their parts, which timeouts need: it takes no lock that is held long.
  static TaskThread& looker();
  /// For what may wait in the driver.
  static TaskThread& holder();

 private:
  struct Waiting {
    NcclTransport* transport;  ///< the call keeps it alive
    CallRef call;
    std::size_t lane;
    std::shared_ptr<LateReplay> replay = nullptr;      ///< then there is no call
    const int* gatherer = nullptr;                     ///< the thread that has yet to give it out
    std::chrono::steady_clock::time_point until = {};  ///< for so long; that thread may wait for what comes behind it
  };
  /// Lanes whose first waits.
  class Closed;
  enum class Answer {
    handed,
    waits,
    is_full,  ///< it waits for the end of calls before it, which looks again
    is_over
  };

  void pass() WEIR_NEEDS(mutex_);
  void give_out(Waiting& waiting) WEIR_NEEDS(mutex_);
  void give_out_own() WEIR_NEEDS(mutex_);
  /// Whether its thread may still give it out.
  bool is_gathered(Waiting& waiting) WEIR_NEEDS(mutex_);
  /// `with_it`: how many behind it were handed over, too.
  Answer try_to_hand(std::deque<Waiting>::iterator at, std::size_t& with_it) WEIR_NEEDS(mutex_);
  Answer try_to_launch(LateReplay& replay) WEIR_NEEDS(mutex_);
  static void watch(const Waiting& waiting);
  static void watch(const std::shared_ptr<NcclPart>& part);

  inline static thread_local bool mine_ = false;
  inline static thread_local int gathers_ = 0;
  detail::Mutex mutex_;
  std::deque<Waiting> waiting_ WEIR_GUARDED_BY(mutex_);
  LastHanded last_ WEIR_GUARDED_BY(mutex_);
  std::uint64_t last_number_ WEIR_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> waiting_count_{0};  ///< but for those that are gathered
  std::atomic<std::size_t> gathered_count_{0};
};

/// The lock of the order while it lives, for who hands something over or makes it; only if needed.
class CallOrderLock {
 public:
  explicit CallOrderLock(bool needed) WEIR_NOT_ANALYSED;  // whether it is taken is not known before
  ~CallOrderLock() WEIR_NOT_ANALYSED;
  CallOrderLock(const CallOrderLock&) = delete;
  CallOrderLock& operator=(const CallOrderLock&) = delete;

 private:
  std::optional<CallOrder::Mine> mine_;
  const bool taken_;
};

/// Posts a function where there is memory for it; what it was for is then lost, or done by the next look.
template <class F>
void post(TaskThread& thread, F&& function) noexcept {
  try {
    auto task = make_task(std::forward<F>(function));
    std::unique_ptr<Task> posted = std::move(task);
    thread.post(posted);
  } catch (...) {
    // Without memory or a thread for it.
  }
}

}  // namespace weir::cuda
