// Observers for rows beside the same work without.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <weir/observer.hpp>

namespace bench {

/// Keeps nothing of what it is told, but how long commands that ran took in all.
class Listener final : public weir::Observer {
 public:
  void ran(weir::CommandId, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    sum_ += span.end - span.begin;
    ++count_;
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    sum_ = {};
    count_ = 0;
  }
  /// Of all, once so many were told of.
  double sum_us(std::size_t count) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < late) {
      {
        const std::lock_guard lock(mutex_);
        if (count_ >= count) return std::chrono::duration<double, std::micro>(sum_).count();
      }
      std::this_thread::yield();
    }
    throw std::runtime_error("no time was told");
  }

 private:
  std::mutex mutex_;
  std::chrono::steady_clock::duration sum_{};
  std::size_t count_ = 0;
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
