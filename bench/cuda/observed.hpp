// Observers for rows beside the same work without.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <weir/observer.hpp>

namespace bench {

/// Keeps nothing of what it is told, but how long commands that ran took: each, and all from the first to the last.
class Listener final : public weir::Observer {
 public:
  void ran(weir::CommandId, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    sum_ += span.end - span.begin;
    ++count_;
    if (span.end == span.begin) return;  // a record's, which may be told to be behind the last one
    begin_ = std::min(begin_, span.begin);
    end_ = std::max(end_, span.end);
  }
  void clear() {
    const std::lock_guard lock(mutex_);
    sum_ = {};
    count_ = 0;
    begin_ = Time::max();
    end_ = Time::min();
  }
  struct Told {
    double sum_us;    ///< of all
    double whole_us;  ///< from the begin of the first to the end of the last
  };
  /// Once so many were told of.
  Told told(std::size_t count) {
    const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < late) {
      {
        const std::lock_guard lock(mutex_);
        if (count_ >= count) return {microseconds(sum_), microseconds(end_ - begin_)};
      }
      std::this_thread::yield();
    }
    throw std::runtime_error("no time was told");
  }

 private:
  using Time = std::chrono::steady_clock::time_point;
  static double microseconds(Time::duration time) { return std::chrono::duration<double, std::micro>(time).count(); }

  std::mutex mutex_;
  Time::duration sum_{};
  Time begin_ = Time::max();
  Time end_ = Time::min();
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
