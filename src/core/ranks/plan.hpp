// A collective among processes, as one rank has it: phases of messages, and what is done with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "collective_copies.hpp"
#include "core/collectives/communicator_state.hpp"

namespace weir::detail {

/// Memory that goes from one collective to the next.
class RankScratch {
 public:
  std::byte* take(std::size_t bytes);
  /// All of it is free again.
  void reset();
  /// Some of it may still be written by others: it is lost.
  void abandon();

 private:
  struct Block {
    std::unique_ptr<std::byte[]> data;
    std::size_t bytes;
    bool used;
  };
  std::vector<Block> blocks_;
};

struct RankMessage {
  int peer;  ///< a rank of the communicator
  std::byte* data;
  std::size_t bytes;
  bool receives;
  std::size_t said = 0;  ///< bytes that a mover moves for it, which both ends compare
};
struct RankPhase {
  std::vector<RankMessage> messages = {};
  std::function<void()> then = {};       ///< once all are over; throws nothing
  std::shared_ptr<RankMove> until = {};  ///< what `then` began: the phase ends with it
};
using RankPlan = std::vector<RankPhase>;
/// Copies what the host does not reach, or is null. All of it is dense then, and every message a long one.
using RankCopier = std::function<void(const RankCopy&, std::shared_ptr<RankMove>)>;

/// What this rank of `size` does for the call. Inputs with strides are read now. Folds are in the order of ranks, on every
/// rank alike. `compare`: a phase goes first in which all ranks compare what they call.
RankPlan plan_of(const Offer& offer, int rank, int size, bool compare, RankScratch& scratch,
                 const RankCopier& copier = {});
/// The phase in which they compare; none for a send or a receive.
RankPlan plan_of_comparing(const Offer& offer, int rank, int size, RankScratch& scratch);
/// The same where a mover does it: all ranks agree that they have come and call the same, then `move` begins.
RankPlan plan_of_move(const Offer& offer, int rank, int size, std::function<void()> move,
                      std::shared_ptr<RankMove> until, RankScratch& scratch);

/// Equal for calls that fit together; never 0.
std::uint64_t fingerprint_of(const Offer& offer);
/// Of all that a rank has called, with one call more, of this fingerprint.
std::uint64_t history_with(std::uint64_t history, std::uint64_t fingerprint);

}  // namespace weir::detail
