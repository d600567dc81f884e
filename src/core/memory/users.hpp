// The queues that were given some memory, and the end of its life behind them.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <weir/detail/storage.hpp>

#include "backend.hpp"
#include "short_lock.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

/// The same for a flag of a public header.
class UsersGuard {
 public:
  explicit UsersGuard(std::atomic_flag& flag) : flag_(flag) { take(flag); }
  ~UsersGuard() { flag_.clear(std::memory_order_release); }
  UsersGuard(const UsersGuard&) = delete;
  UsersGuard& operator=(const UsersGuard&) = delete;

 private:
  std::atomic_flag& flag_;
};

/// What becomes of dead memory.
struct End {
  void* data = nullptr;             ///< as it was allocated
  HostMemory* pinned_by = nullptr;  ///< of pinned memory
  PoolState* pool = nullptr;        ///< of device memory, as the next four
  Queue* queue = nullptr;
  StreamId owner_of_queue = 0;
  bool open = false;
  QueuePlaces others;
  ForeignOwner owner;
  SourceLocation where;
};

/// Finds places by their queues. Memory for it is made outside of locks.
class PlaceTable {
 public:
  PlaceTable() = default;
  /// With room for so many, and more.
  explicit PlaceTable(std::size_t places) : entries_(std::bit_ceil(4 * places)) {}

  bool has_room_for(std::size_t places) const { return 2 * places <= entries_.size(); }
  void add(QueuePlace* place) { entry_of(place->queue) = place; }
  QueuePlace* find(const Queue* queue) { return entry_of(queue); }

 private:
  /// Where the queue is, or belongs. At least half of the entries are empty.
  QueuePlace*& entry_of(const Queue* queue) {
    std::size_t at = (reinterpret_cast<std::uintptr_t>(queue) * 0x9e3779b97f4a7c15u) >> 32;
    for (;; ++at) {
      QueuePlace*& entry = entries_[at & (entries_.size() - 1)];
      if (entry == nullptr || entry->queue == queue) return entry;
    }
  }

  std::vector<QueuePlace*> entries_;  ///< a power of two of them
};

/// The queues, other than the home stream's, that were given the memory. Whoever ends its life takes them out of the storage,
/// and they wait.
struct Users {
  QueuePlaces places;  ///< guarded by the storage's users_lock, as the next two
  std::size_t count = 0;
  PlaceTable table;  ///< of all places, where it has room for them
  End end;
  std::atomic<std::uint32_t> awaited{1};
  Users* next = nullptr;

  /// Fewer are looked through as fast.
  static constexpr std::size_t least_in_table = 8;
  bool has_table() const { return count >= least_in_table && table.has_room_for(count); }
  /// One more wants another table first.
  bool wants_table() const { return count + 1 >= least_in_table && !table.has_room_for(count + 1); }
  /// It is a larger one; the other one is returned, for who has no lock.
  PlaceTable take_table(PlaceTable larger) {
    for (QueuePlace* place = places.first(); place != nullptr; place = place->next) larger.add(place);
    std::swap(table, larger);
    return larger;
  }
  void add(QueuePlace* place) noexcept {
    places.push(place);
    ++count;
    if (has_table()) table.add(place);
  }
  /// Whether the queue is there, from here on for this owner: an earlier one's work is over, or it would have the queue still.
  bool has(const Queue* queue, StreamId owner) {
    QueuePlace* place = nullptr;
    if (has_table()) {
      place = table.find(queue);
    } else {
      place = places.first();
      while (place != nullptr && place->queue != queue) place = place->next;
    }
    if (place != nullptr) place->owner = std::max(place->owner, owner);
    return place != nullptr;
  }
};

QueuePlace place_of(Queue* queue, StreamId owner, DeviceState* device);

/// Nobody is noted for the storage any more. Null if nobody was.
std::unique_ptr<Users> take_users(Storage& storage);
/// The same for a storage that has the memory from another one: users of this are users of that.
void give_users(Storage& storage, std::unique_ptr<Users> users) noexcept;

/// Does at once what `end` says if the users are through with what they hold now; else whoever completes the last of it does.
/// Waits for nothing, and nothing else waits for it. Without memory for that, it happens later.
void end_behind(std::unique_ptr<Users> users, End&& end) noexcept;

extern std::atomic<Users*> ends_to_try_again;
void try_ends_again_slowly() noexcept;
/// Ends for which there was no memory.
inline void try_ends_again() noexcept {
  if (ends_to_try_again.load(std::memory_order_relaxed) != nullptr) [[unlikely]]
    try_ends_again_slowly();
}

}  // namespace weir::detail
