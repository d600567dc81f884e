// Collectives that wait for each other: each comes, on some rank, behind another one's part, in a circle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <weir/check.hpp>

#include "check/clock.hpp"

namespace weir::check {

/// One rank's call of a collective.
struct CollectiveCall {
  std::uint64_t communicator = 0;
  std::uint64_t number =
      0;                   ///< the same on all ranks; of no meaning for sends and receives, which match in their order
  std::uint64_t unit = 0;  ///< of those that were grouped, which do not wait for each other; 0: none
  int rank = 0;
  int size = 0;
  int from = -1, to = -1;  ///< of a send or receive
  const char* name = "";   ///< "all_reduce"
  std::string of;          ///< the communicator's name
  bool launch = false;     ///< of a graph with collectives, which is a call of all ranks of their communicators
};

class Circles {
 public:
  /// Where a part stands: on its timeline, and for whom.
  struct Part {
    CollectiveCall call;
    std::uint32_t stream = 0;
    Timeline timeline = 0;
    Tick tick = 0;
    Side side;
  };
  /// One collective waits for another one, since its part comes behind a part of that; without parts, by the order of their
  /// communicator.
  struct Link {
    std::optional<Part> part;
    std::optional<Part> behind;
  };
  /// All ranks have called it.
  struct Whole {
    std::vector<Part> parts;
    Clock before;  ///< what the ranks' streams had before their parts: what comes behind one of these comes behind that
  };

  /// The circle that the part closes, whose first link is its own; empty if it closes none. `now`: what it comes behind.
  std::vector<Link> find(const Part& part, const Clock& now) const;
  /// A host thread knows that what is before this is over, one way or the other.
  void over(const Clock& host);
  /// What a rank's next call of a communicator comes behind, whatever its stream: its own calls before, but those of the same unit,
  /// and the launches of graphs with collectives of that communicator.
  Clock before_call(const CollectiveCall& call) const;
  /// The same of a launch: all calls before.
  Clock before_launch(std::uint64_t communicator) const;
  /// That call was made, or launch: its stream had `before` before it, and has `now` since.
  void note_call(const CollectiveCall& call, const Clock& before, const Clock& now);
  void note_launch(std::uint64_t communicator, const Clock& now);
  /// Keeps it. Collectives of a circle are forgotten.
  std::optional<Whole> add(const Part& part, const Clock& now, const std::vector<Link>& circle);

 private:
  /// Communicator, pair of ranks (or none), number.
  struct Key {
    std::uint64_t communicator;
    int from, to;
    std::uint64_t number;
    auto operator<=>(const Key&) const = default;
  };
  using Place = std::pair<Timeline, Tick>;
  struct Wait {
    Key behind;
    std::optional<Place> part;     ///< of its own
    std::optional<Place> of = {};  ///< a part of the other one
  };
  struct Joint {
    std::vector<Part> parts;
    std::vector<Wait> waits;
    std::vector<Key> waiting;  ///< those that wait for it
    Clock before;
    std::uint64_t age = 0;
    bool complete = false;
  };
  struct Pair {
    std::uint64_t sent = 0, received = 0;
  };
  /// Of a communicator.
  struct Calls {
    struct Last {
      std::uint64_t unit = 0;
      Clock before, now;
    };
    Clock whole;                ///< of calls of all ranks: what the ranks' streams had before their parts
    Clock launches;             ///< and these themselves
    Clock all;                  ///< all calls and launches
    std::map<int, Last> ranks;  ///< the last call of each, sends and receives aside
  };
  Key key_of(const CollectiveCall& call) const;
  std::vector<Wait> waits_of(const Part& part, const Key& own, const Clock& now) const;
  bool reaches(const Key& from, const Key& to, std::vector<const Wait*>& way) const;
  const Part* part_at(const std::optional<Place>& place) const;
  void close(const Key& key);
  void forget(const Key& key);

  std::map<Key, Joint> open_;  ///< those that may still be in a circle
  std::map<std::uint64_t, Key> by_age_;
  std::map<Timeline, std::map<Tick, Key>> parts_;                       ///< of the open ones
  std::map<std::uint64_t, Calls> calls_;                                ///< by communicator
  std::map<std::uint64_t, std::map<std::pair<int, int>, Pair>> pairs_;  ///< by communicator
  std::uint64_t next_age_ = 0;
};

}  // namespace weir::check
