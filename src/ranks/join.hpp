// How the ranks of a job find each other: rank 0 listens, the others connect and say who they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ranks/control.hpp"

namespace weir::detail {

inline constexpr std::uint64_t rank_protocol = 6;  ///< ranks of another one are refused

/// What a rank has once all have come.
struct Joined {
  std::vector<Control::Peer> peers;
  std::vector<Connection> connections;  ///< rank 0: one for each rank, its own closed; others: to rank 0
  bool checks = false;
  std::uint64_t job = 0;    ///< a number by chance, rank 0's
  std::size_t refused = 0;  ///< connections that did not know the secret, or sent what is no message
};

/// Waits until all have come. Throws SocketError: who did not by the deadline.
Joined join_job(Control::Settings& settings);

}  // namespace weir::detail
