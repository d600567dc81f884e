// The consumer's side of a queue: running records in order, parking on waits, helping, failing.
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/memory_ops.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/streams/cpu_signal.hpp"
#include "failure_reports.hpp"

namespace weir::cpu {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int deepest = 16;               ///< queues that one thread runs because each waits for the next
constexpr int spin_rounds = 40;           ///< of about half a microsecond, before a waiting host thread sleeps
constexpr int most_sleeps_at_exit = 500;  ///< of a millisecond

/// Host threads that wait may run others' commands: for that time they are inside a kernel or host function.
class RunningScope {
 public:
  RunningScope() : before_(detail::thread_state) { detail::thread_state = detail::ThreadState::running; }
  ~RunningScope() { detail::thread_state = before_; }

 private:
  detail::ThreadState before_;
};

template <class R>
R& as(Record& record) {
  return static_cast<R&>(record);
}

/// Queues that became ready together: workers hear of all that share a pool and a level at once.
class Chain {
 public:
  void add(CpuQueue& queue) {
    if (last_ != nullptr && (&queue.device() != &last_->device() || queue.level() != level_)) push();
    level_ = queue.level();
    (last_ != nullptr ? last_->next_ready() : first_) = &queue;
    last_ = &queue;
    ++count_;
  }
  /// The queue, if it is alone, of the same pool and level as that one; it is the caller's to push.
  CpuQueue* take_only(CpuQueue& like) {
    if (count_ != 1 || &last_->device() != &like.device() || level_ != like.level()) return nullptr;
    count_ = 0;
    last_ = nullptr;
    return std::exchange(first_, nullptr);
  }
  void push() {
    if (last_ != nullptr) last_->device().pool().push_chain(first_, last_, count_, level_);
    first_ = last_ = nullptr;
    count_ = 0;
  }

 private:
  CpuQueue* first_ = nullptr;
  CpuQueue* last_ = nullptr;
  int count_ = 0;
  int level_ = 0;
};

}  // namespace

std::uint64_t CpuQueue::run_popped(Runner& runner) {
  if (!take_popped()) return 0;  // a host thread helps, or it is parked
  const std::uint64_t before = runner.commands;
  runner.share = Runner::fair_share;
  runner.hops = 0;
  run(runner, ~std::uint64_t{0}, true);
  return runner.commands - before;
}

/// Of the next command; there is one.
inline Record& CpuQueue::next_record() {
  for (;;) {
    auto& record = *reinterpret_cast<Record*>(consumer_.read);
    if (record.kind() != RecordKind::next_chunk) [[likely]]
      return record;
    Chunk* old = consumer_.chunk;
    consumer_.chunk = old->next;
    consumer_.read = consumer_.chunk->begin();
    give_chunk(old);
  }
}

namespace {
bool is_run_in_one(const LaunchRecord& launch) {
  return launch.size == 1 || WorkerPool::takes_for_tiny(launch.kernel, launch.size);
}
}  // namespace

/// Runs commands until `until` is complete, none is left, or the queue parks. A worker also stops for more urgent queues.
void CpuQueue::run(Runner& runner, std::uint64_t until, bool worker) {
  runner.level = level();
  const std::uint64_t first = done_;
  std::uint64_t tail = 0;
  while (done_ < until) {
    if (done_ >= tail) {
      tail = this->tail();
      if (done_ >= tail) break;
    }
    Record* const record = &next_record();
    const RecordKind kind = record->kind();
    if (runner.woken != nullptr && (kind != RecordKind::wait || as<WaitRecord>(*record).source != runner.woken))
      push_woken(runner);
    if (holds(kind)) {
      const std::uint64_t ran = done_ - first;
      if (parks(*record, runner, worker)) {  // whoever ends the wait has the queue now
        runner.commands += ran;
        return;
      }
    } else if (failures_.failed_relaxed()) {
      skip(*record);
    } else if (kind == RecordKind::launch && is_run_in_one(as<LaunchRecord>(*record))) {
      run_in_one(as<LaunchRecord>(*record));
    } else {
      run_record(*record, runner);
    }
    consumer_.read += record->bytes();
    if (worker) {
      complete(runner);
      if (pool_.more_urgent_than(level()) || runner.must_leave()) break;
      if (--runner.share <= 0) {
        if (pool_.any_ready() || pool_.better_left_to_host(runner)) break;
        runner.share = Runner::fair_share;
        runner.hops = 0;
      }
    } else {
      complete();
    }
  }
  runner.commands += done_ - first;
  if (runner.woken != nullptr) push_woken(runner);
  if (done_ == until && parks_at_next()) return;
  give_up();
}

/// Of a queue that has come as far as it had to: where a wait comes next it parks, and need not be listed for that.
bool CpuQueue::parks_at_next() {
  if (done_ == tail()) return false;
  auto& record = next_record();
  return record.kind() == RecordKind::wait && park_on(*as<WaitRecord>(record).source, as<WaitRecord>(record).sequence);
}

