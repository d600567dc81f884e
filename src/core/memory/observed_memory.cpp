// What observers are told about memory beyond its commands: pool memory by its address, names, pins.
#include <atomic>
#include <functional>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <weir/detail/storage.hpp>

#include "core/observers.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

/// Kept while memory is observed.
struct Blocks {
  Mutex mutex;
  std::unordered_map<const void*, PoolBlock> all WEIR_GUARDED_BY(mutex);
};
Blocks& blocks() {
  static auto& instance = *new Blocks;
  return instance;
}

struct Names {
  Mutex mutex;
  std::unordered_map<BufferId, std::string> all WEIR_GUARDED_BY(mutex);
};
Names& names() {
  static auto& instance = *new Names;
  return instance;
}

/// Kept from the first pin on: who attaches later is told of it.
struct Pins {
  struct One {
    std::size_t bytes;
    SourceLocation where;
    std::uint32_t thread;
  };
  Mutex mutex;
  std::unordered_map<const void*, One> all WEIR_GUARDED_BY(mutex);
};
Pins& pins() {
  static auto& instance = *new Pins;
  return instance;
}

std::atomic<BufferId> next_buffer{1};

}  // namespace

BufferId new_buffer() noexcept { return next_buffer.fetch_add(1, std::memory_order_relaxed); }

void note_block(const void* data, PoolBlock block) {
  Blocks& known = blocks();
  const LockGuard guard(known.mutex);
  known.all[data] = block;
}

PoolBlock take_block(const void* data) noexcept {
  Blocks& known = blocks();
  const LockGuard guard(known.mutex);
  const auto found = known.all.find(data);
  if (found == known.all.end()) return {};
  const PoolBlock block = found->second;
  known.all.erase(found);
  return block;
}

void forget_blocks() noexcept {
  Blocks& known = blocks();
  const LockGuard guard(known.mutex);
  known.all.clear();
}

void name_storage(Storage& storage, std::string_view name) {
  Names& known = names();
  {
    const LockGuard guard(known.mutex);
    known.all[storage.buffer] = name;
  }
  storage.named.store(true, std::memory_order_relaxed);
  if (!watched(Watch::memory)) return;
  tell(Watch::memory, [&](Observer& observer) { observer.named(storage.buffer, name); });
}

void forget_name(BufferId buffer) noexcept {
  Names& known = names();
  const LockGuard guard(known.mutex);
  known.all.erase(buffer);
}

std::string name_of_buffer(BufferId buffer) {
  Names& known = names();
  const LockGuard guard(known.mutex);
  const auto found = known.all.find(buffer);
  return found != known.all.end() ? found->second : std::string();
}

void tell_names(Observer& observer) {
  Names& known = names();
  std::vector<std::pair<BufferId, std::string>> all;
  {
    const LockGuard guard(known.mutex);
    all.assign(known.all.begin(), known.all.end());
  }
  for (const auto& one : all) {
    tell_one(observer, [&](Observer& told) { told.named(one.first, one.second); });
  }
}

void note_pin(const void* data, std::size_t bytes, SourceLocation where) noexcept {
  Pins& known = pins();
  const std::uint32_t thread = thread_number();
  const LockGuard guard(known.mutex);
  try {
    known.all[data] = {bytes, where, thread};
  } catch (const std::bad_alloc&) {
    // It is pinned, and the call has done its work.
  }
  if (watched(Watch::memory))
    tell(Watch::memory, [&](Observer& observer) { observer.pinned(data, bytes, where, thread); });
}

void forget_pin(const void* data, SourceLocation where) noexcept {
  Pins& known = pins();
  const std::uint32_t thread = thread_number();
  const LockGuard guard(known.mutex);
  const auto found = known.all.find(data);
  if (found == known.all.end()) return;
  const std::size_t bytes = found->second.bytes;
  known.all.erase(found);
  if (watched(Watch::memory))
    tell(Watch::memory, [&](Observer& observer) { observer.unpinned(data, bytes, where, thread); });
}

void tell_pins(Observer& observer, const std::function<void()>& attached) {
  Pins& known = pins();
  const LockGuard guard(known.mutex);
  for (const auto& one : known.all) {
    const Pins::One& pin = one.second;
    tell_one(observer, [&](Observer& told) { told.pinned(one.first, pin.bytes, pin.where, pin.thread); });
  }
  attached();
}

}  // namespace weir::detail
