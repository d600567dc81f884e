// The counted memory behind arrays: for the library. Users meet it through Array and Slice.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <weir/detail/checked.hpp>
#include <weir/memory.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {
class Queue;
}

namespace weir::detail {

struct Users;

/// Whose memory it is, if not Weir's: `release(context)` is called once nobody in Weir uses it any more.
struct ForeignOwner {
  void (*release)(void* context) = nullptr;
  void* context = nullptr;
};

/// Of elements, in bytes: a page.
inline constexpr std::size_t most_alignment = 4096;

/// One allocation: where it is, whose it is, and which streams other than its own were given it.
struct Storage {
  void* data = nullptr;
  std::size_t bytes = 0;
  MemoryKind kind = MemoryKind::device;
  BufferId buffer = 0;
  std::size_t alignment = 1;  ///< of the elements
  std::size_t padding = 0;    ///< between the beginning of the allocation and `data`
  DeviceState* device = nullptr;
  StreamRef home;          ///< empty for host memory
  Queue* queue = nullptr;  ///< home's; lives on when the stream is gone
  PoolState* pool = nullptr;
  std::atomic<std::uint32_t> owners{1};
  std::atomic<bool> freed{false};
  std::atomic<bool> named{false};
  std::atomic<std::uint32_t> imports{0};  ///< by other processes, each of them an owner
  std::atomic<bool> kept{false};          ///< freed while it was imported: it ends with the last import
  ForeignOwner foreign;
  Users* users = nullptr;  ///< guarded by users_lock
  std::atomic_flag users_lock = ATOMIC_FLAG_INIT;
  Storage* next = nullptr;        ///< guarded by its list's lock
  std::uint64_t captured_in = 0;  ///< the capture that made it; 0 outside of captures
  Storage* base = nullptr;        ///< counted: whose memory it is a second life of, inside one graph
};

/// Memory for `shape` elements. `pool` null: the device's present one.
Storage* make_storage(const char* operation, MemoryKind kind, StreamRef stream, const Shape& shape,
                      std::size_t element_bytes, std::size_t alignment, PoolState* pool, SourceLocation where);
void fill_new(const char* operation, Storage& storage, StreamRef stream, const Shape& shape, const void* value,
              std::size_t element_bytes, SourceLocation where);
void retain(Storage* storage) noexcept;
/// The last owner gives the memory back in stream order, after the uses on other streams.
void release(Storage* storage) noexcept;
void free_storage(Storage* storage, StreamRef stream, SourceLocation where);
Device storage_device(const Storage& storage);
void name_storage(Storage& storage, std::string_view name);

/// Throws already_freed, and wrong_device or wrong_memory if no kernel of the stream reaches the memory.
void check_kernel_use(const Storage& storage, StreamRef stream, const char* operation, SourceLocation where);
/// Checks that a command on `stream` may use the memory and, on a stream other than its own, notes the use so that the
/// memory outlives it. Throws already_freed, wrong_device, wrong_memory.
void note_use(Storage& storage, StreamRef stream, bool by_kernel, const char* operation, SourceLocation where);
inline void use(Storage& storage, StreamRef stream, bool by_kernel, const char* operation, SourceLocation where) {
  if (storage.home.id() == stream.id() && stream.id() != 0 && !storage.freed.load(std::memory_order_relaxed)) return;
  note_use(storage, stream, by_kernel, operation, where);
}

/// Throws invalid_handle for an array that was moved from or never made.
Storage& refuse_empty(const char* operation, SourceLocation where);
inline Storage& require(Storage* storage, const char* operation, SourceLocation where) {
  return storage ? *storage : refuse_empty(operation, where);
}

void check_rank(std::size_t rank, std::size_t wanted, SourceLocation where);
void check_range(std::size_t lo, std::size_t hi, std::size_t step, std::size_t rank, std::size_t dimension,
                 std::size_t size, SourceLocation where);
/// Throws wrong_shape for a shape of another number of elements than `what` has.
void check_elements(const char* operation, const char* what, std::size_t count, const Shape& shape,
                    SourceLocation where);
void check_reshape(bool contiguous, std::size_t count, const Shape& shape, SourceLocation where);
[[noreturn]] void refuse_one_index(std::size_t rank, SourceLocation where);
[[noreturn]] void refuse_stepped(std::size_t rank, SourceLocation where);
/// Throws already_freed.
void check_not_freed(const Storage& storage, const char* operation, SourceLocation where);
[[noreturn]] void refuse_indices(std::size_t indices, std::size_t rank, SourceLocation where);
[[noreturn]] void refuse_host_access(const Storage* storage, SourceLocation where);

#if WEIR_CHECKS_INDICES
/// Throws out_of_bounds.
[[noreturn]] void refuse_host_element(std::size_t dimension, std::size_t index, std::size_t size, SourceLocation where);
/// The host reads one element, at this moment.
void tell_element_read(Storage& storage, const void* element, std::size_t bytes, SourceLocation where);
#endif

}  // namespace weir::detail
