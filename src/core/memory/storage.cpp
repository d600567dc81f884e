// The memory behind arrays: made in stream order, given back after everybody who was given it.
#include <weir/detail/storage.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include <weir/array.hpp>
#include <weir/host_call.hpp>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/memory/foreign_memory.hpp"
#include "core/memory/users.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

/// The live storages by buffer, so that a graph can keep alive what a command's regions name. Many small lists: threads
/// that make arrays seldom meet.
class Storages {
 public:
  void add(Storage& storage) {
    List& list = of(storage.buffer);
    const LockGuard guard(list.lock);
    storage.next = list.first;
    list.first = &storage;
  }
  void remove(Storage& storage) {
    List& list = of(storage.buffer);
    const LockGuard guard(list.lock);
    Storage** link = &list.first;
    while (*link != &storage) link = &(*link)->next;
    *link = storage.next;
  }
  /// Counted; null if it is gone.
  Storage* find(BufferId buffer) {
    List& list = of(buffer);
    const LockGuard guard(list.lock);
    for (Storage* storage = list.first; storage != nullptr; storage = storage->next) {
      if (storage->buffer != buffer) continue;
      std::uint32_t owners = storage->owners.load(std::memory_order_relaxed);
      while (owners != 0 && !storage->owners.compare_exchange_weak(owners, owners + 1, std::memory_order_relaxed)) {
      }
      return owners == 0 ? nullptr : storage;
    }
    return nullptr;
  }

 private:
  struct List {
    ShortLock lock;
    Storage* first WEIR_GUARDED_BY(lock) = nullptr;
  };
  static constexpr std::size_t lists = 1024;
  List& of(BufferId buffer) { return lists_[buffer % lists]; }
  std::array<List, lists> lists_;
};
Storages& storages() {
  static auto& all = *new Storages;
  return all;
}

/// In whose order memory begins and ends, as observers are told: that of another process was there before, for all streams.
StreamRef told_home(const Storage& storage) { return is_imported(storage) ? StreamRef{} : storage.home; }

/// What graphs make and free is told as their nodes.
void observe_alloc(const Storage& storage, SourceLocation where) noexcept {
  if (!watched(Watch::memory) || storage.captured_in != 0) return;
  Command command;
  command.where = where;
  command.op = Alloc{storage.data, storage.bytes, storage.buffer, storage.pool, storage.kind == MemoryKind::pinned};
  observe_memory(told_home(storage), command);
}

/// The end of a storage's memory: in the order of the stream named, else of its own, and behind all that were given it.
struct FreeCommand {
  FreeCommand(const Storage& storage, const QueuePlace* users, StreamRef in_order_of, SourceLocation where)
      : stream(in_order_of.id() != 0 ? in_order_of : told_home(storage)) {
    for (const QueuePlace* user = users; user != nullptr; user = user->next) add(user->owner);
    if (storage.home.id() != 0) add(storage.home.id());
    command.where = where;
    command.stream = stream.id();
    command.behind = behind;
    command.op = Free{storage.data, storage.bytes, storage.buffer, storage.pool};
  }
  void add(StreamId id) {
    if (id != 0 && id != stream.id() && std::find(behind.begin(), behind.end(), id) == behind.end())
      behind.push_back(id);
  }

  Command command;
  StreamRef stream;
  std::vector<StreamId> behind;
};

void observe_free(const Storage& storage, const Users* users, StreamRef in_order_of, SourceLocation where) noexcept {
  if (!watched(Watch::memory) || storage.captured_in != 0) return;
  try {
    FreeCommand free(storage, users != nullptr ? users->places.first() : nullptr, in_order_of, where);
    observe_memory(free.stream, free.command);
  } catch (const std::bad_alloc&) {
    // There is no memory to say it.
  }
}

void ask_about_free(Storage& storage, StreamRef in_order_of, SourceLocation where) {
  QueuePlaces users;
  for (const QueuePlace& user : queues_of(storage)) users.push(new QueuePlace(user));
  FreeCommand free(storage, users.first(), in_order_of, where);
  ask_policies(free.stream, free.command);
}

