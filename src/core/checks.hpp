// Checks of what calls are given: sizes, shapes, addresses, reach.
#pragma once

#include <cstddef>
#include <string>

#include <weir/detail/arguments.hpp>
#include <weir/detail/storage.hpp>

#include "core/runtime.hpp"

namespace weir::detail {

/// shape's bytes. Throws size_overflow for negative sizes and for more than can be addressed.
std::size_t checked_bytes(const Shape& shape, std::size_t element_bytes, const char* operation, SourceLocation where);
std::string describe_storage(const Storage& storage);
std::string describe(const Shape& shape);
/// Checks a launch's sizes for a call of another name than weir::launch; true if there is something to run.
bool check_extent(const Shape& extent, std::size_t rank, std::uint32_t block, KernelName kernel, const char* operation,
                  SourceLocation where);
/// Whether kernels on `stream` reach memory of this kind and device. Throws wrong_memory, wrong_device.
void check_reach(MemoryKind kind, const DeviceState* device, const StreamState& stream, const std::string& object,
                 const char* operation, SourceLocation where);
/// Adds a stream to those that the memory must outlive.
void note_queue(Storage& storage, StreamRef stream);
void note_queue(Storage& storage, Queue* queue, StreamId owner, DeviceState* device);
/// Device memory for the storage, in the order of that queue; none for 0 bytes.
void allocate_device_memory(Storage& storage, Queue& queue, const char* operation, SourceLocation where);
/// What the backend gave for the storage.
inline void* allocation_of(const Storage& storage) { return static_cast<std::byte*>(storage.data) - storage.padding; }
/// The storage of a buffer, counted once more; null if it is gone.
Storage* retain_buffer(BufferId buffer);
/// An importer has let it go: the last one of memory that was freed meanwhile gives it back.
void drop_import(Storage* storage) noexcept;
/// What any backend knows of an address.
std::optional<PointerInfo> locate(const void* data);
/// The best that is present.
HostMemory& host_memory();
/// The device that an address belongs to; null for host memory.
DeviceState* device_of(const void* data);

}  // namespace weir::detail
