// Observers for rows beside the same work without.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <weir/observer.hpp>

namespace bench {

/// Keeps nothing of what it is told, but the longest time.
class Listener final : public weir::Observer {
 public:
  void ran(weir::CommandId, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    longest_ = std::max(longest_, span.end - span.begin);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    longest_ = {};
  }
  /// Waits until something was told.
  double longest_us() {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < late) {
      {
        const std::lock_guard lock(mutex_);
        if (longest_.count() > 0) return std::chrono::duration<double, std::micro>(longest_).count();
      }
      std::this_thread::yield();
    }
    throw std::runtime_error("no time was told");
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::duration longest_{};
};

/// The observer is attached while this lives.
class Listening {
 public:
  Listening(weir::Observer& observer, weir::Watch watch) : observer_(observer) { weir::attach(observer, watch); }
  ~Listening() { weir::detach(observer_); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  weir::Observer& observer_;
};

}  // namespace bench
