// How all ranks of a communicator open what moves data among their devices.
#pragma once

#include <functional>

#include "collective_call.hpp"
#include "core/ranks/engine.hpp"

namespace weir::detail {

/// Every rank does so, before any call. Waits for the others as long as `go_on` says true. False: not all could, and all of
/// them know it, or `go_on` said false.
bool open_with_all(RankMover& mover, SharedLink& link, const RankEngine::Place& place,
                   const std::function<bool()>& go_on);

}  // namespace weir::detail
