// Launches of a queue that has one way for closures of any size. Not in the header: a compiler that sees them guesses that
// every queue is one of these, and tests for it on the hot path.
#include "backend.hpp"

namespace weir {

void Queue::launch_empty(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}
void Queue::launch_32(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}
void Queue::launch_64(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) {
  launch(stream, kernel, closure, size, site);
}

}  // namespace weir
