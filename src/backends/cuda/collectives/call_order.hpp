// The one order in which collectives of this process are handed to NCCL, on all GPUs and for all communicators.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
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
    const CudaQueue* in = nullptr;  ///< where a graph's launch was the last, and its end stands; else null
  };
  std::vector<OfDevice> devices;
};

/// NCCL's kernels wait for each other across GPUs, so all GPUs run them in one order: that in which they are handed over. What
/// may still come to nothing, because something before it in a stream may fail, or waits for ranks that have not called, is
/// handed over when that is settled; until then it holds up later calls of its own lane alone.
/// Thread rule: any thread. NCCL is called in its turn.
class CallOrder {
 public:
  /// Who hands over, or makes something: one thread at a time. A turn that hands over lasts as long as the driver waits for room in a
  /// stream (R3). So who has called does not wait for its end: the one whose turn it is leaves the call to the next one. A turn that makes
  /// something is waited for: NCCL waits for what the GPUs have then, and a part that was called and not handed over would stand in the
  /// stream meanwhile, a wait that nobody ends.
  class WEIR_LOCK Turn {
   public:
    explicit Turn(CallOrder& order) : order_(order) {}
    /// Waits for one that makes something.
    void lock() WEIR_TAKES();
    /// One that hands over. False: another one that does so has not ended in that time.
    bool try_lock_for(std::chrono::microseconds time) noexcept WEIR_TOLD_CLANG(try_acquire_capability(true)) {
      return take(time, false);
    }
    void unlock() noexcept WEIR_GIVES();

   private:
    bool take(std::chrono::microseconds time, bool makes) noexcept WEIR_TOLD_CLANG(try_acquire_capability(true));

    CallOrder& order_;
  };

  static CallOrder& instance();

  Turn& turn() WEIR_RETURNS(turn_) { return turn_; }
  /// Made by who takes a turn.
  class Mine {
   public:
    Mine() noexcept { mine_ = true; }
    ~Mine() { mine_ = false; }
    Mine(const Mine&) = delete;
    Mine& operator=(const Mine&) = delete;
  };
  /// Whether it is this thread's turn.
  static bool is_mine() noexcept { return mine_; }
  /// All ranks have called.
  void add(NcclTransport& transport, detail::CollectiveCall& call, std::size_t lane);
  /// The launch of a graph with collectives of some transports, a call of all their ranks.
  void add(std::shared_ptr<LateReplay> replay);
  /// Whether something of them waits, behind which such a launch comes.
  bool any_wait(const std::vector<NcclTransport*>& transports) WEIR_NEEDS(turn_);
  LastHanded& last() WEIR_NEEDS(turn_) { return last_; }
  /// Hands over what there is.
  void pass_on() noexcept WEIR_NEEDS(turn_);
  /// Something that some may wait for has come.
  void look() noexcept;
  /// The same by another thread, if any wait.
  void look_if_any_wait() noexcept;

  /// For what needs no answer.
  static TaskThread& worker();
  /// For what may wait in the driver.
  static TaskThread& holder();

 private:
  struct Waiting {
    NcclTransport* transport;  ///< the call keeps it alive
    CallRef call;
    std::size_t lane;
    std::shared_ptr<LateReplay> replay = nullptr;  ///< then there is no call
  };
  /// Lanes whose first waits.
  class Closed;
  enum class Answer {
    handed,
    waits,
    is_full,  ///< it waits for the end of calls before it, which looks again
    is_over
  };

  void take(std::chrono::microseconds patience) noexcept;
  void pass() WEIR_NEEDS(turn_);
  void fetch() WEIR_NEEDS(turn_);
  bool makes_alone() WEIR_NEEDS(turn_);
  Answer try_to_hand(Waiting& waiting, bool may_make) WEIR_NEEDS(turn_);
  Answer try_to_launch(LateReplay& replay) WEIR_NEEDS(turn_);
  static void watch(const Waiting& waiting);
  static void watch(const std::shared_ptr<NcclPart>& part);

  inline static thread_local bool mine_ = false;
  Turn turn_{*this};
  std::deque<Waiting> waiting_ WEIR_GUARDED_BY(turn_);
  LastHanded last_ WEIR_GUARDED_BY(turn_);

  detail::Mutex mutex_;
  std::condition_variable_any free_;
  bool taken_ WEIR_GUARDED_BY(mutex_) = false;         ///< the turn
  bool given_ WEIR_GUARDED_BY(mutex_) = false;         ///< to one of those who wait for it
  bool makes_ WEIR_GUARDED_BY(mutex_) = false;         ///< it makes something
  std::size_t asking_ WEIR_GUARDED_BY(mutex_) = 0;     ///< those who wait for it
  bool again_ WEIR_GUARDED_BY(mutex_) = false;         ///< somebody is to look
  std::deque<Waiting> added_ WEIR_GUARDED_BY(mutex_);  ///< behind `waiting_`
  std::uint64_t last_number_ WEIR_GUARDED_BY(mutex_) = 0;
  std::atomic<std::size_t> waiting_count_{0};  ///< of both lists
};

/// A turn while it lives, for who hands something over or makes it.
class CallOrderTurn {
 public:
  /// Waits for one that makes something; only if needed. `behind_all`: hands over first what others have left, and what NCCL makes waits for.
  // Whether it is taken is not known before.
  explicit CallOrderTurn(bool needed, bool behind_all = false) WEIR_NOT_ANALYSED;
  explicit CallOrderTurn(std::chrono::microseconds patience) WEIR_NOT_ANALYSED;
  ~CallOrderTurn() WEIR_NOT_ANALYSED;
  CallOrderTurn(const CallOrderTurn&) = delete;
  CallOrderTurn& operator=(const CallOrderTurn&) = delete;

  bool taken() const noexcept { return taken_; }

 private:
  const bool taken_;
  std::optional<CallOrder::Mine> mine_;
};

/// How long a thread waits for its turn where it can do without.
constexpr std::chrono::microseconds patience_for_turn{1000};

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
