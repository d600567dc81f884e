// Events of other processes, as the rest of the core meets them.
#pragma once

#include "core/runtime.hpp"

namespace weir::detail {

/// A live event, as its owner has it; the backend has made its state.
EventRef own_event(EventState& state);

/// The backend of events of other processes: it has no devices, and nobody asks for it by name.
Backend& imported_events();
inline bool is_imported(const EventState& event) { return event.backend == &imported_events(); }
Device device_of_imported(const EventState& event);
/// EventRef::done() for one, which is live.
bool imported_done(EventState& event, SourceLocation where);
/// StreamRef::wait() for one; both handles are live.
void wait_imported(StreamRef stream, EventRef event, SourceLocation where);
[[noreturn]] void refuse_imported_record(const StreamState& stream, SourceLocation where);

}  // namespace weir::detail
