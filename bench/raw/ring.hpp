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

/// A function, what it gets, and room for more: a cache line.
struct alignas(64) Task {
  void (*run)(void*);
  void* argument;
  std::byte rest[48];
};

class Ring {
 public:
  /// Writes only what the task needs.
  void push(void (*run)(void*), void* argument) {
    Task& slot = next_slot();
    slot.run = run;
    slot.argument = argument;
    publish();
  }
  /// Makes the whole task first and copies it, as a queue for any kind of task does.
  void push_whole(void (*run)(void*), void* argument) {
    Task& slot = next_slot();
    const Task task{run, argument, {}};
    slot = task;
    publish();
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
      head_.store(++head, std::memory_order_release);
    }
    return true;
  }

 private:
  static constexpr std::size_t size = 1024;

  Task& next_slot() {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    while (tail - head_.load(std::memory_order_acquire) == size) relax();
    return tasks_[tail % size];
  }
  void publish() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  alignas(64) std::atomic<std::size_t> tail_{0};
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) Task tasks_[size];
};

/// Rings and the thread that spins over them.
class SpinningWorker {
 public:
  explicit SpinningWorker(std::size_t rings) {
    for (std::size_t i = 0; i < rings; ++i) rings_.push_back(std::make_unique<Ring>());
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
  Ring& operator[](std::size_t ring) { return *rings_[ring]; }
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

  std::vector<std::unique_ptr<Ring>> rings_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bench::raw
