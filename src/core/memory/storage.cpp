// The memory behind arrays: made in stream order, given back after everybody who was given it.
#include <weir/storage.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include <weir/array.hpp>
#include <weir/host_call.hpp>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/memory/foreign_memory.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"
#include "core/streams/bridge.hpp"

namespace weir::detail {

/// The queues, other than the home stream's, that were given the memory.
struct Users {
  std::vector<std::pair<Queue*, DeviceState*>> queues;
};

namespace {

std::atomic<BufferId> next_buffer{1};

class UsersGuard {
 public:
  explicit UsersGuard(std::atomic_flag& flag) : flag_(flag) {
    while (flag_.test_and_set(std::memory_order_acquire)) {
    }
  }
  ~UsersGuard() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag& flag_;
};

/// The live storages by buffer, so that a graph can keep alive what a command's regions name. Many small lists: threads
/// that make arrays seldom meet.
class Storages {
 public:
  void add(Storage& storage) {
    List& list = of(storage.buffer);
    const UsersGuard guard(list.lock);
    storage.next = list.first;
    list.first = &storage;
  }
  void remove(Storage& storage) {
    List& list = of(storage.buffer);
    const UsersGuard guard(list.lock);
    Storage** link = &list.first;
    while (*link != &storage) link = &(*link)->next;
    *link = storage.next;
  }
  /// Counted; null if it is gone.
  Storage* find(BufferId buffer) {
    List& list = of(buffer);
    const UsersGuard guard(list.lock);
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
    std::atomic_flag lock = ATOMIC_FLAG_INIT;
    Storage* first = nullptr;  ///< guarded by lock
  };
  static constexpr std::size_t lists = 1024;
  List& of(BufferId buffer) { return lists_[buffer % lists]; }
  std::array<List, lists> lists_;
};
Storages& storages() {
  static auto& all = *new Storages;
  return all;
}

/// Frees host memory when the queue is done with it, also where a failure skipped the call itself.
class FreeHostMemory final : public HostFunction {
 public:
  FreeHostMemory(Backend* pinned_by, void* data) : pinned_by_(pinned_by), data_(data) {}
  ~FreeHostMemory() override {
    if (pinned_by_ != nullptr) {
      pinned_by_->release_pinned(data_);
    } else {
      std::free(data_);
    }
  }
  void call(NativeStream) override {}

 private:
  Backend* pinned_by_;
  void* data_;
};

/// The backend whose pinned memory serves all devices: the best one present.
Backend& host_backend() { return *Runtime::get().devices().front()->backend; }

void observe_memory(const Storage& storage, bool freed, SourceLocation where) {
  if ((hooks.load(std::memory_order_relaxed) & observed) == 0) return;
  Command command;
  command.where = where;
  command.stream = storage.home.id();
  if (freed) {
    command.op = Free{storage.data, storage.bytes, storage.buffer, storage.pool};
  } else {
    command.op = Alloc{storage.data, storage.bytes, storage.buffer, storage.pool};
  }
  observe(command);
}

/// Gives device memory back to its pool: in the order of `queue` if that one alone used it, else behind all users.
void free_device_memory(Storage& storage, Queue* queue, bool home_alive, SourceLocation where) {
  const Users* users = storage.users;
  const bool alone = users == nullptr && home_alive && queue == storage.queue;
  if (!alone) {
    Queue& reclaim = *storage.device->reclaim;
    reclaim.follow(*storage.queue);
    if (queue != storage.queue) reclaim.follow(*queue);
    if (users != nullptr) {
      for (const auto& [user, device] : users->queues) reclaim.follow(*user);
    }
    queue = &reclaim;
  }
  storage.device->backend->release(*storage.pool, *queue, storage.data, where);
}

void follow_or_wait(Queue& queue, Queue& user, const DeviceState& user_device) {
  try {
    follow_across(queue, user, user_device, {});
  } catch (const std::exception&) {
    user.drain();  // better late than reused too early
  }
}

void free_host_memory(Storage& storage) {
  Backend* pinned_by = storage.kind == MemoryKind::pinned ? &host_backend() : nullptr;
  auto memory = std::make_unique<FreeHostMemory>(pinned_by, storage.data);
  if (storage.users == nullptr) return;
  const auto& queues = storage.users->queues;
  if (std::all_of(queues.begin(), queues.end(), [](const auto& user) { return user.first->done(); })) return;
  const DeviceState& device = *queues.front().second;
  FreeHostMemory* const waiting =
      memory.release();  // where it cannot wait for its users it stays, as device memory does
  for (const auto& [user, user_device] : queues) {
    if (user_device->backend == device.backend) {
      device.reclaim->follow(*user);
    } else {
      follow_or_wait(*device.reclaim, *user, *user_device);
    }
  }
  Command command;
  command.op = HostCall{waiting};
  device.reclaim->submit(command);
}

void give_back(Storage& storage, StreamRef in_order_of, SourceLocation where) {
  if (storage.foreign.release != nullptr) {
    observe_memory(storage, true, where);
    hand_back(storage.foreign, queues_of(storage));
    return;
  }
  if (storage.data == nullptr) return;
  observe_memory(storage, true, where);
  if (storage.base != nullptr) {
    for (const auto& [queue, device] : queues_of(storage)) note_queue(*storage.base, queue, device);
    release(storage.base);
    return;
  }
  if (storage.kind != MemoryKind::device) {
    free_host_memory(storage);
    return;
  }
  const bool home_alive = storage.home.state()->id.load(std::memory_order_acquire) == storage.home.id();
  Queue* queue = in_order_of.state() != nullptr ? in_order_of.state()->real : storage.queue;
  free_device_memory(storage, queue, home_alive, where);
}

}  // namespace

std::vector<std::pair<Queue*, DeviceState*>> queues_of(Storage& storage) {
  std::vector<std::pair<Queue*, DeviceState*>> queues;
  const UsersGuard guard(storage.users_lock);
  if (storage.users != nullptr) queues = storage.users->queues;
  if (storage.queue != nullptr) queues.emplace_back(storage.queue, storage.device);
  return queues;
}

Storage* make_storage(const char* operation, MemoryKind kind, StreamRef stream, const Shape& shape,
                      std::size_t element_bytes, std::size_t alignment, PoolState* pool, SourceLocation where) {
  enter(operation, where);
  const std::size_t bytes = checked_bytes(shape, element_bytes, operation, where);
  auto storage = std::make_unique<Storage>();
  storage->kind = kind;
  storage->bytes = bytes;
  storage->buffer = next_buffer.fetch_add(1, std::memory_order_relaxed);
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
      storage->data = state.device->backend->allocate(*storage->pool, *state.real, bytes, operation, where);
    }
  } else {
    storage->device = Runtime::get().first_of("cpu");
    if (bytes != 0 && kind == MemoryKind::pinned) {
      check_host_wait(operation, "pinned memory", where);
      storage->data = host_backend().allocate_pinned(bytes, operation, where);
    } else if (bytes != 0) {
      const std::size_t aligned = std::max<std::size_t>(alignment, 64);
      const bool possible = bytes <= storage->device->backend->properties(0).memory;
      storage->data = possible ? std::aligned_alloc(aligned, (bytes + aligned - 1) / aligned * aligned) : nullptr;
      if (storage->data == nullptr) {
        throw Error(Errc::out_of_memory, operation, "host memory", "no memory for " + std::to_string(bytes) + " bytes",
                    where);
      }
    }
  }
  observe_memory(*storage, false, where);
  storages().add(*storage);
  return storage.release();
}

