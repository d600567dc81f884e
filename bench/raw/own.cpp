// Queues with a lock whose tasks are run by who waits for them: no thread hands anything to another.
#include <cstdint>
#include <mutex>
#include <vector>

#include "raw.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench::raw {

namespace {

void nothing(void*) { tally(); }

/// Any thread may push; whoever waits runs what is there.
class LockedQueue {
 public:
  /// Behind task `number` of `after`, if there is one. Returns its own number, from 1.
  std::uint64_t push(void (*run)(void*), void* argument, LockedQueue* after = nullptr, std::uint64_t number = 0) {
    if (pushed_ - done_ == size) wait();
    const std::lock_guard lock(mutex_);
    tasks_[pushed_ % size] = {run, argument, after, number};
    return ++pushed_;
  }
  void wait() { run_until(pushed_); }
  std::uint64_t last() const { return pushed_; }

 private:
  struct Entry {
    void (*run)(void*);
    void* argument;
    LockedQueue* after;
    std::uint64_t number;
  };
  static constexpr std::size_t size = 1024;

  void run_until(std::uint64_t number) {
    while (done_ < number) {
      const Entry entry = next();
      if (entry.after != nullptr) entry.after->run_until(entry.number);
      entry.run(entry.argument);
      ++done_;
    }
  }
  Entry next() {
    const std::lock_guard lock(mutex_);
    return tasks_[done_ % size];
  }

  std::mutex mutex_;
  std::uint64_t pushed_ = 0;
  std::uint64_t done_ = 0;
  std::vector<Entry> tasks_ = std::vector<Entry>(size);
};

}  // namespace

double own_launch_rate(std::size_t count) {
  LockedQueue queue;
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) queue.push(nothing, nullptr);
    queue.wait();
  });
  return static_cast<double>(count) / time * 1e-6;
}

double own_round_trip(std::size_t count) {
  LockedQueue queue;
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      queue.push(nothing, nullptr);
      queue.wait();
    }
  });
  return time / static_cast<double>(count) * 1e6;
}

double own_hop(std::size_t count) {
  LockedQueue queues[2];
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      // Waiting for the other queue's last task: deeper than this, a wait would run all before it by recursion.
      if (i % 512 == 0) queues[0].wait(), queues[1].wait();
      queues[i % 2].push(nothing, nullptr, &queues[1 - i % 2], queues[1 - i % 2].last());
    }
    queues[0].wait();
    queues[1].wait();
  });
  return time / static_cast<double>(count) * 1e6;
}

double own_fork_join(std::size_t width, std::size_t count) {
  LockedQueue main;
  std::vector<LockedQueue> queues(width);
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t forked = main.push(nothing, nullptr);
      for (LockedQueue& queue : queues) queue.push(nothing, nullptr, &main, forked);
      // The join, for each queue a wait, and the task behind all of them.
      main.wait();
      for (LockedQueue& queue : queues) queue.wait();
      main.push(nothing, nullptr);
      main.wait();
    }
  });
  return time / static_cast<double>(count) * 1e6;
}

}  // namespace bench::raw
