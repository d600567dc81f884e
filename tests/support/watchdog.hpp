// Ends the test program with a message if one test takes too long: a defect fails instead of hanging.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "support/sanitizers.hpp"

namespace weir_test {

/// How much longer every wait may take: sanitizers slow everything down.
inline constexpr int patience = under_address_sanitizer || under_thread_sanitizer ? 4 : 1;

/// The longest that a test may take: a minute, or WEIR_TEST_LIMIT in seconds.
std::chrono::seconds test_limit();
/// The longest that something which must happen may take, and a child process.
inline constexpr std::chrono::seconds liveness_limit{10 * patience};
inline constexpr std::chrono::seconds child_limit{30 * patience};

/// A limit of time that a machine which stands still does not use up: between two looks half a second passes at most.
class Limit {
 public:
  using Clock = std::chrono::steady_clock;
  /// Between two looks of whoever has nothing else to do.
  static constexpr std::chrono::milliseconds pause{250};

  explicit Limit(Clock::duration limit, Clock::time_point now = Clock::now()) : left_(limit), last_(now) {}
  /// To be asked several times a second.
  bool is_over(Clock::time_point now = Clock::now()) {
    left_ -= std::min<Clock::duration>(now - last_, 2 * pause);
    last_ = now;
    return left_ <= Clock::duration::zero();
  }
  Clock::duration left() const { return left_; }

 private:
  Clock::duration left_;
  Clock::time_point last_;
};

/// Calls a function unless it is destroyed before the time is up.
class Alarm {
 public:
  Alarm(std::chrono::seconds limit, std::function<void()> function);
  ~Alarm();
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool cancelled_ = false;
  std::thread thread_;
};

/// For a test of many programs, one after the other: from here on it has the whole time again.
void watch_anew();
/// What is left of the running test's time.
std::chrono::steady_clock::duration test_time_left();

/// Starts the watch over every test of the program.
bool install_watchdog();
/// At static initialisation of every program that includes this header.
inline const bool watchdog_installed = install_watchdog();

}  // namespace weir_test
