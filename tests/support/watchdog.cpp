// The thread that watches every test of a program.
#include "support/watchdog.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include <gtest/gtest.h>

namespace weir_test {

namespace {

class Watchdog;
std::atomic<Watchdog*> only_one{nullptr};

/// Watches every test of the program.
class Watchdog : public testing::EmptyTestEventListener {
 public:
  void OnTestStart(const testing::TestInfo& test) override {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
    name_ = std::string(test.test_suite_name()) + "." + test.name();
    left_ = Limit(limit_);
    running_ = true;
    wake_.notify_all();
  }
  void begin_anew() {
    const std::lock_guard lock(mutex_);
    left_ = Limit(limit_);
  }
  Limit::Clock::duration left() {
    const std::lock_guard lock(mutex_);
    left_.is_over();
    return left_.left();
  }
  void OnTestEnd(const testing::TestInfo&) override {
    const std::lock_guard lock(mutex_);
    running_ = false;
  }
  /// A test may end the process.
  ~Watchdog() override { end(); }
  void OnTestProgramEnd(const testing::UnitTest&) override { end(); }

 private:
  void end() {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  void watch() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
      if (!running_) {
        wake_.wait(lock);
        continue;
      }
      wake_.wait_for(lock, std::min<Limit::Clock::duration>(Limit::pause, left_.left()));
      if (running_ && !ended_ && left_.is_over()) {
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
  Limit left_{limit_};
  bool running_ = false;
  bool ended_ = false;
  std::thread thread_;
};

}  // namespace

std::chrono::seconds test_limit() {
  const char* asked = std::getenv("WEIR_TEST_LIMIT");
  return std::chrono::seconds(asked != nullptr ? std::atoi(asked) : 60 * patience);
}

Alarm::Alarm(std::chrono::seconds limit, std::function<void()> function)
    : thread_([this, limit, function = std::move(function)] {
        std::unique_lock lock(mutex_);
        for (Limit left(limit); !cancelled_ && !left.is_over();) {
          wake_.wait_for(lock, std::min<Limit::Clock::duration>(Limit::pause, left.left()));
        }
        if (!cancelled_) function();
      }) {}

Alarm::~Alarm() {
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void watch_anew() { only_one.load()->begin_anew(); }
std::chrono::steady_clock::duration test_time_left() { return only_one.load()->left(); }

bool install_watchdog() {
  auto* const watchdog = new Watchdog;
  only_one.store(watchdog);
  testing::UnitTest::GetInstance()->listeners().Append(watchdog);
  return true;
}

}  // namespace weir_test
