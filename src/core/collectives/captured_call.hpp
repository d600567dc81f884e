// A collective in a capture: one node, behind what all its ranks' streams had.
#pragma once

#include <cstdint>
#include <vector>

#include "core/collectives/communicator_state.hpp"
#include "graph_form.hpp"

namespace weir::detail {

struct CapturedCall {
  std::uint64_t capture = 0;
  std::uint32_t node = 0;
  std::vector<int> ranks;
  std::vector<std::optional<Offer>> offers;  ///< of those ranks
  std::vector<Region> uses;                  ///< of all of them
};

/// A call of a rank whose other ranks are other processes, as a node keeps it: each launch of the graph makes it again.
struct CapturedRank {
  std::shared_ptr<CommunicatorState> communicator;
  int rank;
  Offer offer;  ///< its stream is the captured one
};
/// Null: the node is none.
const CapturedRank* captured_rank_of(const FormNode& node);

/// Whether the node's launch is a collective's, whose extent follows from its arrays.
bool is_collective(const Launch& launch);
/// The communicator of one of which a launch of its graph is a call of all ranks; null: it is none.
std::shared_ptr<CommunicatorState> called_by_launches(const Launch& launch);
/// Whether the node is a collective that the transport's own library does.
bool is_handed_collective(const FormNode& node);
/// All those of which a launch of the graph is a call, in the order of their ids.
std::vector<std::shared_ptr<CommunicatorState>> communicators_of(const GraphForm& form);
/// Whether its capture goes on.
bool is_captured_still(const CapturedCall& call);

}  // namespace weir::detail
