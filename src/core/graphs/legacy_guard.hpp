// The legacy stream of a device while a blocking stream of it captures: every call is an error (R125, R146).
#pragma once

#include "core/runtime.hpp"

namespace weir::detail {

/// What the device needs for guard_legacy(). captures_lock() is held.
void make_legacy_guard(DeviceState& device);
/// One blocking stream more or less captures. captures_lock() is held.
void guard_legacy(DeviceState& device, int change);

}  // namespace weir::detail
