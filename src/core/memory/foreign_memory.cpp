// The thread that hands foreign memory back.
#include "core/memory/foreign_memory.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/memory/users.hpp"

namespace weir::detail {

namespace {

std::atomic<bool> exiting{false};

/// Started by the first tensor that was dropped while it was in use; never ends. Lives as long as the process.
class Returner {
 public:
  static Returner& get() {
    static auto& returner = *new Returner;
    return returner;
  }

  void add(Users& ended) noexcept {
    const std::lock_guard guard(mutex_);
    ended.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &ended;
    last_ = &ended;
    start();
    added_.notify_one();
  }

 private:
  Returner() {
    // Interpreters and drivers come down at exit: what they own goes with the process.
    std::atexit([] { exiting = true; });
  }

  /// Where no thread can be made, the next one who comes tries again. The lock is held.
  void start() noexcept {
    if (started_) return;
    try {
      std::thread([this] {
        for (;;) hand_back_next();
      }).detach();
      started_ = true;
    } catch (const std::exception&) {
    }
  }

  void hand_back_next() {
    std::unique_lock lock(mutex_);
    added_.wait(lock, [this] { return first_ != nullptr; });
    const std::unique_ptr<Users> next(std::exchange(first_, first_->next));
    if (first_ == nullptr) last_ = nullptr;
    lock.unlock();
    const ForeignOwner& owner = next->end.owner;
    if (!exiting) owner.release(owner.context);
  }

  std::mutex mutex_;
  std::condition_variable added_;
  Users* first_ = nullptr;  ///< guarded by mutex_, as the next
  Users* last_ = nullptr;
  bool started_ = false;
};

}  // namespace

void hand_back_elsewhere(Users& ended) noexcept { Returner::get().add(ended); }

}  // namespace weir::detail
