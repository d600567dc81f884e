// Keeps a timeline's file up to date while it is recorded, so that a program that is killed leaves one that opens.
#include "trace/keeper.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace weir::trace {

Keeper::Keeper(std::filesystem::path file, std::function<Timeline()> make)
    : file_(std::move(file)), make_(std::move(make)), thread_([this] { run(); }) {}

Keeper::~Keeper() { stop(); }

void Keeper::stop() {
  if (!thread_.joinable()) return;
  {
    const detail::LockGuard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
}

void Keeper::run() {
  using Clock = std::chrono::steady_clock;
  detail::UniqueLock lock(mutex_);
  // A program that ends badly often does so at once: the less it has run, the less may be lost.
  std::chrono::nanoseconds pause = std::chrono::milliseconds(5);
  while (true) {
    for (const auto due = Clock::now() + pause; !ends_;) {
      if (wakes_.wait_until(lock, due) == std::cv_status::timeout) break;
    }
    if (ends_) return;
    lock.unlock();
    const auto begin = Clock::now();
    try {
      save(make_(), file_, {});
    } catch (const std::exception&) {  // who saves the last one says what is wrong
    }
    pause = std::min<std::chrono::nanoseconds>(2 * pause, std::chrono::seconds(1));
    pause = std::max<std::chrono::nanoseconds>(pause, 20 * (Clock::now() - begin));
    lock.lock();
  }
}

}  // namespace weir::trace
