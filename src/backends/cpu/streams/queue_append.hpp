// How producers write records: what the files of the producers' side share.
#pragma once

#include <mutex>

#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

/// A record of type R at the end of the queue's memory, with its header filled in. The lock is held.
template <class R>
inline R* CpuQueue::begin_record(const Origin& command, RecordKind kind, std::size_t trailing_bytes, bool flag) {
  const std::size_t bytes = round_record(sizeof(R) + trailing_bytes);
  std::byte* at = producer_.write;
  if (at + bytes > producer_.write_end()) [[unlikely]]
    at = next_chunk(bytes);
  R* record = reinterpret_cast<R*>(at);
  record->where = command.where;
  record->head = cpu::Record::heading(kind, bytes, flag);
  record->id = command.id;
  return record;
}

/// Makes the record that ends at `end` visible, keeping the lock. Returns the command's number.
inline std::uint64_t CpuQueue::publish_record(std::byte* end) {
  producer_.write = end;
  return publish();
}

/// The producers' lock. However it is given back, also when an exception is on its way, somebody has the queue then if it
/// has work: a wait may have been written before what failed.
class ProducerLock {
 public:
  explicit ProducerLock(CpuQueue& queue) : queue_(queue) { queue_.lock(); }
  ProducerLock(CpuQueue& queue, std::adopt_lock_t) : queue_(queue) {}
  ~ProducerLock() {
    if (held_ && queue_.unlock()) queue_.schedule();
  }
  ProducerLock(const ProducerLock&) = delete;
  ProducerLock& operator=(const ProducerLock&) = delete;

  /// A wait that nothing stands before need not go by way of a worker: the queue is parked at once.
  void unlock_and_park() {
    held_ = false;
    queue_.pool_.note_host();
    if (queue_.unlock_and_acquire()) queue_.park_head();
  }
  /// Nobody is woken for it.
  void unlock_quietly(int level) {
    held_ = false;
    if (queue_.unlock() && queue_.list()) queue_.pool_.push_quietly(&queue_, level);
  }

 private:
  CpuQueue& queue_;
  bool held_ = true;
};

/// Waits for what the default stream's rules put before the next command. The lock is held.
inline void CpuQueue::order_with_default_stream() {
  if (default_stream_is_new()) [[unlikely]]
    collect_blocking_queues();
}

/// Whether or not it is used, what fits now needs no memory later. The lock is held.
inline void CpuQueue::make_room(std::size_t bytes) {
  if (producer_.write + bytes > producer_.write_end()) next_chunk(bytes);
}

}  // namespace weir::cpu
