// Calls that are one unit: none of them waits for another one.
#pragma once

#include <memory>
#include <span>

#include "core/collectives/communicator_state.hpp"
#include "core/ranks/staged_operands.hpp"

namespace weir::detail {

struct UnitCall {
  std::shared_ptr<CommunicatorState> communicator;
  int rank;
  Offer offer;
  std::unique_ptr<StagedOperands> staged = nullptr;  ///< of ranks that are processes; the unit's
};

/// Each stream has one place for all of its own. Those before one that throws stay made. One that has what another one before it in its
/// communicator's order gives comes behind that, and begins another unit where it would be copied too early or too late.
void call_unit(std::span<UnitCall> calls);

}  // namespace weir::detail
