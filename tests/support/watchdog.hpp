// Ends the test program with a message if one test takes too long: a defect fails instead of hanging.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace weir_test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr int patience = 4;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr int patience = 4;
#else
inline constexpr int patience = 1;
#endif
#else
inline constexpr int patience = 1;  ///< how much longer every wait may take: sanitizers slow everything down
#endif

/// The longest that a test may take: a minute, or WEIR_TEST_LIMIT in seconds.
inline std::chrono::seconds test_limit() {
  const char* asked = std::getenv("WEIR_TEST_LIMIT");
  return std::chrono::seconds(asked != nullptr ? std::atoi(asked) : 60 * patience);
}
/// The longest that something which must happen may take, and a child process.
inline constexpr std::chrono::seconds liveness_limit{10 * patience};
inline constexpr std::chrono::seconds child_limit{30 * patience};

/// Calls a function unless it is destroyed before the time is up.
template <class F>
class Alarm {
 public:
  Alarm(std::chrono::seconds limit, F function)
      : thread_([this, limit, function] {
          std::unique_lock lock(mutex_);
          if (!wake_.wait_for(lock, limit, [this] { return cancelled_; })) function();
        }) {}
  ~Alarm() {
    {
      const std::lock_guard lock(mutex_);
      cancelled_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool cancelled_ = false;
  std::thread thread_;
};

/// Watches every test of the program.
class Watchdog : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& test) override {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
    name_ = std::string(test.test_suite_name()) + "." + test.name();
    deadline_ = std::chrono::steady_clock::now() + limit_;
    running_ = true;
    wake_.notify_all();
  }
  void OnTestEnd(const testing::TestInfo&) override {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  void OnTestProgramEnd(const testing::UnitTest&) override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  /// At static initialisation of every program that includes this header.
  static bool install() {
    testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
    return true;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (!running_) {
        wake_.wait(lock);
      } else if (wake_.wait_until(lock, deadline_) == std::cv_status::timeout && running_ && !ended_ &&
                 std::chrono::steady_clock::now() >= deadline_) {
        std::fprintf(stderr, "watchdog: %s took longer than %d s: it hangs\n", name_.c_str(),
                     static_cast<int>(limit_.count()));
        std::abort();
      }
    }
  }

  const std::chrono::seconds limit_ = test_limit();
  std::mutex mutex_;
  std::condition_variable wake_;
  std::string name_;
  std::chrono::steady_clock::time_point deadline_;
  bool running_ = false;
  bool ended_ = false;
  std::thread thread_;
};

inline const bool watchdog_installed = Watchdog::install();

}  // namespace weir_test
