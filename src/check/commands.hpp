// Commands of a recording for the engine, as the calls that they stand for.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include <weir/recording.hpp>

#include "check/engine.hpp"

namespace weir::check {

/// What belongs to a command beside its members, whose places are the engine's.
struct Parts {
  std::span<const Use> uses = {};
  std::span<const recorded::Name> gives = {};
  std::span<const recorded::Node> nodes = {};
  bool timed = false;  ///< of a record: of an event with times
  std::optional<recorded::Collective> collective = {};
};

CollectiveCall collective_call(const recorded::Collective& made, const char* call,
                               const std::function<const char*(recorded::Name)>& text);

void tell(Engine& engine, const Call& call, const recorded::Command& command, const Parts& parts,
          const std::function<const char*(recorded::Name)>& text);

}  // namespace weir::check
