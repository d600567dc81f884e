// The thread that hands foreign memory back.
#include "core/memory/foreign_memory.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>

namespace weir::detail {

namespace {

std::atomic<bool> exiting{false};

struct Pending {
  ForeignOwner owner;
  std::vector<EventState*> marks;
};

/// Started by the first tensor that is dropped while it is in use; never ends. Lives as long as the process.
class Returner {
 public:
  static Returner& get() {
    static auto& returner = *new Returner;
    return returner;
  }

  void add(Pending&& pending) {
    {
      const std::lock_guard guard(mutex_);
      pending_.push_back(std::move(pending));
    }
    added_.notify_one();
  }

 private:
  Returner() {
    // Interpreters and drivers come down at exit: what they own goes with the process.
    std::atexit([] { exiting = true; });
    std::thread([this] {
      for (;;) hand_back_next();
    }).detach();
  }

  void hand_back_next() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [this] { return !pending_.empty(); });
    const Pending next = std::move(pending_.front());
    pending_.pop_front();
    lock.unlock();
    for (EventState* mark : next.marks) {
      try {
        mark->backend->synchronize_event(*mark, "weir::from_dlpack", {});
      } catch (...) {
        // The work failed, and its stream says so; the memory is free all the same.
      }
      mark->backend->close_event(mark);
    }
    if (!exiting) next.owner.release(next.owner.context);
  }

  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<Pending> pending_;  ///< guarded by mutex_
};

}  // namespace

void hand_back(const ForeignOwner& owner, const std::vector<std::pair<Queue*, DeviceState*>>& users) {
  const bool idle = std::all_of(users.begin(), users.end(), [](const auto& user) { return user.first->done(); });
  if (idle && thread_state != ThreadState::running) {
    owner.release(owner.context);
    return;
  }
  Pending pending{owner, {}};
  for (const auto& [queue, device] : users) {
    device->reclaim->follow(*queue);
    EventState* mark = device->backend->open_event(device->index, false);
    device->reclaim->record(*mark, {});
    pending.marks.push_back(mark);
  }
  Returner::get().add(std::move(pending));
}

}  // namespace weir::detail
