// What a session is told, and what its timeline is made of beside the tape.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <weir/trace.hpp>

#include "trace/tape.hpp"

namespace weir::trace {

/// A stream as it was opened.
struct KnownStream {
  std::string name;
  std::string device;
  std::int32_t priority = 0;
  bool blocking = true;
  bool legacy = false;
};

/// What a node of a graph is.
struct KnownNode {
  Text name = none;
  Text file = none;
  std::uint32_t line = 0;
  Lane lane = Lane::order;
  std::vector<std::uint32_t> depends = {};  ///< nodes of the graph

  bool operator==(const KnownNode&) const = default;
};
/// A graph's nodes as they were first, and what became of some.
struct KnownGraph {
  struct Change {
    std::int64_t since;  ///< of the steady clock
    KnownNode node;
  };

  std::shared_ptr<const std::vector<KnownNode>> nodes;
  std::unordered_map<std::uint32_t, std::vector<Change>> changes;  ///< by node, the oldest first

  /// As a launch of that moment has it.
  const KnownNode& at(std::uint32_t node, std::int64_t moment) const {
    if (const auto changed = changes.find(node); changed != changes.end()) {
      const std::vector<Change>& all = changed->second;
      for (auto one = all.rbegin(); one != all.rend(); ++one) {
        if (one->since <= moment) return one->node;
      }
    }
    return (*nodes)[node];
  }
};

struct Told {
  Tape::Contents tape;
  std::unordered_map<std::uint64_t, KnownStream> streams;
  std::unordered_map<std::uint64_t, KnownGraph> graphs;
  std::int64_t started = 0;
  std::int64_t stopped = 0;
  std::int64_t clock_error = 0;  ///< ns: how far a GPU's times may be off
  std::int64_t cost = -1;        ///< ns that telling of a command took in its call; -1: not known
};
/// Whose clock the moments are of, and how far they may be off; `any_virtual`: of simulated devices, too.
std::string clock_text(const Timeline& timeline, const Told& told, bool any_virtual);
/// Puts in order what was told: commands with what they depend on and when they ran, waits and ranges.
Timeline assemble(const Told& told);

}  // namespace weir::trace
