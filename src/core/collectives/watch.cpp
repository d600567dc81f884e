// The thread that ends collectives that can never run, or whose ranks did not come in time. It sleeps while none is pending.
#include <time.h>

#include <algorithm>
#include <condition_variable>
#include <thread>
#include <utility>

#include "core/collectives/circle.hpp"
#include "core/ranks/ranked_state.hpp"

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
    // Of this thread's own time: one that was kept from its core would not search for many times as long.
    const auto began = own_time();
    fail_circle(stuck);
    search_from_ = Clock::now() + 20 * (own_time() - began);
  }

  static std::chrono::nanoseconds own_time() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
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

std::chrono::steady_clock::time_point CommunicatorState::look(std::chrono::steady_clock::time_point now,
                                                              Pending& stuck) {
  using Time = std::chrono::steady_clock::time_point;
  const LockGuard guard(mutex);
  forget_what_is_over();
  if (ranked) return failure ? Time::max() : ranked->look(*this, now);
  // Who is not ready yet cannot have waited too long before that.
  bool pending = false;
  Time next = now + timeout;
  LocalCall* late = nullptr;
  for_each_pending([&](LocalCall& call) {
    if (!call.open()) return;
    pending = true;
    if (call.as_gate() != nullptr || call.is_being_called()) return;
    if (call.found_open_again()) {
      transport->attend(call);
      call.retain();
      PendingCall found{shared_from_this(), CallReference(&call)};
      for (std::size_t i = 0; i < call.parts().size(); ++i) {
        const CollectivePart& part = call.parts()[i];
        if (part.queue != nullptr) found.parts.push_back({i, part.queue, part.place});
      }
      stuck.calls.push_back(std::move(found));
    }
    const auto parts = call.parts();
    const bool all_came = std::all_of(parts.begin(), parts.end(), [](const CollectivePart& part) {
      return part.ready_nanoseconds.load(std::memory_order_acquire) != 0;
    });
    if (all_came) return;  // nobody is missing: it lasts as long as it lasts
    for (const CollectivePart& part : parts) {
      const std::int64_t ready = part.ready_nanoseconds.load(std::memory_order_acquire);
      if (ready == 0) continue;
      const Time until = Time(std::chrono::nanoseconds(ready)) + timeout;
      if (until <= now) late = late == nullptr ? &call : late;
      next = std::min(next, until);
    }
  });
  const Time next_of_launches = late == nullptr ? look_at_launches(now, stuck) : Time::max();
  if (failure) return Time::max();
  next = std::min(next, next_of_launches);
  if (late == nullptr) return pending ? std::min<Time>(next, now + patience_with_pending) : Time::max();
  const std::string missing = note_missing(*this, *late);
  fail(Errc::collective_timeout,
       "nobody came within " + seconds_of(timeout) + " s of those who are missing: " + missing);
  return Time::max();
}

}  // namespace weir::detail
