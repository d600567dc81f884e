// Ends the test program with a message if one test takes too long: a defect fails instead of hanging.
#pragma once

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
/// When the running test has taken too long.
std::chrono::steady_clock::time_point test_deadline();

/// Starts the watch over every test of the program.
bool install_watchdog();
/// At static initialisation of every program that includes this header.
inline const bool watchdog_installed = install_watchdog();

}  // namespace weir_test
