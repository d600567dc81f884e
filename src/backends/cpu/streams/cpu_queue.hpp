// A stream on the CPU: a strand whose commands are records. Producers write them; the consumer, a worker or a waiting host
// thread, reads and runs them. strand.hpp has the protocol; docs/architecture.md walks through it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend.hpp"
#include "backends/cpu/streams/queue_failures.hpp"
#include "backends/cpu/streams/record.hpp"
#include "backends/cpu/streams/strand.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

class CpuDevice;
class ProducerLock;
struct GraphRecord;

/// What queues add to strands.
struct QueueParts {
  template <class T>
  using Atomic = std::atomic<T>;
  template <class T>
  using Data = T;
  static void pause() { cpu::pause(); }
  static void back_off(int tries) { cpu::back_off(tries); }
  static bool awaits_producer(int tries) { return tries < 120; }  // back_off() has not slept by then

  struct Producer {
    std::byte* write = nullptr;
    std::byte* plain_end = nullptr;  ///< the last place where a plain launch may begin: by one comparison
    Chunk* chunk = nullptr;
    const std::atomic<std::uint64_t>* default_tail;  ///< the legacy queue's; one that stays 0 where that orders nothing
    /// The legacy queue's tail that this one waits for already. Written under the lock, by atomic_ref; read without it, too.
    std::uint64_t default_seen = 0;
    std::uint64_t patience = 0;  ///< the backlog at which producers are held back

    void write_in(Chunk& next) {
      chunk = &next;
      write = next.begin();
      plain_end = next.end() - most_plain_bytes;
    }
    std::byte* write_end() const { return plain_end + most_plain_bytes; }
  };
  struct Listed {
    CpuQueue* next = nullptr;  ///< guarded by the pool's lock
  };
  struct Consumer {
    std::uint64_t counting_from = 0;  ///< done_ when it began to count replays
    std::byte* read = nullptr;
    Chunk* chunk = nullptr;
  };
  struct Waiter {
    std::atomic<std::uint32_t>* awake = nullptr;  ///< a host thread's; with neither a strand: SignalWaiter
  };
};
using QueueStrand = Strand<QueueParts>;
using Waiter = QueueStrand::Waiter;

/// The time of one timed record; shared by the event and the record on its way.
struct Stamp {
  std::atomic<int> owners{2};
  std::atomic<std::int64_t> nanoseconds{0};
};
void release_stamp(Stamp* stamp) noexcept;

class CpuQueue final : public Queue, private QueueStrand {
 public:
  enum class Role : bool { legacy, other };
  explicit CpuQueue(CpuDevice& device, Role role = Role::other);

  /// Queues are immortal and used again; their sequence numbers go on, so old events stay right.
  void open(const QueueOptions& options);

