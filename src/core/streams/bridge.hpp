// Waits of a stream of one backend for an event, or a queue, of another.
#pragma once

#include <weir/event.hpp>
#include <weir/stream.hpp>

namespace weir {
class Queue;
}

namespace weir::detail {

/// StreamRef::wait() where the backends differ; both handles are live. Works within one backend, too.
void wait_across(StreamRef stream, EventRef event, SourceLocation where);

/// Queue::follow() where the backends differ; `device` is that of `other`.
void follow_across(Queue& waiting, Queue& other, StreamId owner, const DeviceState& device, SourceLocation where);

}  // namespace weir::detail
