// Commands as text, for messages, tools and golden tests.
#include <cstdio>
#include <string>

#include <weir/kernel.hpp>
#include <weir/observer.hpp>

#include "core/checks.hpp"

namespace weir {

namespace {

std::string hex(const void* address) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%zx", reinterpret_cast<std::size_t>(address));
  return text;
}

std::string memory(const void* data, MemoryKind kind, int device) {
  switch (kind) {
    case MemoryKind::pageable: return "host " + hex(data);
    case MemoryKind::pinned: return "pinned " + hex(data);
    case MemoryKind::device: return "device " + std::to_string(device) + " " + hex(data);
  }
  return hex(data);
}

std::string launch_text(const Launch& launch) {
  const std::string name = launch.name != nullptr ? std::string(launch.name) : std::string(launch.kernel->name);
  std::string text =
      (launch.kernel->rank == 0 ? "launch_blocks " : "launch ") + name + " " + detail::describe(launch.extent);
  if (launch.kernel->rank == 0) {
    text += " x " +
            (launch.thread_shape.rank() == 1 ? std::to_string(launch.threads) : detail::describe(launch.thread_shape));
    if (launch.shared_bytes != 0) text += " shared " + std::to_string(launch.shared_bytes);
  }
  return text;
}

std::string bytes_of(const void* value, std::size_t bytes) {
  std::string text = "0x";
  for (std::size_t i = bytes; i-- > 0 && text.size() < 34;) {
    char pair[3];
    std::snprintf(pair, sizeof pair, "%02x", static_cast<unsigned>(static_cast<const unsigned char*>(value)[i]));
    text += pair;
  }
  return text;
}

std::string collective_text(const Collective& collective) {
  std::string text = std::string(collective.call) + " " + std::to_string(collective.number) + " of communicator " +
                     std::to_string(collective.communicator) + ", rank " + std::to_string(collective.rank) + " of " +
                     std::to_string(collective.size);
  if (collective.peer >= 0) text += ", with " + std::to_string(collective.peer);
  return text + ", " + std::to_string(collective.bytes) + " bytes";
}

}  // namespace

std::string to_text(const Op& op) {
  return visit_op(
      op, [](const Launch& launch) { return launch_text(launch); },
      [](const Copy& copy) {
        return "copy " + detail::describe(copy.to_layout.shape) + " x " + std::to_string(copy.to_layout.element_bytes) +
               " to " + memory(copy.to, copy.to_kind, copy.to_device) + " from " +
               memory(copy.from, copy.from_kind, copy.from_device);
      },
      [](const Fill& fill) {
        return "fill " + detail::describe(fill.layout.shape) + " at " + hex(fill.to) + " with " +
               bytes_of(fill.value, fill.layout.element_bytes);
      },
      [](const Alloc& alloc) { return "alloc " + std::to_string(alloc.bytes) + " at " + hex(alloc.data); },
      [](const Free& free) { return "free " + hex(free.data); },
      [](const Record& record) { return "record event " + std::to_string(record.event_id); },
      [](const Wait& wait) { return "wait event " + std::to_string(wait.event_id); },
      [](const HostCall&) { return std::string("host_call"); }, [](const External&) { return std::string("external"); },
      [](const GraphLaunch&) { return std::string("graph"); },
      [](const Collective& collective) { return collective_text(collective); });
}

std::string to_text(const Command& command) {
  std::string text = "stream " + std::to_string(command.stream) + ": " + to_text(command.op);
  for (const Region& region : command.uses) {
    const char* access = region.access == Access::read    ? " read "
                         : region.access == Access::write ? " write "
                                                          : " update ";
    text += access + hex(region.begin) + "+" + std::to_string(region.extent_bytes());
  }
  return text;
}

}  // namespace weir
