// A queue's life: opened, asked, waited for, retired, used again.
#include "backends/cpu/streams/cpu_queue.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "back_off.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/workers/thread_start.hpp"

namespace weir::cpu {

namespace {
const std::atomic<std::uint64_t> no_default_stream{0};
}

CpuQueue::CpuQueue(CpuDevice& device, Role role)
    : device_(device), pool_(device.pool()), legacy_(role == Role::legacy) {
  consumer_.chunk = take_chunk(0);
  consumer_.read = consumer_.chunk->begin();
  producer_.write_in(*consumer_.chunk);
  producer_.default_tail = &no_default_stream;
}

void CpuQueue::open(const QueueOptions& options) {
  failures_.prepare();
  label_ = options.label;
  stream_.store(options.stream, std::memory_order_release);  // with stream()
  level_.store(options.priority + WorkerPool::levels - 1, std::memory_order_relaxed);
  internal_ = options.kind == QueueOptions::Kind::internal;
  const bool blocking = options.kind == QueueOptions::Kind::stream && options.blocking;
  blocking_.store(blocking, std::memory_order_relaxed);
  producer_.patience = 0;
  legacy_waited_ = tail();
  if (legacy_) {
    // The legacy stream looks for work of blocking streams at each of its commands: a tail that is never equal.
    static const std::atomic<std::uint64_t> always{1};
    producer_.default_tail = &always;
  } else if (blocking) {
    producer_.default_tail = &device_.legacy().tail_;
  } else {
    producer_.default_tail = &no_default_stream;
  }
  std::atomic_ref(producer_.default_seen).store(0, std::memory_order_relaxed);
}

void CpuQueue::follow(Queue& other, StreamId) {
  auto& queue = static_cast<CpuQueue&>(other);
  const std::uint64_t last = queue.tail();
  if (&queue != this && !queue.passed(last)) append_wait(queue, last, Origin{});  // housekeeping is no command
}

/// That of the command, or of the one that nothing but formalities up to the command stand behind.
bool CpuQueue::replay_is_over(std::uint64_t sequence) const {
  if (formalities_to_.load(std::memory_order_acquire) >= sequence) {
    sequence = formalities_from_.load(std::memory_order_relaxed) - 1;
  }
  if (replay_.load(std::memory_order_acquire) != sequence) return false;
  const CpuQueue* const timeline = replay_timeline_.load(std::memory_order_acquire);
  const std::uint64_t number = replay_number_.load(std::memory_order_acquire);
  return replay_.load(std::memory_order_relaxed) == sequence && timeline->reached(number);
}

bool CpuQueue::finished(std::uint64_t sequence) {
  constexpr int most_looks = 64;   // at a queue that a worker is about to bring to its end
  constexpr int most_yields = 64;  // to a worker that those whom it woke keep from its core
  constexpr int most_naps = 100;   // while other processes keep it from its core: its turn comes in some milliseconds
  constexpr auto nap = std::chrono::microseconds(50);
  for (int looks = 0; !reached(sequence); ++looks) {
    if (looks == most_looks + most_yields + most_naps) return false;
    const bool only_formalities = formalities_to_.load(std::memory_order_acquire) >= sequence &&
                                  reached(formalities_from_.load(std::memory_order_relaxed) - 1);
    if (!only_formalities && !replay_is_over(sequence)) return false;
    if (try_acquire()) {
      Runner runner;
      run(runner, sequence, true);
    } else {
      Number number;
      const QueueStrand* source = parked_on(number);
      if (source != nullptr && !source->reached(number)) return false;
      if (looks < most_looks) {
        pause(4);
      } else if (looks < most_looks + most_yields) {
        detail::back_off(looks);
      } else {
        std::this_thread::sleep_for(nap);
      }
    }
  }
  return true;
}

bool CpuQueue::poll(std::uint64_t sequence) {
  if (finished(sequence)) return true;
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
  for (;;) {
    CpuQueue* pending = nullptr;
    device_.for_each_queue([&](CpuQueue& queue) {
      if (queue.blocking() && !queue.reached(queue.tail())) pending = &queue;
    });
    if (pending == nullptr) return true;
    if (!pending->poll(pending->tail())) return false;
  }
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
  } catch (...) {
    // The process is ending: there is nothing left to wait for. Or there is no memory for a mark.
  }
}

void CpuQueue::retire() noexcept { settle(QueueStrand::retire()); }

bool CpuQueue::lose_failure(std::uint64_t order) noexcept {
  const std::uint64_t last = tail();
  const bool legacy_knows = !blocking() || legacy_waited_ == last;
  return failures_.lose(last, order, legacy_knows);
}

/// By whom the strand told so.
void CpuQueue::finish_retirement() {
  if (failures_.failed()) {
    device_.keep_failure_of(*this);
    begin_anew();
  }
  device_.reuse(*this);
}

}  // namespace weir::cpu
