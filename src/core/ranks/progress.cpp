// The library's thread for collectives among processes.
#include <algorithm>
#include <thread>

#include <sys/prctl.h>

#include "back_off.hpp"
#include "core/ranks/engine.hpp"

namespace weir::detail {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds first_sleep{5};
constexpr std::chrono::microseconds longest_sleep{500};  ///< while a peer is late
constexpr std::chrono::microseconds longest_sleep_if_very_late{2000};
constexpr std::chrono::milliseconds very_late{50};
constexpr std::chrono::microseconds beside_host{50};

}  // namespace

RankProgress& RankProgress::instance() {
  static auto& progress = *new RankProgress;  // the thread may outlive static objects
  return progress;
}

std::chrono::nanoseconds RankProgress::patience(std::size_t bytes) {
  return std::chrono::milliseconds(1) + std::chrono::nanoseconds(bytes);  // as slow as 1 GB/s
}

void RankProgress::add(const std::shared_ptr<RankEngine>& engine) {
  const LockGuard guard(mutex_);
  std::erase_if(engines_, [](const auto& one) { return one.expired(); });
  engines_.push_back(engine);
  if (started_) return;
  std::thread([this] { run(); }).detach();  // where no thread can be made, the communicator is not made
  started_ = true;
}

/// All that change `asleep_`, and this, which only seems to, are in one order: either it is found to be set, or the look behind its being set
/// finds what was done before this.
void RankProgress::wake() {
  if (asleep_.fetch_add(0, std::memory_order_acq_rel) == 0) return;
  const LockGuard guard(mutex_);
  woken_ = true;
  changed_.notify_one();
}

RankEngine::Look RankProgress::look_at_all(std::vector<std::shared_ptr<RankEngine>>& engines) {
  engines.clear();
  {
    const LockGuard guard(mutex_);
    for (const auto& one : engines_) {
      if (auto engine = one.lock()) engines.push_back(std::move(engine));
    }
  }
  RankEngine::Look all;
  for (const auto& engine : engines) {
    try {
      const RankEngine::Look one = engine->look();
      engine->tell_incidents();
      all.moved = all.moved || one.moved;
      all.pending = all.pending || one.pending;
      all.launched = all.launched || one.launched;
      all.bytes += one.bytes;
    } catch (...) {
      all.pending = true;  // no memory: another time
    }
  }
  engines.clear();  // their ends, and those of their links, are the users'
  return all;
}

/// Until somebody wakes it; 0: for as long as that takes.
void RankProgress::sleep(std::chrono::nanoseconds longest) {
  UniqueLock lock(mutex_);
  if (woken_) {
    woken_ = false;
  } else if (longest == std::chrono::nanoseconds(0)) {
    changed_.wait(lock);
  } else {
    changed_.wait_for(lock, longest);
  }
  woken_ = false;
}

void RankProgress::run() {
  prctl(PR_SET_TIMERSLACK, 1000);       // sleeps are short
  thread_state = ThreadState::running;  // what a user's memory ends by is called on another thread
  std::vector<std::shared_ptr<RankEngine>> engines;
  auto moved_at = Clock::now();
  std::chrono::microseconds pause = first_sleep;
  int looks = 0;  // since something moved
  for (;;) {
    const RankEngine::Look look = look_at_all(engines);
    const auto now = Clock::now();
    if (look.moved) {
      moved_at = now;
      pause = first_sleep;
      looks = 0;
    }
    if (drivers_.load(std::memory_order_relaxed) > 0) {
      std::this_thread::sleep_for(beside_host);
      continue;
    }
    const bool patient = now - moved_at < patience(look.bytes);
    if (patient) {
      if (look.pending) {
        back_off(looks++);
      } else {
        std::this_thread::sleep_for(beside_host);
      }
      continue;
    }
    // Who changes something from here on sees that this thread sleeps; what was changed before, it sees itself.
    asleep_.exchange(1, std::memory_order_acq_rel);
    const RankEngine::Look again = look_at_all(engines);
    if (again.moved) {
      asleep_.exchange(0, std::memory_order_acq_rel);
      moved_at = Clock::now();
      continue;
    }
    engines.clear();
    sleep(again.pending ? std::chrono::nanoseconds(pause) : std::chrono::nanoseconds(0));
    asleep_.exchange(0, std::memory_order_acq_rel);
    const bool late = now - moved_at > very_late;
    if (again.pending) pause = std::min(2 * pause, late ? longest_sleep_if_very_late : longest_sleep);
  }
}

bool RankProgress::settle(std::chrono::milliseconds longest) {
  const auto until = Clock::now() + longest;
  std::vector<std::shared_ptr<RankEngine>> engines;
  for (;;) {
    const RankEngine::Look look = look_at_all(engines);
    if (!look.pending && !look.launched) return true;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace weir::detail