bool home_is_open(const Storage& storage) {
  return storage.home.state()->id.load(std::memory_order_acquire) == storage.home.id();
}

End end_of_device_memory(const Storage& storage, StreamRef in_order_of, SourceLocation where) {
  End end;
  end.data = allocation_of(storage);
  end.pool = storage.pool;
  end.where = where;
  if (in_order_of.state() != nullptr) {
    end.queue = in_order_of.state()->real;
    end.owner_of_queue = in_order_of.id();
    end.open = true;
  } else {
    end.queue = storage.queue;
    end.owner_of_queue = storage.home.id();
    end.open = home_is_open(storage);
  }
  return end;
}

void end_life(Storage& storage, std::unique_ptr<Users> users, StreamRef in_order_of, SourceLocation where) {
  End end;
  if (storage.foreign.release != nullptr) {
    end.owner = storage.foreign;
  } else if (storage.base != nullptr) {
    give_users(*storage.base, std::move(users));
    release(storage.base);
    return;
  } else if (storage.kind == MemoryKind::device) {
    end = end_of_device_memory(storage, in_order_of, where);
    if (users != nullptr) {
      users->places.move_to(end.others,
                            [&](const QueuePlace& user) { return user.device->backend == storage.pool->backend; });
    }
    if (users == nullptr || users->places.empty()) {
      end.pool->release(*end.queue, end.open, end.owner_of_queue, end.others, end.data, where);
      return;
    }
  } else {
    end.data = allocation_of(storage);
    if (storage.kind == MemoryKind::pinned) end.pinned_by = &host_memory();
    if (users == nullptr) {
      end.pinned_by != nullptr ? end.pinned_by->release(end.data) : std::free(end.data);
      return;
    }
  }
  end_behind(std::move(users), std::move(end));
}

void give_back(Storage& storage, std::unique_ptr<Users> users, StreamRef in_order_of, SourceLocation where) {
  try_ends_again();
  if (storage.data == nullptr && storage.foreign.release == nullptr) return;
  observe_free(storage, users.get(), in_order_of, where);
  const bool plain = storage.kind == MemoryKind::device && users == nullptr && storage.base == nullptr;
  if (plain && in_order_of.state() == nullptr && storage.foreign.release == nullptr) [[likely]] {
    storage.pool->release_unshared(*storage.queue, home_is_open(storage), storage.home.id(), allocation_of(storage),
                                   where);
    return;
  }
  end_life(storage, std::move(users), in_order_of, where);
}

/// Host memory that is aligned as the storage wants it.
void allocate_host_memory(Storage& storage, const char* operation, SourceLocation where) {
  const std::size_t alignment = std::max<std::size_t>(storage.alignment, 64);
  const bool possible = storage.bytes <= storage.device->backend->properties(0).memory;
  if (possible) {
    storage.data = std::aligned_alloc(alignment, (storage.bytes + alignment - 1) / alignment * alignment);
  }
  if (storage.data != nullptr) return;
  throw Error(Errc::out_of_memory, operation, "host memory",
              "no memory for " + std::to_string(storage.bytes) + " bytes", where);
}

/// Backends align to 256 bytes. More comes from a larger allocation, in which the elements begin later.
constexpr std::size_t backends_alignment = 256;
std::size_t padded_bytes(const Storage& storage) {
  if (storage.alignment <= backends_alignment || storage.bytes == 0) return storage.bytes;
  const std::size_t more = storage.alignment - backends_alignment;
  return storage.bytes > std::numeric_limits<std::size_t>::max() - more ? storage.bytes : storage.bytes + more;
}
void place(Storage& storage, void* allocation) {
  storage.data = allocation;
  if (storage.alignment <= backends_alignment || allocation == nullptr) return;
  storage.padding =
      (storage.alignment - reinterpret_cast<std::uintptr_t>(allocation) % storage.alignment) % storage.alignment;
  storage.data = static_cast<std::byte*>(allocation) + storage.padding;
}

}  // namespace

void allocate_device_memory(Storage& storage, Queue& queue, const char* operation, SourceLocation where) {
  place(storage, storage.pool->allocate(queue, padded_bytes(storage), operation, where));
}