/// A worker keeps the only queue that its command woke, if that is like this one: the next command may be a wait for it.
void CpuQueue::complete(Runner& runner) {
  Waiter* const woken = complete_next();
  if (woken != nullptr) [[unlikely]]
    wake(woken, runner.worker ? this : nullptr, &runner.woken);
}

void CpuQueue::push_woken(Runner& runner) {
  CpuQueue& queue = *std::exchange(runner.woken, nullptr);
  queue.pool_.push(&queue, queue.level());
}

/// Of a record that holds the queue. True if it belongs to nobody now; false if the record is over.
bool CpuQueue::parks(Record& record, Runner& runner, bool worker) {
  switch (record.kind()) {
    case RecordKind::signal:
      if (park(as<SignalRecord>(record))) return true;
      finish_signal(as<SignalRecord>(record));
      return false;
    case RecordKind::collective: return !take_part(as<CollectiveRecord>(record), runner, worker);
    case RecordKind::gather: return !gather(as<GatherRecord>(record), runner, worker);
    default: break;
  }
  const auto& wait = as<WaitRecord>(record);
  const bool graph = record.kind() == RecordKind::graph;
  if (graph) start_graph(static_cast<GraphRecord&>(record), runner, worker);
  if (!worker) {
    help_source(*wait.source, wait.sequence, runner);
  } else if (runner.woken != nullptr) {
    run_woken(runner, wait.sequence);
  }
  if (park(wait)) return true;
  if (graph) {
    finish_graph(static_cast<GraphRecord&>(record));
  } else if (record.id != 0) {
    detail::report_ran(record.id, stream(), {Clock::now(), Clock::now()});
  }
  return false;
}

void CpuQueue::give_up() { settle(release()); }

/// Does what giving the queue up left to do.
void CpuQueue::settle(Left left) {
  if (left == Left::ready) pool_.push(this, level());
  if (left == Left::retired) finish_retirement();
}

/// `woken` as complete_next() returned it.
/// `keep`: a queue like `by` that is the only one is not pushed, but left there.
void CpuQueue::wake(Waiter* woken, CpuQueue* by, CpuQueue** keep) {
  Chain chain;
  Waiter* hosts = nullptr;
  Waiter* signals = nullptr;
  while (woken != nullptr) {
    Waiter* waiter = woken;
    woken = waiter->next;                                  // a waiter is gone once it was woken
    auto* queue = static_cast<CpuQueue*>(waiter->strand);  // whoever runs it may park it again, in the same waiter
    if (queue == nullptr) {
      Waiter*& kind = waiter->awake != nullptr ? hosts : signals;
      waiter->next = kind;
      kind = waiter;
    } else if (queue->unpark()) {
      chain.add(*queue);
    }
  }
  if (by != nullptr) *keep = chain.take_only(*by);
  chain.push();
  if (signals != nullptr) [[unlikely]]
    give_signals(signals);
  while (hosts != nullptr) {
    std::atomic<std::uint32_t>* awake = hosts->awake;
    hosts = hosts->next;
    awake->store(1, std::memory_order_seq_cst);
    futex_wake(*awake, 1);
  }
}

/// True if the queue now waits for the source and belongs to nobody; false if the wait is over.
bool CpuQueue::park(const WaitRecord& wait) {
  if (park_on(*wait.source, wait.sequence)) return true;
  inherit_failure(*wait.source, wait.sequence, wait.reports_seen);
  return false;
}

/// A host thread that waits for this queue waits for the source: it runs that first, which is cheaper than to park.
void CpuQueue::help_source(CpuQueue& source, std::uint64_t sequence, Runner& runner) {
  if (runner.depth == deepest) return;
  ++runner.depth;
  while (!source.reached(sequence) && source.help(sequence, runner)) {
  }
  --runner.depth;
}

/// This queue's last command woke the one that it waits for now. A worker runs that within the turn: two streams that wait for
/// each other by turns stay with one worker, and are not listed and popped again at each step.
void CpuQueue::run_woken(Runner& runner, std::uint64_t sequence) {
  if (runner.depth == deepest) {
    push_woken(runner);
    return;
  }
  CpuQueue& source = *std::exchange(runner.woken, nullptr);
  ++runner.hops;
  if (!source.take_popped()) return;  // a host thread helps
  ++runner.depth;
  runner.note_queue(source);
  source.run(runner, sequence, true);
  runner.note_queue(*this);
  --runner.depth;
}

/// Of a queue that this thread has just acquired: ends its turn, parked if a wait is all it has.
void CpuQueue::park_head() {
  auto* record = reinterpret_cast<Record*>(consumer_.read);
  if (done_ + 1 == tail()) {
    if (record->kind() == RecordKind::wait && park(as<WaitRecord>(*record))) return;
    if (record->kind() == RecordKind::signal && park(as<SignalRecord>(*record))) return;
    if (record->kind() == RecordKind::collective && park(as<CollectiveRecord>(*record))) return;
  }
  give_up();
}

