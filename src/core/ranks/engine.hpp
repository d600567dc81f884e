// What one communicator has to do among processes, and the thread that does it while nobody else does.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/ranks/operation.hpp"
#include "ranks/place.hpp"

namespace weir::detail {

class RankedState;

/// Operations of one lane run one after the other, in the order of their calls, but that short ones overlap; they begin when their
/// streams have come to them. What is launched needs nobody until its kernel is over: who is told of that ends it. Thread rule: add(),
/// stop(), wake() and look_at_launched() by any thread; the rest under the link's lock.
class RankEngine : public std::enable_shared_from_this<RankEngine> {
 public:
  struct Place {
    std::vector<int> members;  ///< the job's ranks
    int rank;                  ///< this one's place among them
    std::uint32_t context;
    bool compare;
    RankStaging staging = RankStaging::none;
    bool direct = false;  ///< messages may be in the device's memory
  };
  RankEngine(std::shared_ptr<SharedLink> link, Place place, std::weak_ptr<RankedState> owner);
  ~RankEngine();

  const Place& place() const { return place_; }
  /// What moves the data of its calls where it can; before the first of them.
  void set_mover(std::shared_ptr<RankMover> mover) { mover_ = std::move(mover); }
  RankMover* mover() const { return mover_.get(); }
  RankLink& link() const { return *link_->link; }
  /// How data of what is called so goes. Ranks whose calls fit together cut alike.
  RankedCall::Way way_of(const Offer& offer) const;
  /// Pinned memory for a lane's calls that are cut. Throws where there is none. By the thread that calls.
  std::shared_ptr<PieceRoom> room_for(const Offer& offer, std::size_t lane);
  void add(CallReference call, std::size_t lane);
  /// All that is there, and all that comes, fails: soon, by another thread. `own`: of the stream that `call` is in.
  void stop(Errc code, const std::string& text, const LocalCall* call, std::shared_ptr<const Error> own);
  /// Whether one was, in this process.
  static bool any_stopped();
  void wake();
  /// Something became of a launched call of the lane, or of its kernel: ends what is over, and lets the library's thread know where
  /// there is more to do. Does not wait.
  void look_at_launched(std::size_t lane) noexcept;
  /// The stream of a launched call has come to it. Does not wait.
  void launched_arrived() noexcept;
  /// By a host thread that waits for the call: does what there is to do for as long as something happens.
  void drive(RankedCall& call) noexcept;

  /// Tells the communicator what went wrong since the last time. Without any lock.
  void tell_incidents();

  struct Look {
    bool moved = false;
    bool pending = false;   ///< something has begun and is not over
    bool launched = false;  ///< the same, but somebody says when it is, and nothing else waits for it
    std::size_t bytes = 0;  ///< that are about to move
  };
  Look look();

 private:
  using Operation = std::unique_ptr<RankOperation>;
  struct Incident {
    CallReference call;
    RankOperation::Outcome outcome;  ///< waits: its stream had failed, or there is no memory
    int culprit;
    RankOperation::Met met;
    std::string why;
  };
  struct Stop {
    Errc code;
    std::string text;
    const LocalCall* call;
    std::shared_ptr<const Error> own;
  };
  Look look_locked() WEIR_NEEDS(link_->mutex);
  /// False: all is to fail.
  bool take_added() WEIR_NEEDS(link_->mutex);
  enum class Launched : std::uint8_t { waits, over, needs_more };
  /// Of the lane's first operation; one that is over comes out.
  Launched end_launched(std::size_t lane, Operation& over) WEIR_NEEDS(link_->mutex);
  void look_at_lane(std::deque<Operation>& lane, Look& look) WEIR_NEEDS(link_->mutex);
  void begin_next(std::deque<Operation>& lane, Look& look) WEIR_NEEDS(link_->mutex);
  /// Whether a lane's operation may while those before it are not over.
  bool may_begin(const std::deque<Operation>& lane, std::size_t at) const WEIR_NEEDS(link_->mutex);
  void finish(RankOperation& operation) WEIR_NEEDS(link_->mutex);
  void take_out(std::deque<Operation>& lane) WEIR_NEEDS(link_->mutex);
  static void let_memory_go(const std::vector<CallReference>& calls) noexcept;
  void note(RankOperation& operation, RankOperation::Outcome outcome);
  void stop_all(Look& look) WEIR_NEEDS(link_->mutex);
  RankOperation::Ends ends_of(const RankOperation& operation) const;

  const std::shared_ptr<SharedLink> link_;
  const Place place_;
  const std::weak_ptr<RankedState> owner_;
  std::shared_ptr<RankMover> mover_;
  std::map<std::size_t, std::deque<Operation>> lanes_ WEIR_GUARDED_BY(link_->mutex);
  std::map<std::size_t, RankOperation::Scratch> scratch_ WEIR_GUARDED_BY(link_->mutex);
  std::vector<CallReference> over_ WEIR_GUARDED_BY(link_->mutex);  ///< their memory has yet to be let go
  std::chrono::steady_clock::time_point stopped_at_ WEIR_GUARDED_BY(link_->mutex) = {};

  Mutex mutex_;
  std::map<std::size_t, std::shared_ptr<PieceRoom>> rooms_ WEIR_GUARDED_BY(mutex_);  ///< each lane's
  std::vector<Operation> added_ WEIR_GUARDED_BY(mutex_);
  std::vector<Incident> incidents_ WEIR_GUARDED_BY(mutex_);
  std::optional<Stop> stop_ WEIR_GUARDED_BY(mutex_);
  std::atomic<std::size_t> by_messages_{0};  ///< calls that are not launched, and not over
};

/// The library's thread for collectives among processes: it looks at all engines, at once while something moves, seldom
/// while a peer is late, and never while nothing but kernels is pending. Never destroyed.
class RankProgress {
 public:
  static RankProgress& instance();
  void add(const std::shared_ptr<RankEngine>& engine);
  void wake();
  /// A host thread does the work for now.
  void driven(bool by_host) { drivers_.fetch_add(by_host ? 1 : -1, std::memory_order_relaxed); }
  /// Waits until nothing is pending in any engine, for `longest` at most. False: something still is.
  bool settle(std::chrono::milliseconds longest);
  /// How long it is looked without a pause although nothing happens.
  static std::chrono::nanoseconds patience(std::size_t bytes);

 private:
  void run();
  RankEngine::Look look_at_all(std::vector<std::shared_ptr<RankEngine>>& engines);
  void sleep(std::chrono::nanoseconds longest);

  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::weak_ptr<RankEngine>> engines_ WEIR_GUARDED_BY(mutex_);
  bool started_ WEIR_GUARDED_BY(mutex_) = false;
  bool woken_ WEIR_GUARDED_BY(mutex_) = false;
  std::atomic<int> asleep_{0};  ///< 1: it is, or is about to look for the last time before
  std::atomic<int> drivers_{0};
};

}  // namespace weir::detail