Storage* make_storage(const char* operation, MemoryKind kind, StreamRef stream, const Shape& shape,
                      std::size_t element_bytes, std::size_t alignment, PoolState* pool, SourceLocation where) {
  enter(operation, where);
  const std::size_t bytes = checked_bytes(shape, element_bytes, operation, where);
  try_ends_again();
  auto storage = std::make_unique<Storage>();
  storage->kind = kind;
  storage->alignment = alignment;
  storage->bytes = bytes;
  storage->buffer = new_buffer();
  if (kind == MemoryKind::device) {
    const StreamState& state = state_of(stream, operation, where);
    storage->device = state.device;
    storage->home = stream;
    storage->queue = state.real;
    storage->pool = pool != nullptr ? pool : state.device->pool.load(std::memory_order_relaxed);
    if (storage->pool->backend != state.device->backend || storage->pool->device != state.device->index) {
      throw Error(Errc::wrong_device, operation, describe(state), "the pool is of another device", where);
    }
    if (Recorder* recorder = state.recorder.load(std::memory_order_acquire)) {
      allocate_captured(*recorder, *storage, operation, where);
    } else {
      allocate_device_memory(*storage, *state.real, operation, where);
    }
  } else {
    storage->device = &Runtime::get().host();
    if (bytes != 0 && kind == MemoryKind::pinned) {
      check_host_wait(operation, "pinned memory", where);
      place(*storage, host_memory().allocate(padded_bytes(*storage), operation, where));
    } else if (bytes != 0) {
      allocate_host_memory(*storage, operation, where);
    }
  }
  observe_alloc(*storage, where);
  storages().add(*storage);
  return storage.release();
}

Storage* adopt_storage(const ForeignMemory& memory, SourceLocation where) {
  auto storage = std::make_unique<Storage>();
  storage->data = memory.data;
  storage->bytes = memory.bytes;
  storage->kind = memory.kind;
  storage->buffer = new_buffer();
  storage->device = memory.device;
  if (memory.kind == MemoryKind::device) {
    storage->home = memory.stream;
    storage->queue = memory.stream.state()->real;
  }
  auto users = std::make_unique<Users>();  // now, so that the end needs no memory
  if (storage->queue != nullptr) {
    users->places.push(new QueuePlace(place_of(storage->queue, memory.stream.id(), storage->device)));
  }
  storage->users = users.release();
  storage->foreign = memory.owner;
  observe_alloc(*storage, where);
  storages().add(*storage);
  return storage.release();
}

void fill_new(const char* operation, Storage& storage, StreamRef stream, const Shape& shape, const void* value,
              std::size_t element_bytes, SourceLocation where) {
  const std::size_t count = shape.count();
  if (count == 0) return;
  if (storage.kind != MemoryKind::device) {
    auto* at = static_cast<std::byte*>(storage.data);
    for (std::size_t i = 0; i < count; ++i, at += element_bytes) std::memcpy(at, value, element_bytes);
    return;
  }
  Layout layout;
  layout.shape = Shape(count);
  layout.stride[0] = static_cast<std::ptrdiff_t>(element_bytes);
  layout.element_bytes = element_bytes;
  const Region region{storage.data, count * element_bytes, 1, 0, storage.buffer, Access::write};
  Command command;
  command.where = where;
  command.uses = std::span<const Region>(&region, 1);
  command.op = Fill{storage.data, layout, value, MemoryKind::device};
  submit(stream, command, operation);
}

Storage* retain_buffer(BufferId buffer) { return storages().find(buffer); }

void retain(Storage* storage) noexcept {
  if (storage != nullptr) storage->owners.fetch_add(1, std::memory_order_relaxed);
}

