// Checks of what calls are given.
#include "core/checks.hpp"

#include <cstdint>
#include <limits>

#include <weir/algorithm.hpp>
#include <weir/launch.hpp>

#include "core/memory/overlap.hpp"
#include "core/observers.hpp"
#include "json/text.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t most = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
constexpr std::uint32_t most_threads = 1024;

[[noreturn]] void refuse_size(const Shape& shape, const char* operation, SourceLocation where) {
  throw Error(Errc::size_overflow, operation, "size " + describe(shape),
              "a size is negative, or the whole is more than can be addressed", where);
}

std::size_t checked_count(const Shape& shape, const char* operation, SourceLocation where) {
  std::size_t count = 1;
  bool empty = false;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] > most) refuse_size(shape, operation, where);
    if (shape[d] == 0) empty = true;
    if (shape[d] != 0 && count > most / shape[d]) {
      count = most;
      if (!empty) {
        for (std::size_t rest = d + 1; rest < shape.rank(); ++rest) empty = empty || shape[rest] == 0;
        if (!empty) refuse_size(shape, operation, where);
      }
      return 0;
    }
    count *= shape[d] == 0 ? 1 : shape[d];
  }
  return empty ? 0 : count;
}

}  // namespace

std::string describe(const Shape& shape) {
  std::string text = "[";
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    text += (d == 0 ? "" : ", ") + std::to_string(static_cast<std::ptrdiff_t>(shape[d]));
  }
  return text + "]";
}

std::size_t checked_bytes(const Shape& shape, std::size_t element_bytes, const char* operation, SourceLocation where) {
  const std::size_t count = checked_count(shape, operation, where);
  if (count > most / element_bytes) refuse_size(shape, operation, where);
  return count * element_bytes;
}

std::string describe_storage(const Storage& storage) {
  const char* kind = storage.kind == MemoryKind::pageable ? "host"
                     : storage.kind == MemoryKind::pinned ? "pinned"
                                                          : "device";
  const std::string name =
      storage.named.load(std::memory_order_relaxed) ? name_of_buffer(storage.buffer) : std::string();
  std::string text = std::string(kind) + " array " + (name.empty() ? "" : "'" + json::shown(name) + "' ") + "of " +
                     std::to_string(storage.bytes) + " bytes";
  if (storage.kind == MemoryKind::device) text += " on " + storage.device->name;
  return text;
}

Storage& refuse_empty(const char* operation, SourceLocation where) {
  enter(operation, where);
  throw Error(Errc::invalid_handle, operation, "array", "it was moved from or never made", where);
}

void check_rank(std::size_t rank, std::size_t wanted, SourceLocation where) {
  if (rank == wanted) return;
  throw Error(Errc::wrong_shape, "weir::View", "array of " + std::to_string(rank) + " dimensions",
              "a view of " + std::to_string(wanted) + " dimensions was asked for", where);
}

void check_range(std::size_t lo, std::size_t hi, std::size_t step, std::size_t rank, std::size_t dimension,
                 std::size_t size, SourceLocation where) {
  const auto number = [](std::size_t value) { return std::to_string(static_cast<std::ptrdiff_t>(value)); };
  const std::string range = "range " + number(lo) + ".." + number(hi) + " of dimension " + std::to_string(dimension);
  if (dimension >= rank) {
    throw Error(Errc::wrong_shape, "weir::Array::slice", range, "the array has " + std::to_string(rank) + " dimensions",
                where);
  }
  if (step == 0) throw Error(Errc::invalid_value, "weir::Array::slice", range, "a step is at least 1", where);
  if (static_cast<std::ptrdiff_t>(lo) < 0 || static_cast<std::ptrdiff_t>(hi) < 0) {
    throw Error(Errc::wrong_shape, "weir::Array::slice", range, "an index is negative: they count from the beginning",
                where);
  }
  if (lo > hi) throw Error(Errc::wrong_shape, "weir::Array::slice", range, "it ends before it begins", where);
  if (hi > size) {
    throw Error(Errc::wrong_shape, "weir::Array::slice", range,
                "the dimension has " + std::to_string(size) + " elements", where);
  }
}

void check_elements(const char* operation, const char* what, std::size_t count, const Shape& shape,
                    SourceLocation where) {
  if (checked_bytes(shape, 1, operation, where) == count) return;
  throw Error(Errc::wrong_shape, operation, std::string(what) + " of " + std::to_string(count) + " elements",
              "shape " + describe(shape) + " has another number of elements", where);
}

void check_reshape(bool contiguous, std::size_t count, const Shape& shape, SourceLocation where) {
  if (!contiguous) {
    throw Error(Errc::wrong_shape, "weir::Array::reshape", "array", "its memory is not contiguous: clone it first",
                where);
  }
  check_elements("weir::Array::reshape", "array", count, shape, where);
}

