// How all ranks of a communicator open what moves data among their devices.
#pragma once

#include <cstdint>
#include <functional>

#include "collective_call.hpp"
#include "core/ranks/engine.hpp"

namespace weir::detail {

enum class Opening : std::uint8_t {
  open,
  closed,    ///< not all could, and all of them know it
  given_up,  ///< `go_on` said false: what others have said may still be on its way
};
/// Every rank does so, before any call. Waits for the others as long as `go_on` says true.
Opening open_with_all(RankMover& mover, SharedLink& link, const RankEngine::Place& place,
                      const std::function<bool()>& go_on);

}  // namespace weir::detail
