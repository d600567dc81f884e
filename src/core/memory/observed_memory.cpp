// What observers are told about memory beyond its commands: pool memory by its address, names.
#include <atomic>
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

}  // namespace weir::detail
