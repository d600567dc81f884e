// Copies and fills: what the two sides are, whether they fit, and on which stream they go (W17).
#include <weir/copy.hpp>
#include <weir/detail/arguments.hpp>

#include <cstdint>
#include <optional>

#include "core/checks.hpp"
#include "core/memory/dense.hpp"
#include "core/memory/overlap.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

/// What the address of a side says.
struct Side {
  MemoryKind kind = MemoryKind::pageable;
  DeviceState* device = nullptr;  ///< of device memory
};

/// For errors alone: texts cost more than the rest of a call.
std::string text_of(const Endpoint& end) {
  if (end.storage != nullptr) return describe_storage(*end.storage);
  return end.range ? "host range" : "view of shape " + describe(end.layout.shape);
}

/// Memory that Weir allocated, or that the user pinned, has an end (R48), and a beginning, which strides below zero may pass.
void check_bounds(const Endpoint& end, const PointerInfo& info, const char* operation, SourceLocation where) {
  std::size_t after = end.layout.element_bytes;
  std::size_t before = 0;
  for (std::size_t d = 0; d < end.layout.shape.rank(); ++d) {
    const std::ptrdiff_t stride = end.layout.stride[d];
    const std::size_t steps = end.layout.shape[d] - 1;
    (stride > 0 ? after : before) += steps * static_cast<std::size_t>(stride > 0 ? stride : -stride);
  }
  if (after > info.bytes) {
    throw Error(
        Errc::invalid_value, operation, text_of(end),
        "it spans " + std::to_string(after) + " bytes, but its allocation ends after " + std::to_string(info.bytes),
        where);
  }
  if (before == 0) return;
  const auto address = reinterpret_cast<std::uintptr_t>(end.data);
  const auto lowest =
      before <= address ? locate(reinterpret_cast<const void*>(address - before)) : std::optional<PointerInfo>();
  if (lowest && lowest->kind == info.kind && lowest->bytes >= before + after) return;
  throw Error(Errc::invalid_value, operation, text_of(end),
              "it reaches " + std::to_string(before) + " bytes below its address, where its allocation does not",
              where);
}

Side examine(const Endpoint& end, const char* operation, SourceLocation where) {
  if (end.no_array) refuse_empty(operation, where);
  Side side;
  const std::size_t bytes = checked_bytes(end.layout.shape, end.layout.element_bytes, operation, where);
  if (end.storage != nullptr) {
    side.kind = end.storage->kind;
    side.device = side.kind == MemoryKind::device ? end.storage->device : nullptr;
    if (end.storage->freed.load(std::memory_order_relaxed)) {
      throw Error(Errc::already_freed, operation, text_of(end), "it was given back before", where);
    }
    return side;
  }
  if (bytes == 0) return side;
  if (end.data == nullptr) throw Error(Errc::null_view, operation, text_of(end), "it has no memory", where);
  if (reinterpret_cast<std::uintptr_t>(end.data) % end.alignment != 0) {
    throw Error(Errc::misaligned, operation, text_of(end),
                "its address is not a multiple of " + std::to_string(end.alignment), where);
  }
  if (const auto found = locate(end.data)) {
    side.kind = found->kind;
    if (side.kind == MemoryKind::device) side.device = device_of(end.data);
    check_bounds(end, *found, operation, where);
  }
  return side;
}

void check_shapes(const Endpoint& to, const Endpoint& from, SourceLocation where) {
  const Shape& a = to.layout.shape;
  const Shape& b = from.layout.shape;
  const bool fits = to.range || from.range ? a.count() == b.count() : a == b;
  if (!fits) {
    throw Error(Errc::wrong_shape, "weir::copy", "shapes " + describe(a) + " and " + describe(b),
                "destination and source must have the same shape", where);
  }
}

Region whole(const Endpoint& end, const Layout& layout, Access access) {
  std::ptrdiff_t stride[max_rank];
  for (std::size_t d = 0; d < max_rank; ++d) {
    stride[d] = layout.stride[d] / static_cast<std::ptrdiff_t>(layout.element_bytes == 0 ? 1 : layout.element_bytes);
  }
  Region region;
  describe_region(region, end.data, layout.shape, stride, layout.element_bytes, end.storage ? end.storage->buffer : 0,
                  access);
  return region;
}

StreamRef choose_stream(StreamRef stream, const DeviceState* to, const DeviceState* from, SourceLocation where) {
  if (stream.id() != 0) return stream;
  if (to != nullptr) return get_stream(Device(const_cast<DeviceState*>(to)), where);
  if (from != nullptr) return get_stream(Device(const_cast<DeviceState*>(from)), where);
  return get_stream(where);
}

void check_backend(const Endpoint& end, const Side& side, const StreamState& stream, const char* operation,
                   SourceLocation where) {
  if (side.device == nullptr || side.device->backend == stream.device->backend) return;
  throw Error(Errc::wrong_device, operation, describe(stream),
              text_of(end) + " is of another backend: copy by way of host memory", where);
}

}  // namespace

void copy(StreamRef stream, const Endpoint& to, const Endpoint& from, SourceLocation where) {
  constexpr const char* operation = "weir::copy";
  enter(operation, where);
  const Side to_side = examine(to, operation, where);
  const Side from_side = examine(from, operation, where);
  check_shapes(to, from, where);
  stream = choose_stream(stream, to_side.device, from_side.device, where);
  const StreamState& state = state_of(stream, operation, where);
  if (to.layout.shape.count() == 0) return;
  check_backend(to, to_side, state, operation, where);
  check_backend(from, from_side, state, operation, where);

  Copy op{};
  op.to = to.data;
  op.from = from.data;
  op.to_layout = to.range ? dense(from.layout.shape, to.layout.element_bytes) : to.layout;
  op.from_layout = from.range && !to.range ? dense(to.layout.shape, from.layout.element_bytes) : from.layout;
  op.to_kind = to_side.kind;
  op.from_kind = from_side.kind;
  op.to_device = to_side.device ? to_side.device->index : 0;
  op.from_device = from_side.device ? from_side.device->index : 0;
  const Region regions[2] = {whole(to, op.to_layout, Access::write), whole(from, op.from_layout, Access::read)};
  if (share_memory(to.data, op.to_layout, from.data, op.from_layout)) {
    throw Error(Errc::overlapping, operation, "destination and source", "they share memory", where);
  }
  for (Storage* storage : {to.storage, from.storage}) {
    if (storage != nullptr) use(*storage, stream, false, operation, where);
  }
  Command command;
  command.where = where;
  command.uses = regions;
  command.op = op;
  submit(stream, command, operation);
}

void fill(StreamRef stream, const Endpoint& to, const void* value, SourceLocation where) {
  constexpr const char* operation = "weir::fill";
  enter(operation, where);
  const Side side = examine(to, operation, where);
  stream = choose_stream(stream, side.device, nullptr, where);
  const StreamState& state = state_of(stream, operation, where);
  if (to.layout.shape.count() == 0) return;
  check_backend(to, side, state, operation, where);
  if (side.kind == MemoryKind::device && side.device != state.device) {
    check_reach(side.kind, side.device, state, text_of(to), operation, where);
  }
  if (to.storage != nullptr) use(*to.storage, stream, false, operation, where);
  const Region region = whole(to, to.layout, Access::write);
  Command command;
  command.where = where;
  command.uses = std::span<const Region>(&region, 1);
  command.op = Fill{to.data, to.layout, value, side.kind};
  submit(stream, command, operation);
}

}  // namespace weir::detail
