// What this process has exported, and how it answers those who import it.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/ipc/wire.hpp"
#include "core/runtime.hpp"

namespace weir::detail::ipc {

/// An array as another process will find it.
struct ExportedArray {
  BufferId buffer = 0;
  void* data = nullptr;
  Shape shape;
  SharedElements elements{};
};

Name export_object(const ExportedArray& array, const char* operation, SourceLocation where);
Name export_object(EventRef event, const char* operation, SourceLocation where);

extern std::atomic<std::uint32_t> exported_events;
void forget_event_slowly(std::uint64_t id) noexcept;
/// The event is about to be destroyed.
inline void forget_event(std::uint64_t id) noexcept {
  if (exported_events.load(std::memory_order_acquire) != 0) [[unlikely]]
    forget_event_slowly(id);
}

}  // namespace weir::detail::ipc
