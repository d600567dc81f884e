// The queues that were given some memory, and the end of its life behind them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>

#include <weir/detail/storage.hpp>

#include "backend.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

inline void take(std::atomic_flag& flag) {
  for (int tries = 0; flag.test_and_set(std::memory_order_acquire); ++tries) {
    if (tries > 100) std::this_thread::yield();
  }
}

/// For a few instructions: nobody allocates, or calls anybody, under it.
class WEIR_LOCK ShortLock {
 public:
  void lock() WEIR_TAKES() { take(flag_); }
  void unlock() WEIR_GIVES() { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_ = ATOMIC_FLAG_INIT;
};

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

/// The queues, other than the home stream's, that were given the memory. Whoever ends its life takes them out of the storage,
/// and they wait.
struct Users {
  QueuePlaces places;  ///< guarded by the storage's users_lock
  End end;
  std::atomic<std::uint32_t> awaited{1};
  Users* next = nullptr;

  /// Whether the queue is there, from here on for this owner: an earlier one's work is over, or it would have the queue still.
  bool has(const Queue* queue, StreamId owner) {
    QueuePlace* place = places.first();
    while (place != nullptr && place->queue != queue) place = place->next;
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
