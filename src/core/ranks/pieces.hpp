// A large collective of ranks whose arrays the host does not reach, cut in pieces: one is copied while another one is sent.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/collectives/communicator_state.hpp"
#include "core/ranks/plan.hpp"

namespace weir::detail {

/// What a communicator's ranks have agreed on: calls that are cut are cut by all of them.
enum class RankStaging : std::uint8_t {
  none,   ///< messages are of the arrays themselves
  folds,  ///< but for those of calls that fold, which the host does
  all
};

/// Pieces under way at a time.
inline constexpr std::size_t piece_tracks = 2;

/// Pinned memory of the pieces under way. Calls of a lane use it one after the other.
class PieceRoom {
 public:
  PieceRoom(std::size_t bytes, const Offer& offer);
  ~PieceRoom();
  PieceRoom(const PieceRoom&) = delete;
  PieceRoom& operator=(const PieceRoom&) = delete;
  std::size_t bytes() const { return bytes_; }
  std::byte* in(std::size_t track) const { return data_ + 2 * track * bytes_; }
  std::byte* out(std::size_t track) const { return data_ + (2 * track + 1) * bytes_; }

 private:
  const std::size_t bytes_;
  Storage* const storage_;
  std::byte* const data_;
};

/// One rank's call. Elements of each part of a piece are those of one range, so a piece is a call of its own. Refers to the offer.
class Pieces {
 public:
  Pieces(const Offer& offer, int rank, int size);

  std::size_t count() const { return count_; }
  /// Of what a piece reads or writes here.
  std::size_t bytes() const { return step_ * parts_ * element_; }

  /// Where a piece is, and who copies.
  struct Place {
    std::byte* in;
    std::byte* out;
    std::function<void(std::vector<RankCopy>, std::shared_ptr<RankMove>)> copy;  ///< null: the host reaches the arrays
  };
  RankPlan plan(std::size_t number, const Place& place, bool compare, RankScratch& scratch) const;

 private:
  struct Range {
    std::size_t first;
    std::size_t count;
  };
  using Ranges = std::vector<Range>;
  /// Of the piece, in an array that has each rank's part, if it is so, or one.
  Ranges ranges(std::size_t number, bool of_all, const std::vector<std::size_t>& counts, std::size_t all) const;
  void add_copies(RankPlan& plan, const CollectiveOperand& array, const Ranges& ranges, std::byte* piece, bool in,
                  const Place& place) const;
  void say_the_rest(RankPlan& plan, std::size_t number) const;

  const Offer& offer_;
  const int rank_;
  const int size_;
  const std::size_t element_;
  std::size_t parts_ = 1;  ///< whose ranges a piece has
  std::size_t step_ = 1;   ///< elements of a part
  std::size_t length_ = 0;
  std::size_t count_ = 0;
};

}  // namespace weir::detail