void release(Storage* storage) noexcept {
  if (storage == nullptr) return;
  const BufferId buffer = storage->buffer;
  const std::uint64_t captured_in = storage->captured_in;
  if (storage->owners.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    if (captured_in != 0) [[unlikely]]
      note_released(buffer, captured_in);
    return;
  }
  storages().remove(*storage);
  if (storage->named.load(std::memory_order_relaxed)) [[unlikely]]
    forget_name(buffer);
  const std::unique_ptr<Storage> last(storage);
  // Memory of a graph stays when its array is freed; it goes with the last of both. So does what other processes import.
  if (!forked() && (!storage->freed.exchange(true) || captured_in != 0 || storage->kept)) {
    try {
      // The last owner: nobody else looks at the users.
      give_back(*storage, std::unique_ptr<Users>(std::exchange(storage->users, nullptr)), {}, {});
    } catch (...) {
      // The device answers no more.
    }
  }
  delete storage->users;  // noted by a use on another thread while the array was freed
}

/// Memory that was freed while it was imported, once it is not any more: by one of the two that see it.
void give_back_kept(Storage& storage) noexcept {
  if (storage.imports.load() != 0 || !storage.kept.exchange(false)) return;
  try {
    give_back(storage, take_users(storage), {}, {});
  } catch (...) {
    // The device answers no more.
  }
}

void drop_import(Storage* storage) noexcept {
  storage->imports.fetch_sub(1);
  give_back_kept(*storage);
  release(storage);
}

void free_storage(Storage* storage, StreamRef stream, SourceLocation where) {
  constexpr const char* operation = "weir::Array::free";
  enter(operation, where);
  if (storage == nullptr) {
    throw Error(Errc::already_freed, operation, "array", "it was moved from or never made: it has no memory", where);
  }
  if (stream.id() != 0) {
    const StreamState& state = state_of(stream, operation, where);
    if (storage->kind == MemoryKind::device && state.device->backend != storage->device->backend) {
      throw Error(Errc::wrong_device, operation, describe(state), "the array is of " + storage->device->name, where);
    }
  }
  if (stream.id() != 0) check_free_into(*storage, stream, operation, where);
  const StreamRef in_order_of = stream.id() != 0 ? stream : StreamRef{};
  if (in_order_of.id() != 0 && storage->captured_in == 0) {
    // While nothing has changed: this may find no memory.
    const bool ours = storage->kind == MemoryKind::device && storage->foreign.release == nullptr;
    if (!ours) {
      note_queue(*storage, in_order_of);
    } else if (in_order_of.state()->real != storage->queue) {
      note_queue(*storage, storage->queue, storage->home.id(), storage->device);
      if (storage->imports.load() != 0) note_queue(*storage, in_order_of);
    }
  }
  if (asked() && storage->captured_in == 0 && !storage->freed.load(std::memory_order_relaxed)) {
    ask_about_free(*storage, in_order_of, where);
  }
  if (storage->freed.exchange(true)) {
    throw Error(Errc::already_freed, operation, describe_storage(*storage), "it was given back before", where);
  }
  if (storage->captured_in != 0) {
    try {
      note_freed(storage->buffer, storage->captured_in, stream, where);  // the memory itself is the graph's, too
    } catch (...) {
      storage->freed = false;  // no node says that it ended
      throw;
    }
    return;
  }
  if (storage->imports.load() != 0) {
    storage->kept = true;
    give_back_kept(*storage);  // the last import may have gone meanwhile
    return;
  }
  give_back(*storage, take_users(*storage), in_order_of, where);
}

Device storage_device(const Storage& storage) { return Device(storage.device); }

void check_kernel_use(const Storage& storage, StreamRef stream, const char* operation, SourceLocation where) {
  const StreamState& state = state_of(stream, operation, where);
  check_not_freed(storage, operation, where);
  const bool reached =
      storage.kind == MemoryKind::pinned || (storage.kind == MemoryKind::device && storage.device == state.device);
  // Only the refusal needs a description, and making one costs more than a launch.
  if (!reached) check_reach(storage.kind, storage.device, state, describe_storage(storage), operation, where);
}

void note_use(Storage& storage, StreamRef stream, bool by_kernel, const char* operation, SourceLocation where) {
  if (by_kernel) {
    check_kernel_use(storage, stream, operation, where);
  } else {
    static_cast<void>(state_of(stream, operation, where));
    check_not_freed(storage, operation, where);
  }
  if (storage.data != nullptr && storage.home.id() != stream.id()) note_queue(storage, stream);
}

}  // namespace weir::detail
