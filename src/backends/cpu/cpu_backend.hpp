// The CPU backend: real asynchronous streams on any machine.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace weir {
class Backend;
namespace detail {
class CollectiveTransport;
}
namespace cpu {
Backend& backend();
/// A device of its own that nobody else sees, for device `index` of a backend that runs its commands here: queues, events and pools
/// are handed on as they are, and say that they are the front's. Its memory may hold `memory` bytes. It is never deleted.
Backend& device_behind(Backend& front, int index, std::size_t memory);
/// Runs collectives among queues of such devices.
std::unique_ptr<detail::CollectiveTransport> transport_behind(const std::vector<Backend*>& behind);
}  // namespace cpu
}  // namespace weir
