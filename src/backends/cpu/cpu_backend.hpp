// The CPU backend: real asynchronous streams on any machine.
#pragma once

#include <cstddef>

namespace weir {
class Backend;
namespace cpu {
Backend& backend();
/// A device of its own that nobody else sees, for device `index` of a backend that runs its commands here: queues, events and pools
/// are handed on as they are, and say that they are the front's. Its memory may hold `memory` bytes. It is never deleted.
Backend& device_behind(Backend& front, int index, std::size_t memory);
}  // namespace cpu
}  // namespace weir
