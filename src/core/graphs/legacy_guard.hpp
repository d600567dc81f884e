// The legacy stream of a device while a blocking stream of it captures: every call is an error (R125, R146).
#pragma once

#include "core/runtime.hpp"

namespace weir::detail {

/// While it lives, this thread's commands to a legacy stream that captures close are refused without an end of the captures.
class LegacyAttempt {
 public:
  LegacyAttempt() noexcept;
  ~LegacyAttempt();
  LegacyAttempt(const LegacyAttempt&) = delete;
  LegacyAttempt& operator=(const LegacyAttempt&) = delete;
  /// Whether one was.
  bool refused() const noexcept;
};

/// What the device needs for guard_legacy().
void make_legacy_guard(DeviceState& device) WEIR_NEEDS(captures_lock());
/// One blocking stream more or less captures.
void guard_legacy(DeviceState& device, int change) WEIR_NEEDS(captures_lock());

}  // namespace weir::detail
