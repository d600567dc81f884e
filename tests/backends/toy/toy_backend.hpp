// A whole backend, as small as it may be: docs/backends.md walks through it.
#pragma once

#include "backend.hpp"

namespace weir::toy {

/// One device, "toy", which is the host: every command runs in the call that submits it. Streams, events, pools and failures
/// are there; graphs, times of others' backends and waits for them are left to the seam's defaults.
Backend& backend();

}  // namespace weir::toy