void refuse_one_index(std::size_t rank, SourceLocation where) {
  throw Error(Errc::wrong_shape, "weir::Array: operator[]", "array of " + std::to_string(rank) + " dimensions",
              "its rows are not contiguous, so one index names no element: use host_view()(i, j)", where);
}

void refuse_stepped(std::size_t rank, SourceLocation where) {
  throw Error(Errc::wrong_shape, "weir::Array: begin, end, span", "array of " + std::to_string(rank) + " dimensions",
              "its elements are not contiguous: go by index, or clone it", where);
}

void check_not_freed(const Storage& storage, const char* operation, SourceLocation where) {
  if (!storage.freed.load(std::memory_order_relaxed)) return;
  throw Error(Errc::already_freed, operation, describe_storage(storage), "it was given back before", where);
}

void refuse_indices(std::size_t indices, std::size_t rank, SourceLocation where) {
  throw Error(Errc::wrong_shape, "weir::AnyView: an element", "view of " + std::to_string(rank) + " dimensions",
              std::to_string(indices) + (indices == 1 ? " index names" : " indices name") + " no element of it", where);
}

void refuse_rank(const ArgumentPlace& argument, std::size_t rank, const char* operation, SourceLocation where) {
  throw Error(Errc::wrong_shape, operation,
              "argument " + std::to_string(argument.number) + " of kernel '" + std::string(argument.kernel) + "'",
              "an array of " + std::to_string(rank) + " dimensions was passed, and the kernel's weir::View has " +
                  std::to_string(argument.rank),
              where);
}

#if WEIR_CHECKS_INDICES
const bool library_was_built_with_WEIR_CHECKED = true;

namespace {

std::string described_index(std::size_t dimension, std::size_t index, std::size_t size) {
  return "index " + std::to_string(static_cast<std::ptrdiff_t>(index)) + " in dimension " + std::to_string(dimension) +
         ", whose size is " + std::to_string(size);
}
std::string described_view(std::uint32_t argument) {
  return argument == 0 ? "a view" : "argument " + std::to_string(argument);
}

}  // namespace

void refuse_element(std::uint32_t argument, std::size_t dimension, std::size_t index, std::size_t size) {
  throw Error(Errc::out_of_bounds, "weir::View", described_view(argument), described_index(dimension, index, size), {});
}
void refuse_part(std::uint32_t argument, std::size_t lo, std::size_t hi, std::size_t size) {
  throw Error(Errc::out_of_bounds, "weir::View::slice", described_view(argument),
              "elements " + std::to_string(lo) + " to " + std::to_string(hi) + " of dimension 0, whose size is " +
                  std::to_string(size),
              {});
}
void refuse_host_element(std::size_t dimension, std::size_t index, std::size_t size, SourceLocation where) {
  throw Error(Errc::out_of_bounds, "weir::Array: an element", "array", described_index(dimension, index, size), where);
}
#else
const bool library_was_built_without_WEIR_CHECKED = true;
#endif

void refuse_host_access(const Storage* storage, SourceLocation where) {
  require(const_cast<Storage*>(storage), "weir::Array: host access", where);
  throw Error(Errc::wrong_memory, "weir::Array: host access", describe_storage(*storage),
              "the host reaches host and pinned memory only: copy it, or use to_host()", where);
}

bool check_extent(const Shape& extent, std::size_t rank, std::uint32_t block, KernelName kernel, SourceLocation where) {
  return check_extent(extent, rank, block, kernel, "weir::launch", where);
}

bool check_extent(const Shape& extent, std::size_t rank, std::uint32_t block, KernelName kernel, const char* operation,
                  SourceLocation where) {
  if (extent.rank() != rank) [[unlikely]] {
    const char* advice =
        kernel.index_is_auto ? ", as it is not declared: declare it weir::Index<R> for R dimensions" : "";
    throw Error(
        Errc::wrong_shape, operation, "extent " + describe(extent),
        "the index of kernel '" + std::string(kernel.type) + "' has " + std::to_string(rank) + " dimensions" + advice,
        where);
  }
  if (block > most_threads) [[unlikely]] {
    throw Error(Errc::invalid_value, operation, "block of " + std::to_string(block) + " threads",
                "a block has 1 to 1024 threads", where);
  }
  if (rank == 1 && extent[0] <= most) return extent[0] != 0;
  return checked_count(extent, operation, where) != 0;
}

void refuse_index(std::size_t extent, std::size_t most, KernelName kernel, SourceLocation where) {
  throw Error(Errc::size_overflow, "weir::launch", "extent " + std::to_string(extent),
              "the index of kernel '" + std::string(kernel.type) + "' is of a type that counts to " +
                  std::to_string(most) + " elements: declare it std::size_t",
              where);
}

