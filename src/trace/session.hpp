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

  bool operator==(const KnownNode&) const = default;
};
using KnownGraph = std::shared_ptr<const std::vector<KnownNode>>;

struct Told {
  Tape::Contents tape;
  std::unordered_map<std::uint64_t, KnownStream> streams;
  std::unordered_map<std::uint64_t, KnownGraph> graphs;
  std::int64_t started = 0;
  std::int64_t stopped = 0;
  std::int64_t clock_error = 0;  ///< ns: how far a GPU's times may be off
};
/// Puts in order what was told: commands with what they depend on and when they ran, waits and ranges.
Timeline assemble(const Told& told);

}  // namespace weir::trace