  void submit(const Command& command) override;
  void launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
              const detail::LaunchSite& site) override;
  void launch_empty(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                    const detail::LaunchSite& site) override;
  void launch_32(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                 const detail::LaunchSite& site) override;
  void launch_64(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                 const detail::LaunchSite& site) override;
  void record(detail::EventState& event, SourceLocation where) override;
  void wait(detail::EventState& event, SourceLocation where) override;
  std::unique_ptr<detail::Signal> wait_for_signal(const Command& command) override;
  void follow(Queue& other, StreamId owner) override;
  bool done() override;
  /// A queue goes to another stream when nothing in it is pending.
  bool is_over(StreamId owner) override { return stream() != owner || done() || stream() != owner; }
  void signal_after(StreamId owner, std::unique_ptr<detail::Signal>& signal) override;
  void synchronize(const char* operation, SourceLocation where) override;
  void drain() noexcept override;
  void retire() noexcept override;

  CpuDevice& device() { return device_; }
  const std::string& label() const { return label_; }
  /// Acquire, with open(): who finds another stream's finds all done that the stream before gave it.
  StreamId stream() const { return stream_.load(std::memory_order_acquire); }
  bool legacy() const { return legacy_; }
  bool blocking() const { return blocking_.load(std::memory_order_relaxed); }
  int level() const { return level_.load(std::memory_order_relaxed); }

  using QueueStrand::completed;
  using QueueStrand::reached;
  using QueueStrand::tail;
  /// Reached, and no failure that a wait from now on would inherit.
  bool passed(std::uint64_t sequence) const { return reached(sequence) && !failures_.unreported_at(sequence); }
  /// For who polls: finished. Where no thread can be started, it runs a command first that stands before that.
  bool poll(std::uint64_t sequence);
  /// A point in this queue's order that covers everything before it, also what a default stream implies.
  std::uint64_t mark();
  /// These return the number of their command.
  std::uint64_t append_stamp(Stamp* stamp, const Origin& command);
  std::uint64_t append_empty(const Origin& command);
  void append_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command);
  void append_idle_wait(const Origin& command);
  /// Reached, or nothing but formalities (waits that are over, empty records) stood before it: these are done at once. So is
  /// the end of a replay that is over, on whose end other streams may have acted already.
  bool finished(std::uint64_t sequence);

  /// Gives the signal when the command is complete: at once, or by whoever completes it.
  void signal_behind(std::uint64_t sequence, std::unique_ptr<detail::Signal>& signal);
  /// What this queue is parked on was given.
  void resume();

  // For graphs. A queue without commands whose counter says which replays are over; nobody runs it.

  void begin_counting();
  void end_counting() noexcept;
  using QueueStrand::count_one;
  void reach_next() { complete(); }
  std::uint64_t counted() const { return done_ - consumer_.counting_from; }
  /// Who waits for this queue may run the present work of another one.
  void help_by(CpuQueue& lane) { help_at(lane, lane.tail()); }
  /// `loud` false: no worker is woken for it.
  void append_ticket(CpuGraph& graph, std::uint32_t segment, int level, bool loud);

  // For collectives.

  /// In a transport's queue: gathers the parts, and runs the call.
  std::uint64_t append_gather(detail::CollectiveCall& call, CpuTransport& transport);
  void append_share(detail::CollectiveCall& call);
  /// This queue is parked on a part: who waits for it may help that queue.
  void help_in(CpuQueue& lane, std::uint64_t number);

  /// Waits, helping: runs what it waits for if nobody does.
  void wait_until(std::uint64_t sequence);
  /// Throws the failure at or before `sequence`; forgets it if asked.
  void throw_failure(std::uint64_t sequence, bool forget) {
    if (failures_.any_unreported()) [[unlikely]]
      throw_found_failure(sequence, forget);
  }
  QueueFailures& failures() { return failures_; }
  /// The stream is gone, and its failure is the device's `order`th that was lost; false if somebody was told of it
  /// meanwhile. The lock of for_each_queue is held.
  bool lose_failure(std::uint64_t order) noexcept;

  /// For workers: takes and runs the queue after it was popped. Returns how many commands the worker ran, of this queue and of those that
  /// it ran within the turn.
  std::uint64_t run_popped(Runner& runner);

  /// Guarded by the pool's lock.
  CpuQueue*& next_ready() { return in_list_.next; }

 private:
  friend class CpuDevice;
  friend class ProducerLock;

  // producers (queue_append.cpp)
  template <class R>
  R* begin_record(const Origin& command, RecordKind kind, std::size_t trailing_bytes, bool flag = false);
  void make_room(std::size_t bytes);
  std::byte* next_chunk(std::size_t bytes);
  void note_formality();
  void hold_back();
  /// The lock is held.
  bool default_stream_is_new() const {
    return producer_.default_tail->load(std::memory_order_seq_cst) != producer_.default_seen;  // D2 of the strand
  }
  void order_with_default_stream();
  void collect_blocking_queues();
  void write_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command);
  std::uint64_t publish_record(std::byte* end);
  /// Makes the queue known to the workers, unless somebody has it by now.
  void schedule();
  void submit_launch(const Command& command, const Launch& launch);
  template <std::size_t room>
  static std::size_t write_plain(std::byte* at, const Kernel& kernel, const void* closure, std::size_t size,
                                 const detail::LaunchSite& site);
  template <std::size_t room>
  void launch_locked(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                     const detail::LaunchSite& site);
  template <std::size_t room>
  void launch_plain(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                    const detail::LaunchSite& site);
  void submit_launch_shaped(const Command& command, const Launch& launch);
  void submit_copy(const Command& command, const Copy& copy);
  std::uint64_t append_copy(const Command& command, const Copy& copy, bool owns_source);
  void submit_fill(const Command& command, const Fill& fill);
  void submit_call(const Command& command, detail::HostFunction* function, bool external);
  void submit_graph(const Command& command, CpuGraph& graph);
  void submit_collective(const Command& command, detail::CollectivePart& part);

  // the consumer (queue_run.cpp)
  void run(Runner& runner, std::uint64_t until, bool worker);
  cpu::Record& next_record();
  void give_up();
  void settle(Left left);
  void run_record(Record& record, Runner& runner);
  void run_in_one(LaunchRecord& launch);
  void run_launch(Record& record, Runner& runner);
  bool replay_is_over(std::uint64_t sequence) const;
  void start_graph(GraphRecord& record, Runner& runner, bool worker);
  void finish_graph(GraphRecord& record);
  void run_ticket(const TicketRecord& ticket, Runner& runner);
  bool parks(cpu::Record& record, Runner& runner, bool worker);
  bool park(const WaitRecord& wait);
  bool park(const SignalRecord& wait);
  void finish_signal(SignalRecord& record);
  // collectives (queue_collective.cpp): false, the queue is parked
  [[nodiscard]] bool take_part(CollectiveRecord& record, Runner& runner, bool worker);
  [[nodiscard]] bool gather(GatherRecord& record, Runner& runner, bool worker);
  void run_share(ShareRecord& record, Runner& runner);
  void run_chunks(detail::CollectiveCall& call, Runner& runner);
  bool park(CollectiveRecord& record);
  void come_to(detail::CollectivePart& part);
  void know_told(detail::CollectiveCall* call);
  bool help_told();
  CpuQueue* collective_lane(std::uint64_t& number) const;
  void help_source(CpuQueue& source, std::uint64_t sequence, Runner& runner);
  void park_head();
  void inherit_failure(CpuQueue& source, std::uint64_t sequence, std::uint32_t reports_seen);
  void fail(Record& record, Errc code, const char* what, std::string_view name, std::exception_ptr cause);
  void skip(Record& record);
  void complete() {
    if (Waiter* woken = complete_next()) [[unlikely]]
      wake(woken);
  }
  static void wake(Waiter* woken, CpuQueue* by = nullptr, CpuQueue** keep = nullptr);
  void complete(Runner& runner);
  void run_woken(Runner& runner, std::uint64_t sequence);
  bool parks_at_next();
  static void push_woken(Runner& runner);
  void begin_anew();
  bool help(std::uint64_t sequence, Runner& runner);
  void run_for_host(std::uint64_t sequence);
  void wait_for_others(std::uint64_t sequence);
  void sleep_until(std::uint64_t sequence);
  void throw_found_failure(std::uint64_t sequence, bool forget);
  void finish_retirement();

  CpuDevice& device_;
  WorkerPool& pool_;
  std::string label_;
  std::atomic<StreamId> stream_{0};
  std::atomic<int> level_{0};  ///< a worker that gives the queue up may look once its stream is another one
  /// Memory whose home was this queue's former stream is freed by threads that do not know who opens the queue meanwhile.
  std::atomic<bool> blocking_{true};
  const bool legacy_;
  bool internal_ = false;

  QueueFailures failures_;

  /// The last commands in a row that are formalities; written with the producers' lock.
  std::atomic<std::uint64_t> formalities_from_{1};
  std::atomic<std::uint64_t> formalities_to_{0};
  /// The last replay's command, and the timeline and number by which the replay is over; so, too. 0 while they are written.
  std::atomic<std::uint64_t> replay_{0};
  std::atomic<CpuQueue*> replay_timeline_{nullptr};
  std::atomic<std::uint64_t> replay_number_{0};
  /// The collective among processes that this queue is parked on, for who waits for it; read and written under the flag.
  std::atomic<detail::CollectiveCall*> told_{nullptr};
  std::atomic_flag told_taken_ = ATOMIC_FLAG_INIT;
  /// Where the collective is gathered that this queue is parked on. A hint: whoever finds an old one helps in vain.
  std::atomic<CpuQueue*> lane_{nullptr};
  std::atomic<std::uint64_t> lane_number_{0};
  std::uint64_t legacy_waited_ =
      0;  ///< guarded by the legacy queue's producers' lock: how far that one waits for this one
};

}  // namespace weir::cpu