Storage* adopt_storage(const ForeignMemory& memory, SourceLocation where) {
  auto storage = std::make_unique<Storage>();
  storage->data = memory.data;
  storage->bytes = memory.bytes;
  storage->kind = memory.kind;
  storage->buffer = next_buffer.fetch_add(1, std::memory_order_relaxed);
  storage->device = memory.device;
  if (memory.kind == MemoryKind::device) {
    storage->home = memory.stream;
    storage->queue = memory.stream.state()->real;
  }
  storage->foreign = memory.owner;
  observe_memory(*storage, false, where);
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
  const std::unique_ptr<Storage> last(storage);
  const std::unique_ptr<Users> users(storage->users);
  // Memory of a graph stays when its array is freed; it goes with the last of both.
  if (forked() || (storage->freed.exchange(true) && captured_in == 0)) return;
  try {
    give_back(*storage, {}, {});
  } catch (...) {
    // Without memory for the bookkeeping the allocation stays: better lost than reused too early.
  }
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
  if (storage->freed.exchange(true)) {
    throw Error(Errc::already_freed, operation, describe_storage(*storage), "it was given back before", where);
  }
  if (storage->captured_in != 0) {
    note_freed(storage->buffer, storage->captured_in, stream, where);  // the memory itself is the graph's, too
    return;
  }
  const StreamRef in_order_of = stream.id() != 0 ? stream : StreamRef{};
  if (in_order_of.id() != 0 && storage->kind != MemoryKind::device) note_queue(*storage, in_order_of);
  give_back(*storage, in_order_of, where);
}

Device storage_device(const Storage& storage) { return Device(storage.device); }

void note_queue(Storage& storage, StreamRef stream) {
  if (stream.state()->recorder.load(std::memory_order_relaxed) != nullptr) return;  // the graph keeps it alive
  note_queue(storage, stream.state()->real, stream.state()->device);
}

void note_queue(Storage& storage, Queue* queue, DeviceState* device) {
  const UsersGuard guard(storage.users_lock);
  if (storage.users == nullptr) storage.users = new Users;
  auto& queues = storage.users->queues;
  const auto same = [&](const auto& user) { return user.first == queue; };
  if (std::none_of(queues.begin(), queues.end(), same)) queues.emplace_back(queue, device);
}

void note_use(Storage& storage, StreamRef stream, bool by_kernel, const char* operation, SourceLocation where) {
  const StreamState& state = state_of(stream, operation, where);
  if (storage.freed.load(std::memory_order_relaxed)) {
    throw Error(Errc::already_freed, operation, describe_storage(storage), "it was given back before", where);
  }
  const bool reached =
      storage.kind == MemoryKind::pinned || (storage.kind == MemoryKind::device && storage.device == state.device);
  // Only the refusal needs a description, and making one costs more than a launch.
  if (by_kernel && !reached) {
    check_reach(storage.kind, storage.device, state, describe_storage(storage), operation, where);
  }
  if (storage.data != nullptr && storage.home.id() != stream.id()) note_queue(storage, stream);
}

}  // namespace weir::detail
