// Memory of other libraries: taken in, and handed back to them.
#pragma once

#include <utility>
#include <vector>

#include <weir/storage.hpp>

#include "core/runtime.hpp"

namespace weir::detail {

struct ForeignMemory {
  void* data;
  std::size_t bytes;
  MemoryKind kind;
  DeviceState* device;
  StreamRef stream;  ///< whose device memory it is from here on
  ForeignOwner owner;
};
Storage* adopt_storage(const ForeignMemory& memory, SourceLocation where);

/// Every queue that was given the memory, the one of its home stream included.
std::vector<std::pair<Queue*, DeviceState*>> queues_of(Storage& storage);

/// Calls the owner once these queues have done what they hold now: at once if they have, else later on a thread of its own,
/// since a foreign deleter may take locks, call the driver, and must not run inside a host function.
void hand_back(const ForeignOwner& owner, const std::vector<std::pair<Queue*, DeviceState*>>& users);

}  // namespace weir::detail
