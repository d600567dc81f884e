// Parts of collectives that stand in a stream without anything between them: one wait for a word stands for all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cuda/streams/stocks.hpp"
#include "thread_safety.hpp"
#include "weir/error.hpp"

namespace weir::cuda {

struct SignalWord;

/// The stream goes on when each of them was let go, or is through in its lane. Thread rule: any thread, for different members.
class HeldRow {
 public:
  /// Of one part; in what the part keeps, and the row alone changes.
  enum class Member : char {
    open,
    in_lane,  ///< handed over: the lane says when it is through
    over
  };

  /// `before` is reached when the stream comes to the first of them.
  HeldRow(std::shared_ptr<StockEvent> before, std::size_t parts, SourceLocation where);
  ~HeldRow();
  HeldRow(const HeldRow&) = delete;
  HeldRow& operator=(const HeldRow&) = delete;

  const std::shared_ptr<StockEvent>& before() const { return before_; }
  SignalWord& word() const { return word_; }
  std::uint32_t count() const { return count_; }

  void enter_lane(Member& member) noexcept;
  /// Nothing of it is in the lane after all.
  void leave_lane(Member& member) noexcept;
  /// By one in its lane, whose work is there. True: nothing of the row is left to come, so that the lane writes the word: what others of
  /// the row have in theirs comes before, for a device has one order of collectives.
  bool ends_by_lane() noexcept;
  /// It was let go, or its lane is through. The first time counts.
  void end(Member& member) noexcept;
  /// The stream goes on, whatever is left.
  void give_up() noexcept;

 private:
  void close_one() noexcept WEIR_NEEDS(mutex_);
  void reach() noexcept;

  const std::shared_ptr<StockEvent> before_;
  SignalWord& word_;
  const std::uint32_t count_;
  detail::Mutex mutex_;
  std::size_t open_ WEIR_GUARDED_BY(mutex_);
  std::size_t not_over_ WEIR_GUARDED_BY(mutex_);
  bool by_lane_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace weir::cuda
