// A rank's part of a collective in its stream: not in the driver's hands yet, or a wait for a word, or NCCL's own kernel.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backends/cuda/collectives/held_row.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "weir/error.hpp"

namespace weir::cuda {

struct NcclRanks;

class CudaQueue;
class PartTimes;
class FailureState;

class NcclPart {
 public:
  /// What its stream has of it. While it is deferred nothing stands behind it, so that NCCL may still get the stream itself.
  enum class State : int {
    deferred,
    held,   ///< a wait for a word, of all parts between which nothing else stands
    handed  ///< NCCL's kernel, or a wait for an event behind that
  };

  /// Opens a place for its failure, with a tag if it has one.
  explicit NcclPart(CudaQueue& queue, std::uint64_t tag = 0);
  ~NcclPart();
  NcclPart(const NcclPart&) = delete;
  NcclPart& operator=(const NcclPart&) = delete;

  CudaQueue& queue() const { return queue_; }
  FailureState& failures() const { return failures_; }
  std::uint64_t place() const { return place_; }
  State state() const { return state_.load(std::memory_order_acquire); }
  bool over() const { return over_.load(std::memory_order_seq_cst); }

  /// Nothing came into its stream since the collective before it, as far as anybody knows.
  bool behind_collective = false;
  /// When its place was opened, something before it might still have failed that has another tag, or none.
  bool in_doubt = false;
  /// The last place before it, or before the unit that it belongs to.
  std::uint64_t behind = 0;
  /// Behind what stands before it in the stream; once marked().
  std::shared_ptr<StockEvent> ready;
  /// By who has the queue's DeferredParts, or by its submitter; once.
  void mark(std::shared_ptr<StockEvent> place) noexcept {
    ready = std::move(place);
    marked_.store(true, std::memory_order_release);
  }
  bool marked() const { return marked_.load(std::memory_order_acquire); }
  /// What NCCL has of its communicator; null where ranks are processes.
  std::shared_ptr<NcclRanks> ranks;
  /// Where to note when it ran; null: nowhere.
  std::shared_ptr<PartTimes> times;
  /// Somebody looks at the call again when its stream has come to it.
  std::atomic<bool> watched{false};
  /// Somebody is about to look whether its stream has come to it.
  std::atomic<bool> attended{false};

  /// Puts a wait for this part alone into the stream; by who has the queue's DeferredParts, or by its submitter.
  void hold(SourceLocation where);
  /// The same for one that comes behind what stands before `other`, a held one, and not behind that.
  void hold_beside(const NcclPart& other, SourceLocation where);
  /// One wait for several parts of a queue, the first first, behind `before`.
  static void hold(const std::vector<NcclPart*>& parts, std::shared_ptr<StockEvent> before, SourceLocation where);
  /// Instead of a wait a kernel of all of them stands in the stream behind `before`, and ends when its word says so, if it has not before.
  static void hold_by_kernel(std::span<NcclPart* const> parts, std::shared_ptr<StockEvent> before,
                             SourceLocation where);
  /// Of a held one: behind what stands before the first one that was held with it.
  const std::shared_ptr<StockEvent>& before_row() const { return row_->before(); }
  /// Whether its stream has come to it, as far as anybody knows by now. A call of the driver's.
  bool came() const noexcept;
  /// From here on the lane's own write lets the stream go, behind what NCCL does: until then it may write to the user's memory,
  /// whatever fails. False: it is not so any more, and nothing of it is with NCCL.
  void set_written_by_lane(bool so) noexcept;
  void set_handed() { state_.store(State::handed, std::memory_order_release); }
  const HeldRow& row() const { return *row_; }
  /// Its lane is behind all that it does. Whether the lane is to write the word: of all that were held together it is the last one.
  bool ends_row() noexcept { return row_->ends_by_lane(); }
  /// What ends_row() was asked for has come.
  void lane_ended() noexcept;

  /// The stream goes on, with the failure if there is one. The first call counts, and returns true.
  bool let_go(const std::shared_ptr<const Error>& failure) noexcept;

 private:
  friend class AllParts;
  static void enter_row(std::span<NcclPart* const> parts, const std::shared_ptr<HeldRow>& row) noexcept;
  void leave_row() noexcept;

  CudaQueue& queue_;
  FailureState& failures_;  ///< the queue's when it was called
  std::uint64_t place_;
  std::atomic<State> state_{State::deferred};
  std::atomic<bool> marked_{false};
  std::atomic<bool> over_{false};
  std::atomic<bool> written_by_lane_{false};
  std::shared_ptr<HeldRow> row_;  ///< of a held one; written before the state
  HeldRow::Member member_ = HeldRow::Member::open;
  // Of all parts.
  NcclPart* previous_ = nullptr;
  NcclPart* next_ = nullptr;
};

/// The process is ending: no stream waits any more for ranks that will not come.
void let_all_parts_go() noexcept;

/// The parts at the end of a queue of which the driver has not been told, a row of any length. Whoever puts something else behind them
/// takes them first.
class DeferredParts {
 public:
  bool any() const noexcept { return state_.load(std::memory_order_acquire) != none; }
  /// Waits for who has them. True: the caller has them until give(). False: there are none.
  bool take() noexcept;
  /// The same without waiting: false, too, while somebody has them.
  bool try_take() noexcept;
  /// Takes them where there are none. False: there are some.
  bool take_empty() noexcept;
  void give() noexcept;

  /// For who has them.
  std::deque<std::shared_ptr<NcclPart>> parts;
  /// Those of the last unit, as far as they are there.
  std::vector<std::weak_ptr<NcclPart>> unit;

 private:
  enum : int { none, some, taken };
  std::atomic<int> state_{none};
};

}  // namespace weir::cuda
