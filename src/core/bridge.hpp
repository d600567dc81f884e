// Waits of a stream of one backend for an event of another.
#pragma once

#include <weir/event.hpp>
#include <weir/stream.hpp>

namespace weir::detail {

/// StreamRef::wait() where the backends differ; both handles are live. Works within one backend, too.
void wait_across(StreamRef stream, EventRef event, SourceLocation where);

}  // namespace weir::detail