/// Runs what stands before `sequence` in this queue, or in the queue that it is parked on. False if others run it.
bool CpuQueue::help(std::uint64_t sequence, Runner& runner) {
  CpuQueue* queue = this;
  for (int depth = 0; depth < 64; ++depth) {
    if (queue->try_acquire()) {
      pool_.note_host();
      pool_.note_host_core(sched_getcpu());
      const RunningScope scope;
      queue->run(runner, sequence, false);
      pool_.note_host_core(-1);
      return true;
    }
    if (queue->help_told()) return true;
    CpuQueue* const source = static_cast<CpuQueue*>(queue->parked_on(sequence));
    queue = source != nullptr ? source : queue->collective_lane(sequence);
    if (queue == nullptr) return false;
    if (queue->reached(sequence)) return false;
  }
  return false;
}

namespace {
/// Whether a waiting host thread without anything to do goes on looking, after so many looks.
bool looks_again(WaitMode mode, int& rounds, const WorkerPool& pool) {
  switch (mode) {
    case WaitMode::spin:
    case WaitMode::yield: return !pool.stopping();
    case WaitMode::block: return false;
    case WaitMode::automatic: break;
  }
  return rounds++ < spin_rounds;
}
}  // namespace

/// Of a queue that this thread has acquired. The commonest wait is for one short launch, and goes without what others need.
void CpuQueue::run_for_host(std::uint64_t sequence) {
  pool_.note_host();
  const RunningScope scope;
  auto& record = *reinterpret_cast<Record*>(consumer_.read);
  if (done_ + 1 == sequence && sequence <= tail() && record.kind() == RecordKind::launch &&
      !failures_.failed_relaxed() && is_run_in_one(as<LaunchRecord>(record))) {
    run_in_one(as<LaunchRecord>(record));
    consumer_.read += record.bytes();
    complete();
    give_up();
    return;
  }
  Runner runner;
  pool_.note_host_core(sched_getcpu());
  run(runner, sequence, false);
  pool_.note_host_core(-1);
}

void CpuQueue::wait_until(std::uint64_t sequence) {
  if (reached(sequence)) return;
  if (try_acquire()) {
    run_for_host(sequence);
    if (reached(sequence)) return;
  }
  wait_for_others(sequence);
}

[[gnu::noinline]] void CpuQueue::wait_for_others(std::uint64_t sequence) {
  Runner runner;
  int sleeps_at_exit = 0;
  const WaitMode mode = pool_.wait_mode();
  for (int rounds = 0; !reached(sequence);) {
    if (help(sequence, runner)) {
      rounds = 0;
    } else if (looks_again(mode, rounds, pool_)) {
      if (mode == WaitMode::yield) {
        std::this_thread::yield();
      } else {
        pause(16);
      }
    } else {
      sleep_until(sequence);
      if (pool_.stopping() && !reached(sequence) && ++sleeps_at_exit > most_sleeps_at_exit) {
        throw Error(Errc::process_exiting, "weir: waiting", label_,
                    "the process is ending and a command that began before will not finish", {});
      }
    }
  }
}

void CpuQueue::sleep_until(std::uint64_t sequence) {
  thread_local std::atomic<std::uint32_t> awake;
  awake.store(0, std::memory_order_relaxed);
  Waiter waiter;
  waiter.number = sequence;
  waiter.awake = &awake;
  if (!join(waiter)) return;
  pool_.host_sleeps();
  while (awake.load(std::memory_order_seq_cst) == 0) {
    if (!pool_.stopping()) {
      futex_wait_for(awake, 0, std::chrono::milliseconds(200));
      continue;
    }
    // Nobody may come any more: leave the list, and let the caller help or give up.
    futex_wait_for(awake, 0, std::chrono::milliseconds(1));
    if (leave(waiter)) return;
  }
}

void CpuQueue::fail(Record& record, Errc code, const char* what, std::string_view name, std::exception_ptr cause) {
  const char* operation = record.kind() == RecordKind::launch_blocks ? "weir::launch_blocks"
                          : code == Errc::kernel_failed              ? "weir::launch"
                          : record.flag()                            ? "weir::external"
                                                                     : "weir::host_call";
  auto error = detail::failure_of({code, operation, what, name, label_, record.where}, std::move(cause));
  detail::note_unseen(error);
  detail::report_failed(stream(), 0, *error);
  failures_.fail(done_ + 1, std::move(error));
}

void CpuQueue::inherit_failure(CpuQueue& source, std::uint64_t sequence, std::uint32_t reports_seen) {
  if (internal_) return;
  if (auto theirs = source.failures_.inherited_at(sequence, reports_seen)) {
    detail::report_failed(stream(), source.stream(), *theirs);
    failures_.fail(done_ + 1, std::move(theirs));
  }
}

void CpuQueue::throw_found_failure(std::uint64_t sequence, bool forget) {
  const auto found = forget ? failures_.report(sequence, completed()) : failures_.unreported_at(sequence);
  if (!found) return;
  if (forget) begin_anew();
  detail::throw_seen(*found);
}

/// Sees to it that marks taken from now on differ from those before: a number passes without a command.
void CpuQueue::begin_anew() {
  while (reached(tail())) {
    if (!try_acquire()) {  // a worker that found nothing to do has it for a moment
      pause(4);
      continue;
    }
    wake(pass_number());
    give_up();
    return;
  }
}

}  // namespace weir::cpu
