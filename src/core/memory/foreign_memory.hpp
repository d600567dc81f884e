// Memory of other libraries: taken in, and handed back to them.
#pragma once

#include <utility>
#include <vector>

#include <weir/detail/storage.hpp>

#include "backend.hpp"
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

/// Whether it is an array of another process (core/ipc).
bool is_imported(const Storage& storage);

/// Every queue that was given the memory, the one of its home stream included.
std::vector<QueuePlace> queues_of(Storage& storage);

/// Calls the owner of ended memory on a thread for that: a foreign deleter may take locks, call the driver, call Weir. It may
/// hold up other deleters, and nothing else. Takes the users.
void hand_back_elsewhere(Users& ended) noexcept;

}  // namespace weir::detail