namespace {

/// "8", or "2 x 8".
std::string sizes_text(const Shape& sizes) {
  std::string text;
  for (std::size_t d = 0; d < sizes.rank(); ++d) {
    text += (d == 0 ? "" : " x ") + std::to_string(static_cast<std::ptrdiff_t>(sizes[d]));
  }
  return text;
}

/// Whether a shape has 1 to `limit` elements.
bool has_count(const Shape& shape, std::size_t limit) {
  std::size_t left = limit;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 0 || shape[d] > left) return false;
    left /= shape[d];
  }
  return true;
}

}  // namespace

void check_blocks(StreamRef stream, const BlockExtent& extent, SourceLocation where) {
  constexpr const char* operation = "weir::launch_blocks";
  const StreamState& state = state_of(stream, operation, where);
  const DeviceProperties& limits = Device(state.device).properties();
  if (extent.blocks.rank() > 3 || extent.threads.rank() > 3) {
    throw Error(Errc::wrong_shape, operation, describe(state),
                sizes_text(extent.blocks) + " blocks of " + sizes_text(extent.threads) +
                    " threads: both have 1 to 3 dimensions",
                where);
  }
  if (!has_count(extent.blocks, most)) {
    const bool none = extent.blocks.count() == 0;
    throw Error(Errc::invalid_value, operation, describe(state),
                sizes_text(extent.blocks) + (none ? " blocks: at least one is needed" : " blocks are too many"), where);
  }
  if (!has_count(extent.threads, limits.max_threads_per_block)) {
    throw Error(Errc::invalid_value, operation, describe(state),
                sizes_text(extent.threads) + " threads per block: 1 to " +
                    std::to_string(limits.max_threads_per_block) + " are possible",
                where);
  }
  if (extent.shared_bytes > limits.max_shared_bytes_per_block) {
    throw Error(Errc::invalid_value, operation, describe(state),
                std::to_string(extent.shared_bytes) + " bytes of shared memory per block: at most " +
                    std::to_string(limits.max_shared_bytes_per_block) + " are possible",
                where);
  }
}

Place default_place(const char* operation, SourceLocation where) {
  enter(operation, where);
  return Place(get_stream(where), where);
}

void check_stream(const StreamArg& stream, const char* operation) {
  static_cast<void>(state_of(stream.stream, operation, stream.where));
}

void check_line(std::size_t rank, const char* operation, SourceLocation where) {
  if (rank == 1) return;
  throw Error(Errc::wrong_shape, operation, "array of " + std::to_string(rank) + " dimensions",
              "it works on one dimension: reshape it", where);
}

void check_algorithm(const char* operation, std::size_t n, std::size_t other, bool empty_allowed,
                     SourceLocation where) {
  enter(operation, where);
  if (n == 0 && !empty_allowed) {
    throw Error(Errc::wrong_shape, operation, "an empty array", "at least one element is needed", where);
  }
  const bool at_least_one = !empty_allowed && other == 1;
  if (at_least_one ? n < 1 : n != other) {
    throw Error(Errc::wrong_shape, operation,
                "arrays of " + std::to_string(n) + " and " + std::to_string(other) + " elements",
                "their lengths must be equal", where);
  }
}

void check_segments(std::size_t offsets, std::size_t results, const char* operation, SourceLocation where) {
  enter(operation, where);
  if (offsets == results + 1) return;
  throw Error(Errc::wrong_shape, operation,
              std::to_string(offsets) + " offsets and " + std::to_string(results) + " results",
              "there must be one offset more than results", where);
}

void check_apart(const char* operation, SourceLocation where, std::span<const Endpoint> arrays) {
  for (std::size_t a = 0; a < arrays.size(); ++a) {
    for (std::size_t b = a + 1; b < arrays.size(); ++b) {
      if (!share_memory(arrays[a].data, arrays[a].layout, arrays[b].data, arrays[b].layout)) continue;
      throw Error(Errc::overlapping, operation, "two of its arrays", "they share memory", where);
    }
  }
}

void check_bins(bool in_order, bool finite, const char* operation, SourceLocation where) {
  if (in_order && finite) return;
  throw Error(Errc::invalid_value, operation, "the range of its bins",
              in_order ? "upper - lower is not a finite double" : "lower is not below upper", where);
}

std::optional<PointerInfo> locate(const void* data) {
  for (Backend* backend : backends()) {
    if (auto found = backend->locate(data)) return found;
  }
  return std::nullopt;
}

HostMemory& host_memory() {
  for (DeviceState* device : Runtime::get().devices()) {
    if (HostMemory* memory = device->backend->host_memory()) return *memory;
  }
  throw Error(Errc::not_supported, "weir::pinned", "pinned host memory", "no backend of this build has any", {});
}

