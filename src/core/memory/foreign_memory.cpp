// The thread that hands foreign memory back.
#include "core/memory/foreign_memory.hpp"

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "core/memory/users.hpp"
#include "thread_safety.hpp"

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
    const LockGuard guard(mutex_);
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

  /// Where no thread can be made, the next one who comes tries again.
  void start() noexcept WEIR_NEEDS(mutex_) {
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
    UniqueLock lock(mutex_);
    while (first_ == nullptr) added_.wait(mutex_);
    const std::unique_ptr<Users> next(std::exchange(first_, first_->next));
    if (first_ == nullptr) last_ = nullptr;
    lock.unlock();
    const ForeignOwner& owner = next->end.owner;
    if (!exiting) owner.release(owner.context);
  }

  Mutex mutex_;
  std::condition_variable_any added_;
  Users* first_ WEIR_GUARDED_BY(mutex_) = nullptr;
  Users* last_ WEIR_GUARDED_BY(mutex_) = nullptr;
  bool started_ WEIR_GUARDED_BY(mutex_) = false;
};

}  // namespace

void hand_back_elsewhere(Users& ended) noexcept { Returner::get().add(ended); }

}  // namespace weir::detail
