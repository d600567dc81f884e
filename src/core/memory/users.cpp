// Who was given memory, and what happens when they are through.
#include "core/memory/users.hpp"

#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#include "core/checks.hpp"
#include "core/memory/foreign_memory.hpp"

namespace weir::detail {

std::atomic<Users*> ends_to_try_again{nullptr};

namespace {

enum class Thread : std::uint8_t {
  callers,  ///< of a user's call: others' code may run here
  any,
};

/// The last user is through. Takes the users.
void finish(Users& ended, Thread thread) noexcept {
  End& end = ended.end;
  if (end.owner.release != nullptr) {
    if (thread == Thread::callers && thread_state != ThreadState::running) {
      end.owner.release(end.owner.context);
    } else {
      hand_back_elsewhere(ended);
      return;
    }
  } else if (end.pool != nullptr) {
    try {
      end.pool->release(*end.queue, end.open, end.owner_of_queue, end.others, end.data, end.where);
    } catch (...) {
      // Better lost than reused too early.
    }
  } else if (end.pinned_by != nullptr) {
    end.pinned_by->release(end.data);
  } else {
    std::free(end.data);
  }
  delete &ended;
}

void one_is_through(Users& users, Thread thread) noexcept {
  if (users.awaited.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(users, thread);
}

class UserIsThrough final : public Signal {
 public:
  explicit UserIsThrough(Users& users) : users_(users) {}
  /// Failed or not: the memory is not used any more.
  void give(std::shared_ptr<const Error>, StreamId) noexcept override { one_is_through(users_, Thread::any); }

 private:
  Users& users_;
};

void try_again_later(Users& users) noexcept {
  users.next = ends_to_try_again.load(std::memory_order_relaxed);
  while (!ends_to_try_again.compare_exchange_weak(users.next, &users, std::memory_order_acq_rel)) {
  }
}

void signal_after(const QueuePlace& user, Users& users) {
  std::unique_ptr<Signal> signal = std::make_unique<UserIsThrough>(users);
  users.awaited.fetch_add(1, std::memory_order_relaxed);
  try {
    user.queue->signal_after(user.owner, signal);
  } catch (...) {
    users.awaited.fetch_sub(1, std::memory_order_relaxed);  // never the last: one stands for await()
    throw;
  }
}

/// Waits for those who are not through. Takes the users.
void await(Users& users, Thread thread) noexcept {
  while (const QueuePlace* user = users.places.first()) {
    try {
      if (!user->queue->is_over(user->owner)) signal_after(*user, users);
    } catch (const std::bad_alloc&) {
      return try_again_later(users);
    } catch (const Error& error) {
      if (error.code() != Errc::device_failed) return try_again_later(users);  // no memory, or a thread of the driver's
      return;  // the device answers no more: better lost than reused too early
    } catch (...) {
      return;
    }
    delete users.places.pop();
  }
  one_is_through(users, thread);
}

}  // namespace

void try_ends_again_slowly() noexcept {
  Users* users = ends_to_try_again.exchange(nullptr, std::memory_order_acq_rel);
  while (users != nullptr) await(*std::exchange(users, users->next), Thread::any);
}

void end_behind(std::unique_ptr<Users> users, End&& end) noexcept {
  users->end = std::move(end);
  await(*users.release(), Thread::callers);
}

std::unique_ptr<Users> take_users(Storage& storage) {
  const UsersGuard guard(storage.users_lock);
  return std::unique_ptr<Users>(std::exchange(storage.users, nullptr));
}

void give_users(Storage& storage, std::unique_ptr<Users> users) noexcept {
  if (users == nullptr) return;
  QueuePlaces known;
  const UsersGuard guard(storage.users_lock);
  if (storage.users == nullptr) {
    storage.users = users.release();
    return;
  }
  while (!users->places.empty()) {
    QueuePlace* const place = users->places.pop();
    if (storage.users->has(place->queue, place->owner)) {
      known.push(place);
    } else {
      storage.users->add(place);
    }
  }
}

QueuePlace place_of(Queue* queue, StreamId owner, DeviceState* device) {
  QueuePlace place{queue, device};
  place.owner = owner;
  return place;
}

void note_queue(Storage& storage, StreamRef stream) {
  if (stream.state()->recorder.load(std::memory_order_relaxed) != nullptr) return;  // the graph keeps it alive
  note_queue(storage, stream.state()->real, stream.id(), stream.state()->device);
}

void note_queue(Storage& storage, Queue* queue, StreamId owner, DeviceState* device) {
  // What there is no memory for under the lock.
  std::unique_ptr<Users> users;
  std::unique_ptr<QueuePlace> place;
  PlaceTable table;
  for (;;) {
    std::size_t count = 0;
    {
      const UsersGuard guard(storage.users_lock);
      if (storage.users == nullptr) storage.users = users.release();
      if (storage.users != nullptr) {
        if (storage.users->has(queue, owner)) return;
        const bool wants_table = storage.users->wants_table();
        count = storage.users->count + 1;
        if (place != nullptr && (!wants_table || table.has_room_for(count))) {
          if (wants_table) table = storage.users->take_table(std::move(table));
          return storage.users->add(place.release());
        }
        if (!wants_table) count = 0;
      }
    }
    if (place == nullptr) {
      users = std::make_unique<Users>();
      place = std::make_unique<QueuePlace>(place_of(queue, owner, device));
    }
    if (count != 0) table = PlaceTable(count);
  }
}

std::vector<QueuePlace> queues_of(Storage& storage) {
  std::vector<QueuePlace> queues;
  for (;;) {
    std::size_t count = storage.queue != nullptr ? 1 : 0;
    {
      const UsersGuard guard(storage.users_lock);
      const QueuePlace* first = storage.users != nullptr ? storage.users->places.first() : nullptr;
      for (const QueuePlace* place = first; place != nullptr; place = place->next) ++count;
      if (count <= queues.capacity()) {
        for (const QueuePlace* place = first; place != nullptr; place = place->next) {
          queues.push_back(place_of(place->queue, place->owner, place->device));
        }
        if (storage.queue != nullptr) queues.push_back(place_of(storage.queue, storage.home.id(), storage.device));
        return queues;
      }
    }
    queues.reserve(count);
  }
}

}  // namespace weir::detail
