// Events that were recorded in a capture: which nodes a wait for them stands for.
#pragma once

#include "core/graphs/capture.hpp"

namespace weir::detail {

/// The event's last record is this recorder's present end.
void mark_event(Recorder& recorder, EventState& event, std::uint64_t id) WEIR_NEEDS(captures_lock());
/// The capture is over: its plain events are nobody's until they are recorded again (R119).
void forget_marks(const Capture& capture) WEIR_NEEDS(captures_lock());
/// Timed events recorded by nodes are ordinary events from here on: each replay records them.
void keep_timed_events(Capture& capture);

}  // namespace weir::detail
