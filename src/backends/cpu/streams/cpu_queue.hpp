// A stream on the CPU: a strand. Many producers append records; one consumer at a time, a worker or a waiting host thread,
// runs them in order. docs/architecture.md walks through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend.hpp"
#include "backends/cpu/streams/record.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

class CpuDevice;
class ProducerLock;
struct GraphRecord;

/// Who waits for a queue to complete a command: another queue, a host thread asleep on `awake`, or, with neither, another
/// backend (SignalWaiter).
struct Waiter {
  std::uint64_t sequence = 0;
  CpuQueue* queue = nullptr;
  std::atomic<std::uint32_t>* awake = nullptr;
  Waiter* next = nullptr;
};

/// Those who wait for one queue. One word is lock and flag, so that to join costs one exchange, and a look of the queue that
/// nobody waits for costs a load.
class WaiterList {
 public:
  /// Takes part in the pairing of park() and complete(): a full barrier. `first` is the caller's until unlock().
  void lock() {
    if ((word_.fetch_or(present | locked, std::memory_order_seq_cst) & locked) != 0) [[unlikely]]
      lock_slowly();
  }
  void unlock() { word_.store(first != nullptr ? std::uint32_t{present} : 0u, std::memory_order_release); }
  bool empty() const { return word_.load(std::memory_order_seq_cst) == 0; }

  Waiter* first = nullptr;

 private:
  enum : std::uint32_t { present = 1, locked = 2 };
  void lock_slowly();
  std::atomic<std::uint32_t> word_{0};
};

/// The time of one timed record; shared by the event and the record on its way.
struct Stamp {
  std::atomic<int> owners{2};
  std::atomic<std::int64_t> nanoseconds{0};
};
void release_stamp(Stamp* stamp) noexcept;

/// The first command of a queue that failed, or the failure it inherited by a wait.
struct Failure {
  std::uint64_t sequence;
  Error error;
};

/// A failure that the host knows of. Commands from its own to `until` were skipped: waits for them that were enqueued before
/// the report inherit it all the same.
struct Reported {
  std::shared_ptr<const Failure> failure;
  std::uint64_t until;
  std::uint32_t number;  ///< of the report: waits that were enqueued after it do not inherit
};

class CpuQueue final : public Queue {
 public:
  explicit CpuQueue(CpuDevice& device);

  /// Queues are immortal and used again; their sequence numbers go on, so old events stay right.
  void open(const QueueOptions& options);

