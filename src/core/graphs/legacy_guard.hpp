// The legacy stream of a device while a blocking stream of it captures: every call is an error (R125, R146).
#pragma once

#include "core/runtime.hpp"

namespace weir::detail {

/// A command met a capture of a blocking stream; the capture goes on.
struct LegacyCaptured {};
/// While it lives, this thread's commands to a legacy stream throw LegacyCaptured instead of ending captures.
class LegacyElsewhere {
 public:
  LegacyElsewhere() noexcept;
  ~LegacyElsewhere();
  LegacyElsewhere(const LegacyElsewhere&) = delete;
  LegacyElsewhere& operator=(const LegacyElsewhere&) = delete;
};

/// What the device needs for guard_legacy().
void make_legacy_guard(DeviceState& device) WEIR_NEEDS(captures_lock());
/// One blocking stream more or less captures.
void guard_legacy(DeviceState& device, int change) WEIR_NEEDS(captures_lock());

}  // namespace weir::detail
