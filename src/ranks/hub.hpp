// Rank 0's side of the control: gathers what ranks say, and decides what becomes of communicators.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ranks/control.hpp"
#include "ranks/message.hpp"

namespace weir::detail {

/// Knows no sockets: what it says goes through `send`. Thread rule: one thread.
class Hub {
 public:
  using Send = std::function<void(int rank, const ControlMessage&)>;
  Hub(std::vector<std::string> hosts, Send send);

  /// Of a rank that is known to be that one; what it says is not trusted to make sense. False: it does not.
  bool take(int rank, const ControlMessage& message);
  /// Its connection is gone without a goodbye, or it is silent.
  void died(int rank, const std::string& why);
  bool gone(int rank) const { return ranks_[static_cast<std::size_t>(rank)].gone; }
  /// Ends what waited for answers long enough.
  void look(RankClock::time_point now);
  bool waits() const { return !inquests_.empty(); }

 private:
  using Type = ControlMessage::Type;
  struct Rank {
    std::string host;
    bool gone = false;
    std::string why = {};                            ///< it died
    std::map<std::uint64_t, std::string> left = {};  ///< communicators, and its last call there
    std::map<std::uint64_t, std::string> last = {};  ///< its last call in communicators, when it was last heard of
  };
  struct Inquest {
    std::uint64_t communicator;
    Inquiry reason;
    std::uint64_t call;
    int blamed;
    std::string what;
    std::uint64_t fingerprint;
    RankClock::time_point until;
    std::map<int, RankListener::Answer> answers = {};
  };
  using Members = std::vector<int>;

  bool take_report(const ControlMessage& message);
  bool take_answer(int rank, const ControlMessage& message);
  bool take_split(int rank, const ControlMessage& message);
  bool is_out(std::uint64_t communicator, int rank) const;
  bool take_survivor(int rank, std::uint64_t communicator);
  /// All that did not fail go on: a communicator of theirs is made.
  void look_for_survivors(std::uint64_t communicator);
  void look_for_all_survivors();
  void open(std::uint64_t communicator, Inquiry reason, std::uint64_t call, int blamed, std::string what,
            std::uint64_t fingerprint = 0);
  /// Ranks that split wait for one that is gone.
  void look_for_splits_without(std::uint64_t communicator, int rank);
  /// Or is about to.
  bool fails(std::uint64_t communicator) const;
  bool all_answered(const Inquest& inquest) const;
  void decide(const Inquest& inquest);
  std::string missing(const Inquest& inquest, std::vector<std::uint64_t>& failed) const;
  std::string difference(const Inquest& inquest) const;
  std::string table(const Inquest& inquest) const;
  void tell(const Members& members, const ControlMessage& message);
  void close_answered();

  std::vector<Rank> ranks_;
  Send send_;
  std::map<std::uint64_t, Members> members_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> failed_;  ///< communicators, and the ranks that failed them
  std::map<std::uint64_t, std::set<int>> survivors_;            ///< of communicators, those that would go on
  std::map<std::uint64_t, Inquest> inquests_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::map<int, RankListener::Choice>> splits_;
  std::uint64_t next_inquest_ = 1;
  std::uint64_t next_context_ = 1;
};

}  // namespace weir::detail
