// A queue's life: opened, asked, waited for, retired, used again.
#include "backends/cpu/streams/cpu_queue.hpp"

#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/workers/thread_start.hpp"

namespace weir::cpu {

namespace {
const std::atomic<std::uint64_t> no_default_stream{0};
}

CpuQueue::CpuQueue(CpuDevice& device) : device_(device), pool_(device.pool()), default_tail_(&no_default_stream) {
  Chunk* chunk = take_chunk(0);
  write_chunk_ = read_chunk_ = chunk;
  write_ = read_ = chunk->begin();
  write_end_ = chunk->end();
}

void CpuQueue::open(const QueueOptions& options) {
  label_ = options.label;
  stream_ = options.stream;
  level_.store(options.priority + WorkerPool::levels - 1, std::memory_order_relaxed);
  legacy_ = options.kind == QueueOptions::Kind::legacy;
  internal_ = options.kind == QueueOptions::Kind::internal;
  blocking_ = options.kind == QueueOptions::Kind::stream && options.blocking;
  patience_ = 0;
  legacy_waited_ = tail();
  if (legacy_) {
    // The legacy stream looks for work of blocking streams at each of its commands: a tail that is never equal.
    static const std::atomic<std::uint64_t> always{1};
    default_tail_ = &always;
    default_seen_.store(0, std::memory_order_relaxed);
  } else if (blocking_) {
    default_tail_ = &device_.legacy().tail_;
    default_seen_.store(0, std::memory_order_relaxed);
  } else {
    default_tail_ = &no_default_stream;
    default_seen_.store(0, std::memory_order_relaxed);
  }
}

void CpuQueue::follow(Queue& other) {
  auto& queue = static_cast<CpuQueue&>(other);
  append_wait(queue, queue.tail(), Origin{});
}

bool CpuQueue::poll(std::uint64_t sequence) {
  if (reached(sequence)) return true;
  if (!threads_are_missing()) [[likely]]
    return false;
  Runner runner;
  help(completed() + 1, runner);
  return reached(sequence);
}

bool CpuQueue::done() {
  if (!poll(tail())) return false;
  if (!legacy_) return true;
  // The legacy handle stands for all blocking streams (R25).
  CpuQueue* waiting = nullptr;
  device_.for_each_queue([&](CpuQueue& queue) {
    if (queue.blocking() && !queue.reached(queue.tail())) waiting = &queue;
  });
  if (waiting == nullptr) return true;
  waiting->poll(waiting->tail());
  return false;
}

void CpuQueue::synchronize(const char*, SourceLocation) {
  const std::uint64_t last = legacy_ ? mark() : tail();
  wait_until(last);
  device_.after_synchronize();
  throw_failure(last, true);
}

void CpuQueue::drain() noexcept {
  try {
    wait_until(legacy_ ? mark() : tail());
  } catch (const Error&) {
    // The process is ending: there is nothing left to wait for.
  }
}

void CpuQueue::retire() noexcept {
  retired_.store(true, std::memory_order_seq_cst);
  // release() looks at retired_, here or wherever the queue is running.
  if (try_acquire()) release();
}

/// Called by release() alone: whoever saw the last command done has given the queue up.
void CpuQueue::finish_retirement() {
  if (!reached(tail()) || !retired_.exchange(false, std::memory_order_seq_cst)) return;
  if (failed_.load(std::memory_order_acquire)) {
    device_.keep_failure_of(*this);
    begin_anew();
  }
  device_.reuse(*this);
}

}  // namespace weir::cpu
