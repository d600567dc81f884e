// Threads of their own: producers with a ring each, and stages of a video that hand frames on.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "raw.hpp"
#include "ring.hpp"
#include "support/busy.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench::raw {

double threads_launch_rate(std::size_t threads, std::size_t count) {
  SpinningWorker worker(threads);
  std::atomic<bool> go{false};
  std::vector<std::thread> producers;
  for (std::size_t t = 0; t < threads; ++t) {
    producers.emplace_back([&, t] {
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      for (std::size_t i = 0; i < count; ++i) worker[t].push_whole([](void*) { tally(); }, nullptr);
      worker[t].wait();
    });
  }
  const double time = seconds([&] {
    go.store(true, std::memory_order_release);
    for (std::thread& producer : producers) producer.join();
  });
  return static_cast<double>(threads * count) / time * 1e-6;
}

namespace {

/// How many frames a stage has done; others sleep until it is enough.
class Progress {
 public:
  void wait_for(std::size_t frames) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= frames; });
  }
  void add() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
};

}  // namespace

double video(std::size_t stages, std::size_t frames, std::size_t slots, std::size_t steps) {
  std::vector<Progress> done(stages);
  return 1e3 * seconds([&] {
           std::vector<std::thread> threads;
           for (std::size_t s = 0; s < stages; ++s) {
             threads.emplace_back([&, s] {
               for (std::size_t f = 0; f < frames; ++f) {
                 if (s != 0) done[s - 1].wait_for(f + 1);
                 if (s == 0 && f >= slots) done[stages - 1].wait_for(f + 1 - slots);
                 busy(steps);
                 tally();
                 done[s].add();
               }
             });
           }
           for (std::thread& thread : threads) thread.join();
         });
}

}  // namespace bench::raw
