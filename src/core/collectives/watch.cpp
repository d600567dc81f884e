// The thread that ends collectives that can never run, or whose ranks did not come in time. It sleeps while none is pending.
#include <algorithm>
#include <condition_variable>
#include <thread>
#include <utility>

#include "core/collectives/circle.hpp"

namespace weir::detail {

namespace {

using Clock = std::chrono::steady_clock;

class Watcher {
 public:
  static Watcher& instance() {
    static auto& watcher = *new Watcher;  // the thread may outlive static objects
    return watcher;
  }

  void add(const std::shared_ptr<CommunicatorState>& communicator) {
    const LockGuard guard(mutex_);
    communicators_.push_back(communicator);
    if (started_) return;
    std::thread([this] { watch(); }).detach();  // where no thread can be made, the communicator is not made
    started_ = true;
  }
  void look_by(Clock::time_point when) {
    if (when.time_since_epoch().count() >= next_.load(std::memory_order_seq_cst)) return;
    const LockGuard guard(mutex_);
    next_.store(std::min(next_.load(std::memory_order_relaxed), when.time_since_epoch().count()),
                std::memory_order_seq_cst);
    changed_.notify_one();
  }

 private:
  void watch() {
    std::vector<std::shared_ptr<CommunicatorState>> present;
    for (;;) {
      {
        UniqueLock lock(mutex_);
        for (;;) {
          const auto next = Clock::time_point(Clock::duration(next_.load(std::memory_order_relaxed)));
          if (next <= Clock::now()) break;
          if (next == Clock::time_point::max()) {
            changed_.wait(lock);
          } else {
            changed_.wait_until(lock, next);
          }
        }
        // What begins from here on asks again.
        next_.store(Clock::time_point::max().time_since_epoch().count(), std::memory_order_seq_cst);
        std::erase_if(communicators_, [](const auto& one) { return one.expired(); });
        for (const auto& one : communicators_) {
          if (auto communicator = one.lock()) present.push_back(std::move(communicator));
        }
      }
      auto next = Clock::time_point::max();
      const auto now = Clock::now();
      Pending stuck;
      const auto unless_out_of_memory = [&](auto&& look) {
        try {
          look();
        } catch (...) {
          next = std::min(next, now + std::chrono::seconds(1));
        }
      };
      for (const auto& communicator : present) {
        unless_out_of_memory([&] { next = std::min(next, communicator->look(now, stuck)); });
      }
      if (!stuck.calls.empty() && now >= search_from_) unless_out_of_memory([&] { search(stuck); });
      present.clear();
      if (next != Clock::time_point::max()) look_by(next);
    }
  }

  /// Among many calls it takes long: a small part of the thread's time.
  void search(const Pending& stuck) {
    const auto began = Clock::now();
    fail_circle(stuck);
    const auto ended = Clock::now();
    search_from_ = ended + 20 * (ended - began);
  }

  Clock::time_point search_from_{};  ///< the thread's own
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::weak_ptr<CommunicatorState>> communicators_ WEIR_GUARDED_BY(mutex_);
  bool started_ WEIR_GUARDED_BY(mutex_) = false;
  std::atomic<Clock::rep> next_{Clock::time_point::max().time_since_epoch().count()};
};

}  // namespace

void watch(const std::shared_ptr<CommunicatorState>& communicator) { Watcher::instance().add(communicator); }

void watch_from_now(const CommunicatorState& communicator) {
  Watcher::instance().look_by(Clock::now() +
                              std::min<std::chrono::nanoseconds>(communicator.timeout, patience_with_pending));
}

}  // namespace weir::detail
