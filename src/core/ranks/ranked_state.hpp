// A communicator whose other ranks are other processes: what it is told of them, and tells them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
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

  std::string_view transport() const { return link_->link->name(); }
  const std::shared_ptr<RankEngine>& engine() const { return engine_; }

  // With the communicator's lock.
  /// The call of this rank, whose part is in its stream now.
  void add(const CallReference& call, std::size_t lane);
  void leave(std::uint64_t calls);
  /// Until the others were told so, for half a second at most. Without the lock.
  void flush() { control_->flush(); }
  /// What is pending here fails, and the others are told.
  void fail(Inquiry reason, Errc code, const std::string& what);
  void split(std::uint64_t number, int color, int key);
  /// Looks for calls that wait too long: when to look again.
  std::chrono::steady_clock::time_point look(CommunicatorState& communicator, std::chrono::steady_clock::time_point now)
      WEIR_NEEDS(communicator.mutex);

  // By the library's thread, without a lock.
  void stream_failed(LocalCall& call, const std::shared_ptr<const Error>& failure);
  void went_wrong(LocalCall& call, bool different, int culprit);

  // By the control's thread.
  Answer answer(std::uint64_t call) override;
  void verdict(Errc code, const std::vector<int>& failed, const std::string& what) override;
  void left(int rank, std::uint64_t calls) override;
  void dead(int rank, const std::string& why) override;
  void split(std::uint64_t number, const std::vector<Choice>& choices) override;

 private:
  /// A call that was made, for the others' questions.
  struct Past {
    std::uint64_t number;
    std::uint64_t fingerprint;
    Offer offer;
    std::shared_ptr<RankArrival> arrival;
  };
  int rank_here(int rank_of_job) const;
  bool ask(RankedCall& call, std::chrono::steady_clock::time_point now, std::chrono::nanoseconds timeout);
  void end_splits(CommunicatorState& communicator);

  const std::weak_ptr<CommunicatorState> communicator_;
  const RankEngine::Place place_;
  const std::shared_ptr<SharedLink> link_;
  const std::shared_ptr<Control> control_;
  std::shared_ptr<RankEngine> engine_;
  std::deque<Past> past_;
};

/// Of the ranks of `place`; it is watched.
std::shared_ptr<CommunicatorState> make_ranked_state(Device device, const CommunicatorOptions& options,
                                                     RankEngine::Place place, std::shared_ptr<SharedLink> link,
                                                     std::shared_ptr<Control> control, SourceLocation where);

}  // namespace weir::detail
