// One thread that looks at the clock, for all watchdogs of the process.
#include "watchdog.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>

namespace weir::stress {

namespace {

constexpr std::chrono::milliseconds limit{120'000};
constexpr int looks = 240;

class Monitor {
 public:
  static Monitor& instance() {
    static Monitor monitor;
    return monitor;
  }

  void arm(std::function<std::string()> text) {
    const std::lock_guard lock(mutex_);
    text_ = std::move(text);
    ++round_;
  }
  void disarm() {
    const std::lock_guard lock(mutex_);
    text_ = nullptr;
    ++round_;
  }

 private:
  Monitor() : thread_([this] { watch(); }) {}
  ~Monitor() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!ending_) {
      const std::uint64_t seen = round_;
      // Looked at often: a machine that stands still for a while uses up a single look.
      for (int look = 0; look < looks && !ending_ && seen == round_; ++look) wake_.wait_for(lock, limit / looks);
      if (ending_ || seen != round_ || !text_) continue;
      std::fprintf(stderr, "This did not end within %d s:\n%s", static_cast<int>(limit.count() / 1000),
                   text_().c_str());
      std::abort();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::function<std::string()> text_;
  std::uint64_t round_ = 0;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace

Watchdog::Watchdog(std::function<std::string()> text) { Monitor::instance().arm(std::move(text)); }
Watchdog::~Watchdog() { Monitor::instance().disarm(); }

}  // namespace weir::stress
