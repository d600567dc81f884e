// The attached observers, and how the core tells them.
#pragma once

#include <functional>
#include <memory>

#include <weir/observer.hpp>

#include "backend.hpp"

namespace weir::detail {

/// Gives the command its id, tells the observers, and submits it; all of it serialised among threads.
void submit_observed(Queue& queue, Command& command);
/// The same for what more than the queue's submit() belongs to.
void submit_observed(Command& command, const std::function<void()>& submit);
/// Tells the observers about something that is not submitted to a queue (allocations).
void observe(Command& command);
void observe_waited(const HostWait& wait);
void observe_opened(const StreamInfo& stream);
void observe_closed(StreamId stream);

}  // namespace weir::detail
