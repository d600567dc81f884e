// A collective in a capture: one node, behind what all its ranks' streams had.
#pragma once

#include <cstdint>
#include <vector>

#include "core/collectives/communicator_state.hpp"

namespace weir::detail {

struct CapturedCall {
  std::uint64_t capture = 0;
  std::uint32_t node = 0;
  std::vector<int> ranks;
  std::vector<std::optional<Offer>> offers;  ///< of those ranks
  std::vector<Region> uses;                  ///< of all of them
};

/// Whether the node's launch is a collective's, whose extent follows from its arrays.
bool is_collective(const Launch& launch);
/// Whether its capture goes on.
bool is_captured_still(const CapturedCall& call);

}  // namespace weir::detail
