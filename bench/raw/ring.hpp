// A ring of tasks from one producer to one consumer, both spinning.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench::raw {

inline void relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A function and what it gets, in a cache line of its own.
struct alignas(64) Task {
  void (*run)(void*);
  void* argument;
};

/// The plain ring looks at the other side's index for every task; the other one only when its last look is used up, and
/// tells of finished tasks in batches.
template <bool plain>
class Ring {
 public:
  void push(void (*run)(void*), void* argument) {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    if (plain || tail - seen_head_ == size) {
      while (tail - (seen_head_ = head_.load(std::memory_order_acquire)) == size) relax();
    }
    tasks_[tail % size].run = run;
    tasks_[tail % size].argument = argument;
    tail_.store(tail + 1, std::memory_order_release);
  }
  /// For the producer: until everything pushed has run.
  void wait() const {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    while (head_.load(std::memory_order_acquire) != tail) relax();
  }
  /// For the consumer: runs what is there; false if nothing was.
  bool drain() {
    std::size_t head = head_.load(std::memory_order_relaxed);
    const std::size_t tail = tail_.load(std::memory_order_acquire);
    if (head == tail) return false;
    while (head != tail) {
      const Task& task = tasks_[head % size];
      task.run(task.argument);
      ++head;
      if (plain || head == tail) head_.store(head, std::memory_order_release);
    }
    return true;
  }

 private:
  static constexpr std::size_t size = 1024;
  alignas(64) std::atomic<std::size_t> tail_{0};
  std::size_t seen_head_ = 0;  ///< the producer's last look at head_
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) Task tasks_[size];
};

/// Rings and the thread that spins over them.
template <bool plain>
class SpinningWorker {
 public:
  explicit SpinningWorker(std::size_t rings) {
    for (std::size_t i = 0; i < rings; ++i) rings_.push_back(std::make_unique<Ring<plain>>());
    thread_ = std::thread([this] { work(); });
    for (const auto& ring : rings_) {
      ring->push([](void*) {}, nullptr);
      ring->wait();
    }
  }
  ~SpinningWorker() {
    stop_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  Ring<plain>& operator[](std::size_t ring) { return *rings_[ring]; }
  void wait() const {
    for (const auto& ring : rings_) ring->wait();
  }

 private:
  void work() {
    while (!stop_.load(std::memory_order_relaxed)) {
      bool any = false;
      for (const auto& ring : rings_) any |= ring->drain();
      if (!any) relax();
    }
  }

  std::vector<std::unique_ptr<Ring<plain>>> rings_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bench::raw