  void submit(const Command& command) override;
  void launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
              const detail::LaunchSite& site) override;
  void record(detail::EventState& event, SourceLocation where) override;
  void wait(detail::EventState& event, SourceLocation where) override;
  std::unique_ptr<detail::Signal> wait_for_signal(const Command& command) override;
  void follow(Queue& other) override;
  bool done() override;
  void synchronize(const char* operation, SourceLocation where) override;
  void drain() noexcept override;
  void retire() noexcept override;

  CpuDevice& device() { return device_; }
  const std::string& label() const { return label_; }
  bool legacy() const { return legacy_; }
  bool blocking() const { return blocking_; }
  int level() const { return level_.load(std::memory_order_relaxed); }

  /// The number of the last command submitted; with it, whether and when it is finished.
  std::uint64_t tail() const { return tail_.load(std::memory_order_acquire) >> 1; }
  std::uint64_t completed() const { return completed_.load(std::memory_order_acquire); }
  bool reached(std::uint64_t sequence) const { return completed() >= sequence; }
  /// Reached, and no failure that a wait from now on would inherit.
  bool passed(std::uint64_t sequence) const { return reached(sequence) && !failed_.load(std::memory_order_acquire); }
  /// For who polls: reached. Where no thread can be started, it runs a command first that stands before that.
  bool poll(std::uint64_t sequence);
  /// A point in this queue's order that covers everything before it, also what a default stream implies.
  std::uint64_t mark();
  /// These return the number of their command.
  std::uint64_t append_stamp(Stamp* stamp, const Origin& command);
  std::uint64_t append_empty(const Origin& command);
  void append_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command);

  /// Gives the signal when the command is complete: at once, or by whoever completes it.
  void signal_after(std::uint64_t sequence, std::unique_ptr<detail::Signal>& signal);
  /// What this queue is parked on was given.
  void resume();

  // For graphs. A queue without commands whose counter says which replays are over; nobody runs it.

  void begin_counting();
  void end_counting() noexcept;
  std::uint64_t count_one() { return (tail_.fetch_add(2, std::memory_order_acq_rel) >> 1) + 1; }
  void reach_next() { complete(++done_); }
  std::uint64_t counted() const { return done_ - counting_from_; }
  /// Who waits for this queue may run the present work of another one.
  void help_by(CpuQueue& lane);
  /// `loud` false: no worker is woken for it.
  void append_ticket(CpuGraph& graph, std::uint32_t segment, int level, bool loud);
  /// A replay failed: the command that launched it did.
  void adopt_failure(std::uint64_t sequence, const Error& error);

  /// Waits, helping: runs what it waits for if nobody does.
  void wait_until(std::uint64_t sequence);
  /// Throws the failure at or before `sequence`; forgets it if asked.
  void throw_failure(std::uint64_t sequence, bool forget);
  /// Takes the failure away: for the device, when the stream is gone.
  std::shared_ptr<const Failure> take_failure();
  /// The failure that covers a command, reported or not; null if it ran.
  std::shared_ptr<const Failure> failure_at(std::uint64_t sequence, std::uint32_t reports_seen);

  /// For workers: takes and runs the queue after it was popped. Returns how many commands it ran.
  std::uint64_t run_popped(Runner& runner);

  /// Guarded by the pool's lock.
  CpuQueue*& next_ready() { return next_ready_; }

 private:
  friend class CpuDevice;
  enum : std::uint32_t { listed = 1, running = 2 };  ///< bits of state_; 0: idle

  // producers (queue_append.cpp)
  template <class R>
  R* begin_record(const Origin& command, RecordKind kind, std::size_t trailing_bytes, bool flag = false);
  std::byte* next_chunk(std::size_t bytes);
  void hold_back();
  bool default_stream_is_new() const {
    return default_tail_->load(std::memory_order_acquire) != default_seen_.load(std::memory_order_acquire);
  }
  void order_with_default_stream();
  void collect_blocking_queues();
  void write_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command);
  std::uint64_t publish_locked(std::byte* end);
  void lock_producers() {
    if ((tail_.fetch_or(1, std::memory_order_acquire) & 1) != 0) [[unlikely]]
      lock_producers_slowly();
  }
  void lock_producers_slowly();
  /// A full barrier: a consumer that gives the queue up sees the tail, or schedule() sees that the queue is idle.
  void unlock_producers() { tail_.fetch_and(~std::uint64_t{1}, std::memory_order_seq_cst); }
  friend class ProducerLock;
  /// Makes the queue known to the workers if it is idle.
  void schedule() {
    if (state_.load(std::memory_order_seq_cst) == 0) schedule_idle();
  }
  void schedule_idle();
  void submit_launch(const Command& command, const Launch& launch);
  void launch_slowly(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                     const detail::LaunchSite& site);
  void submit_launch_shaped(const Command& command, const Launch& launch);
  void submit_copy(const Command& command, const Copy& copy);
  std::uint64_t append_copy(const Command& command, const Copy& copy, bool owns_source);
  void submit_fill(const Command& command, const Fill& fill);
  void submit_call(const Command& command, detail::HostFunction* function, bool external);
  void submit_graph(const Command& command, CpuGraph& graph);

  // the consumer (queue_run.cpp)
  bool try_acquire();
  std::uint64_t run(Runner& runner, std::uint64_t until, bool worker);
  void release();
  void run_record(Record& record, Runner& runner);
  void run_single(LaunchRecord& launch);
  void run_launch(Record& record, Runner& runner);
  void start_graph(GraphRecord& record, Runner& runner, bool worker);
  void finish_graph(GraphRecord& record);
  void run_ticket(const TicketRecord& ticket, Runner& runner);
  bool park(const WaitRecord& wait);
  bool park(const SignalRecord& wait);
  void finish_signal(SignalRecord& record);
  void help_source(const WaitRecord& wait, Runner& runner);
  void schedule_wait();
  void inherit(const Error& error);
  void inherit_failure(CpuQueue& source, std::uint64_t sequence, std::uint32_t reports_seen);
  void fail(Record& record, Errc code, const char* what, std::string_view name, std::exception_ptr cause);
  void skip(Record& record);
  void complete(std::uint64_t sequence);
  void wake_waiters();
  std::shared_ptr<const Failure> report_failure(std::uint64_t until);
  void begin_anew();
  bool unpark();
  bool help(std::uint64_t sequence, Runner& runner);
  void sleep_until(std::uint64_t sequence);
  void finish_retirement();

  CpuDevice& device_;
  WorkerPool& pool_;
  std::string label_;
  StreamId stream_ = 0;
  std::atomic<int> level_{0};  ///< a worker that gives the queue up may look once its stream is another one
  bool blocking_ = true;
  bool legacy_ = false;
  bool internal_ = false;

  /// Twice the number of the last command, plus one while a producer has the lock: publishing a command and giving the lock
  /// back is one exchange.
  alignas(64) std::atomic<std::uint64_t> tail_{0};
  std::byte* write_ = nullptr;      ///< the producers' (under the lock)
  std::byte* write_end_ = nullptr;  ///< the producers'
  Chunk* write_chunk_ = nullptr;    ///< the producers'
  const std::atomic<std::uint64_t>*
      default_tail_;  ///< the legacy queue's; one that stays 0 where that does not order this
  std::atomic<std::uint64_t> default_seen_{
      0};                       ///< the producers': the legacy stream's tail that this one waits for already
  std::uint64_t patience_ = 0;  ///< the producers': the backlog at which they are held back

  alignas(64) std::atomic<std::uint32_t> state_{0};
  CpuQueue* next_ready_ = nullptr;  ///< guarded by the pool's lock
  std::atomic<bool> retired_{false};

  alignas(64) std::uint64_t done_ = 0;  ///< the consumer's copy of completed_
  std::uint64_t counting_from_ = 0;     ///< the consumer's: done_ when it began to count replays
  std::byte* read_ = nullptr;           ///< the consumer's
  Chunk* read_chunk_ = nullptr;         ///< the consumer's
  std::atomic<CpuQueue*> parked_on_{nullptr};
  std::atomic<std::uint64_t> parked_until_{0};
  Waiter park_waiter_;

  alignas(64) std::atomic<std::uint64_t> completed_{0};
  WaiterList waiters_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> ever_failed_{false};
  std::atomic<std::uint32_t> reports_{0};
  SpinLock failure_lock_;
  std::shared_ptr<const Failure> failure_;  ///< guarded by failure_lock_
  std::vector<Reported> reported_;          ///< guarded by failure_lock_; the last few

  std::uint64_t legacy_waited_ =
      0;  ///< guarded by the legacy queue's producers' lock: how far that one waits for this one
};

}  // namespace weir::cpu
