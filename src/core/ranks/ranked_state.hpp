// A communicator whose other ranks are other processes: what it is told of them, and tells them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/collectives/communicator_state.hpp"
#include "core/ranks/engine.hpp"
#include "ranks/control.hpp"
#include "ranks/place.hpp"

namespace weir::detail {

/// Its communicator's lock guards it, where it is not the control's or the engine's.
class RankedState final : public RankListener, public std::enable_shared_from_this<RankedState> {
 public:
  RankedState(const std::shared_ptr<CommunicatorState>& communicator, RankEngine::Place place,
              std::shared_ptr<SharedLink> link, std::shared_ptr<Control> control);
  /// Once it is known by a shared pointer.
  void start();

  std::string_view transport() const {
    return engine_->mover() != nullptr ? engine_->mover()->name() : link_->link->name();
  }
  /// Whether what is called so is moved past the host.
  bool moves(const CollectiveRequest& request) const {
    return engine_->mover() != nullptr && engine_->mover()->moves(request);
  }
  /// Opens what moves data, where all ranks have the same; with them, before the first call. Waits for them, unless the
  /// communicator fails. Where one rank cannot, all go on by messages. Without any lock.
  void open_mover();
  /// The same in all processes of the communicator, and no other's; below 2^53, so that it is a number of JSON's, too.
  std::uint64_t shared_id() const { return shared_id_; }
  const std::shared_ptr<RankEngine>& engine() const { return engine_; }

  // With the communicator's lock.
  /// The call of this rank, whose part is in its stream now.
  void add(const CallReference& call, std::size_t lane);
  /// Of the collectives so far.
  std::uint64_t history() const { return history_; }
  void leave(CommunicatorState& communicator) WEIR_NEEDS(communicator.mutex);
  /// Of a rank that has left: whether it called the other half of the next send to it, or receive from it.
  bool has_called(int rank, CollectiveKind kind) const;
  /// Until the others were told so, for half a second at most. Without the lock.
  void flush() { control_->flush(); }
  /// What is pending here fails, with the failure that the communicator has; the others are told why.
  void fail(CommunicatorState& communicator, const std::string& what) WEIR_NEEDS(communicator.mutex);
  void split(std::uint64_t number, int color, int key);
  /// Tells rank 0's process that this rank goes on without those that failed.
  void go_on() { control_->split(place_.context, split_of_survivors, 0, place_.rank); }
  /// Why it cannot; empty if it can, or is one that failed.
  std::string why_not_on() const;
  /// Why nobody says what becomes of a split; empty if somebody does.
  std::string why_undecided() const;
  /// Whether it is known to be one that the communicator failed by.
  bool is_out() const { return is_out_; }
  /// Of all ranks, as far as this one knows without the others.
  std::string own_table(const CommunicatorState& communicator) const WEIR_NEEDS(communicator.mutex);
  /// Looks for calls that wait too long: when to look again.
  std::chrono::steady_clock::time_point look(CommunicatorState& communicator, std::chrono::steady_clock::time_point now)
      WEIR_NEEDS(communicator.mutex);

  // By the library's thread, without a lock.
  void stream_failed(LocalCall& call, const std::shared_ptr<const Error>& failure);
  void went_wrong(LocalCall& call, bool different, int culprit, const RankOperation::Met& met);
  void not_moved(LocalCall& call, const std::string& why);

  /// The process ends: all that live take leave of the others.
  static void leave_all();

  // By the control's thread.
  Answer answer(std::uint64_t call, std::uint64_t fingerprint) override;
  void verdict(Errc code, const std::vector<int>& failed, const std::string& what) override;
  void left(int rank, std::uint64_t calls, const std::vector<PairCounts>& pairs) override;
  void dead(int rank, const std::string& why) override;
  void split(std::uint64_t number, const std::vector<Choice>& choices) override;

 private:
  /// A call that was made, for the others' questions.
  struct Past {
    std::uint64_t number;
    std::uint64_t fingerprint;
    Called called;
    std::shared_ptr<RankArrival> arrival;
    bool launched;
  };
  /// What went wrong, as this rank knows it, until rank 0's process has asked all.
  struct Proposal {
    Errc code;
    std::string what;
    std::chrono::steady_clock::time_point until;  ///< then this rank decides alone
  };
  void keep(Past past);
  /// Those that are kept, the oldest first.
  const Past& past(std::size_t index) const { return past_[(past_calls_ + index) % past_.size()]; }
  /// Whether its ranks are devices that one mover reaches.
  bool has_mover() const;
  int rank_here(int rank_of_job) const;
  int rank_of_job(int rank_here) const { return place_.members[static_cast<std::size_t>(std::max(rank_here, 0))]; }
  std::string last_of(const CommunicatorState::Rank& rank) const;
  /// Lets rank 0's process decide; where that is gone, this rank does.
  void propose(CommunicatorState& communicator, Errc code, const std::string& what) WEIR_NEEDS(communicator.mutex);
  void decide_alone(CommunicatorState& communicator) WEIR_NEEDS(communicator.mutex);
  std::string host_of(int rank) const;
  /// Whether a send to it or a receive from it waits that this rank, which has left, never called the other half of.
  bool waits_in_vain(const CommunicatorState& communicator, int rank) const WEIR_NEEDS(communicator.mutex);
  bool ask(RankedCall& call, std::chrono::steady_clock::time_point now, std::chrono::nanoseconds timeout);
  /// The one before a call about which to ask, too; 0: there is none.
  std::uint64_t call_before(const RankedCall& call) const;

  const std::weak_ptr<CommunicatorState> communicator_;
  const RankEngine::Place place_;
  const std::shared_ptr<SharedLink> link_;
  const std::shared_ptr<Control> control_;
  const std::uint64_t shared_id_;
  std::shared_ptr<RankEngine> engine_;
  std::vector<Past> past_;  ///< the last ones
  std::size_t past_calls_ = 0;
  std::uint64_t history_ = 0;
  std::vector<PairCounts> own_pairs_;    ///< what this rank called with each other one
  std::vector<PairCounts> their_pairs_;  ///< what each that has left called with this one
  std::optional<Proposal> proposal_;
  bool provisional_ = false;  ///< the failure is this rank's own account, which a verdict's takes the place of
  bool is_out_ = false;       ///< a verdict says so
  const LocalCall* own_call_ = nullptr;       ///< its stream failed
  std::shared_ptr<const Error> own_failure_;  ///< by this
};

/// Of the ranks of `place`; it is watched.
std::shared_ptr<CommunicatorState> make_ranked_state(Device device, const CommunicatorOptions& options,
                                                     RankEngine::Place place, std::shared_ptr<SharedLink> link,
                                                     std::shared_ptr<Control> control, SourceLocation where);

}  // namespace weir::detail