DeviceState* device_of(const void* data) {
  for (DeviceState* device : Runtime::get().devices()) {
    const auto found = device->backend->locate(data);
    if (found && found->kind == MemoryKind::device && found->device == device->index) return device;
  }
  return nullptr;
}

void check_reach(MemoryKind kind, const DeviceState* device, const StreamState& stream, const std::string& object,
                 const char* operation, SourceLocation where) {
  if (kind == MemoryKind::pageable && !Device(stream.device).properties().kernels_reach_pageable_memory) {
    throw Error(
        Errc::wrong_memory, operation, object,
        "a kernel on " + stream.device->name + " does not reach pageable host memory: make it weir::pinned, or copy it",
        where);
  }
  if (kind != MemoryKind::device || device == stream.device) return;
  const bool peer =
      device->backend == stream.device->backend && device->backend->peer_access(stream.device->index, device->index);
  if (!peer) {
    throw Error(Errc::wrong_device, operation, object,
                "a kernel on " + stream.device->name + " does not reach it: copy it, or enable_peer_access(" +
                    stream.device->name + ", " + device->name + ")",
                where);
  }
}

void check_raw(const void* data, std::size_t count, std::size_t alignment, StreamRef stream, const char* operation,
               SourceLocation where) {
  if (count == 0) return;
  if (data == nullptr) {
    throw Error(Errc::null_view, operation, "a view of " + std::to_string(count) + " elements", "it has no memory",
                where);
  }
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    throw Error(Errc::misaligned, operation, "a view of " + std::to_string(count) + " elements",
                "its address is not a multiple of " + std::to_string(alignment), where);
  }
  const StreamState& state = state_of(stream, operation, where);
  const auto found = locate(data);
  check_reach(found ? found->kind : MemoryKind::pageable, device_of(data), state, "a view of raw memory", operation,
              where);
}

namespace {

/// Strides that are not those of rows with a distance: the shortest list of repeats that touches the same bytes.
void describe_strides(Region& region, const Shape& shape, const std::ptrdiff_t* stride, std::size_t element_bytes) {
  Region::Repeat repeats[max_rank];
  std::size_t count = 0;
  const auto* lowest = static_cast<const std::byte*>(region.begin);
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1 || stride[d] == 0) continue;  // the same bytes again
    const std::ptrdiff_t bytes = stride[d] * static_cast<std::ptrdiff_t>(element_bytes);
    if (bytes < 0) lowest += static_cast<std::ptrdiff_t>(shape[d] - 1) * bytes;
    const Region::Repeat one{shape[d], static_cast<std::size_t>(bytes < 0 ? -bytes : bytes)};
    std::size_t at = count++;
    for (; at > 0 && repeats[at - 1].stride > one.stride; --at) repeats[at] = repeats[at - 1];
    repeats[at] = one;
  }
  region.begin = lowest;
  std::size_t run = element_bytes;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const Region::Repeat one = repeats[i];
    if (kept == 0 && one.stride <= run) {
      run += (one.count - 1) * one.stride;
    } else if (kept != 0 && one.stride == repeats[kept - 1].count * repeats[kept - 1].stride) {
      repeats[kept - 1].count *= one.count;
    } else {
      repeats[kept++] = one;
    }
  }
  region.row_bytes = run;
  if (kept == 0) return;
  region.rows = repeats[0].count;
  region.pitch = repeats[0].stride;
  region.outer_count = static_cast<std::uint8_t>(kept - 1);
  for (std::size_t i = 1; i < kept; ++i) region.outer[i - 1] = repeats[i];
}

}  // namespace

void describe_region(Region& region, const void* data, const Shape& shape, const std::ptrdiff_t* stride,
                     std::size_t element_bytes, BufferId buffer, Access access) {
  region.begin = data;
  region.row_bytes = 0;
  region.rows = 1;
  region.pitch = 0;
  region.buffer = buffer;
  region.access = access;
  region.outer_count = 0;
  if (shape.count() == 0) {
    region.rows = 0;
    return;
  }
  const auto size = static_cast<std::ptrdiff_t>(element_bytes);
  std::size_t run = element_bytes;
  std::size_t d = shape.rank();
  while (d > 0 && (shape[d - 1] == 1 || stride[d - 1] * size == static_cast<std::ptrdiff_t>(run))) run *= shape[--d];
  region.row_bytes = run;
  if (d == 0) return;
  if (d == 1 && stride[0] * size > static_cast<std::ptrdiff_t>(run)) {
    region.rows = shape[0];
    region.pitch = static_cast<std::size_t>(stride[0] * size);
    return;
  }
  describe_strides(region, shape, stride, element_bytes);
}

}  // namespace weir::detail
