// The consumer's side of a queue: running records in order, parking on waits, helping, failing.
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/memory_ops.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/streams/cpu_signal.hpp"

namespace weir::cpu {

namespace {

using Clock = std::chrono::steady_clock;
constexpr int fair_share = 256;           ///< commands of one queue before another of its priority has its turn
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

bool CpuQueue::try_acquire() {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  while ((state & running) == 0) {
    if (state_.compare_exchange_weak(state, state | running, std::memory_order_seq_cst)) return true;
  }
  return false;
}

std::uint64_t CpuQueue::run_popped(Runner& runner) {
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  for (;;) {
    const bool taken = (state & running) != 0;  // by a host thread that helps, or parked
    const std::uint32_t next = taken ? state & ~listed : (state & ~listed) | running;
    if (!state_.compare_exchange_weak(state, next, std::memory_order_seq_cst)) continue;
    return taken ? 0 : run(runner, ~std::uint64_t{0}, true);
  }
}

/// Runs commands until `until` is complete, none is left, or the queue parks. A worker also stops for more urgent queues.
/// Returns how many it ran.
std::uint64_t CpuQueue::run(Runner& runner, std::uint64_t until, bool worker) {
  int share = fair_share;
  runner.level = level();
  const std::uint64_t first = done_;
  std::uint64_t tail = 0;
  while (done_ < until) {
    if (done_ >= tail) {
      tail = this->tail();
      if (done_ >= tail) break;
    }
    auto* record = reinterpret_cast<Record*>(read_);
    const RecordKind kind = record->kind();
    if (kind == RecordKind::next_chunk) {
      Chunk* old = read_chunk_;
      read_chunk_ = old->next;
      read_ = read_chunk_->begin();
      give_chunk(old);
      continue;
    }
    if (kind == RecordKind::wait || kind == RecordKind::graph) {
      const auto& wait = as<WaitRecord>(*record);
      const bool graph = kind == RecordKind::graph;
      if (graph) start_graph(static_cast<GraphRecord&>(*record), runner, worker);
      if (!worker) help_source(wait, runner);
      const std::uint64_t ran = done_ - first;
      if (park(wait)) return ran;  // whoever completes the source has the queue now
      if (graph) {
        finish_graph(static_cast<GraphRecord&>(*record));
      } else if (record->id != 0) {
        detail::report_ran(record->id, stream_, {Clock::now(), Clock::now()});
      }
    } else if (kind == RecordKind::signal) {
      const std::uint64_t ran = done_ - first;
      if (park(as<SignalRecord>(*record))) return ran;
      finish_signal(as<SignalRecord>(*record));
    } else if (failed_.load(std::memory_order_relaxed)) {
      skip(*record);
    } else if (kind == RecordKind::launch && as<LaunchRecord>(*record).size == 1) {
      run_single(as<LaunchRecord>(*record));
    } else {
      run_record(*record, runner);
    }
    read_ += record->bytes();
    complete(++done_);
    if (worker) {
      if (pool_.more_urgent_than(level()) || runner.must_leave()) break;
      if (--share == 0) {
        if (pool_.any_ready()) break;
        share = fair_share;
      }
    }
  }
  const std::uint64_t ran = done_ - first;
  release();
  return ran;
}

void CpuQueue::release() {
  const std::uint64_t mine = done_;  // the next consumer's from here on
  const std::uint32_t before = state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);
  if (tail_.load(std::memory_order_seq_cst) >> 1 != mine) {
    std::uint32_t idle = 0;
    if ((before & listed) == 0 && state_.compare_exchange_strong(idle, listed)) pool_.push(this, level());
  } else if (retired_.load(std::memory_order_seq_cst)) {
    finish_retirement();
  }
}

void CpuQueue::complete(std::uint64_t sequence) {
  // A full barrier, as in park() and sleep_until(): either the waiter sees this command done, or it is seen waiting.
  completed_.exchange(sequence, std::memory_order_seq_cst);
  if (!waiters_.empty()) [[unlikely]]
    wake_waiters();
}

void CpuQueue::wake_waiters() {
  Waiter* woken = nullptr;
  {
    const std::lock_guard guard(waiters_);
    const std::uint64_t now = completed_.load(std::memory_order_relaxed);
    for (Waiter** link = &waiters_.first; *link != nullptr;) {
      Waiter* waiter = *link;
      if (waiter->sequence <= now) {
        *link = waiter->next;
        waiter->next = woken;
        woken = waiter;
      } else {
        link = &waiter->next;
      }
    }
  }
  Chain chain;
  Waiter* hosts = nullptr;
  Waiter* signals = nullptr;
  while (woken != nullptr) {
    Waiter* waiter = woken;
    woken = waiter->next;             // a waiter is gone once it was woken
    CpuQueue* queue = waiter->queue;  // whoever runs it next may park it again, in the same waiter
    if (queue == nullptr) {
      Waiter*& kind = waiter->awake != nullptr ? hosts : signals;
      waiter->next = kind;
      kind = waiter;
    } else if (queue->unpark()) {
      chain.add(*queue);
    }
  }
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
  CpuQueue& source = *wait.source;
  const std::uint64_t sequence = wait.sequence;
  if (!source.reached(sequence)) {
    parked_until_.store(sequence, std::memory_order_relaxed);
    parked_on_.store(&source, std::memory_order_release);
    park_waiter_.sequence = sequence;
    park_waiter_.queue = this;
    const std::lock_guard guard(source.waiters_);
    if (source.completed_.load(std::memory_order_seq_cst) < sequence) {
      park_waiter_.next = source.waiters_.first;
      source.waiters_.first = &park_waiter_;
      return true;
    }
    parked_on_.store(nullptr, std::memory_order_release);
  }
  inherit_failure(source, sequence, wait.reports_seen);
  return false;
}

/// A host thread that waits for this queue waits for the source: it runs that first, which is cheaper than to park.
void CpuQueue::help_source(const WaitRecord& wait, Runner& runner) {
  constexpr int deepest = 16;
  if (runner.depth == deepest) return;
  ++runner.depth;
  while (!wait.source->reached(wait.sequence) && wait.source->help(wait.sequence, runner)) {
  }
  --runner.depth;
}

/// A wait that nothing stands before need not go by way of a worker: the queue is parked at once.
void CpuQueue::schedule_wait() {
  pool_.note_host();
  if (state_.load(std::memory_order_seq_cst) != 0 || !try_acquire()) return;
  auto* record = reinterpret_cast<Record*>(read_);
  if (done_ + 1 == tail()) {
    if (record->kind() == RecordKind::wait && park(as<WaitRecord>(*record))) return;
    if (record->kind() == RecordKind::signal && park(as<SignalRecord>(*record))) return;
  }
  release();
}

void WaiterList::lock_slowly() {
  for (int tries = 0;; ++tries) {
    if ((word_.load(std::memory_order_relaxed) & locked) == 0 &&
        (word_.fetch_or(present | locked, std::memory_order_seq_cst) & locked) == 0)
      return;
    if (tries < 100) {
      pause();
    } else {
      yield();
    }
  }
}

/// Ends parking: the queue is anybody's to run. True if the caller has to make it known to the workers.
bool CpuQueue::unpark() {
  parked_on_.store(nullptr, std::memory_order_release);
  std::uint32_t state = state_.load(std::memory_order_relaxed);
  while (!state_.compare_exchange_weak(state, (state & ~std::uint32_t{running}) | listed, std::memory_order_seq_cst)) {
  }
  return (state & listed) == 0;
}

/// Runs what stands before `sequence` in this queue, or in the queue that it is parked on. False if others run it.
bool CpuQueue::help(std::uint64_t sequence, Runner& runner) {
  CpuQueue* queue = this;
  for (int depth = 0; depth < 64; ++depth) {
    if (queue->try_acquire()) {
      pool_.note_host();
      const RunningScope scope;
      queue->run(runner, sequence, false);
      return true;
    }
    CpuQueue* source = queue->parked_on_.load(std::memory_order_acquire);
    if (source == nullptr) return false;
    sequence = queue->parked_until_.load(std::memory_order_relaxed);
    if (queue->parked_on_.load(std::memory_order_acquire) != source) return false;
    queue = source;
    if (queue->reached(sequence)) return false;
  }
  return false;
}

void CpuQueue::wait_until(std::uint64_t sequence) {
  if (reached(sequence)) return;
  Runner runner;
  int sleeps_at_exit = 0;
  for (int rounds = 0; !reached(sequence);) {
    if (help(sequence, runner)) {
      rounds = 0;
    } else if (rounds++ < spin_rounds) {
      pause(16);
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
  waiter.sequence = sequence;
  waiter.awake = &awake;
  {
    const std::lock_guard guard(waiters_);
    if (completed_.load(std::memory_order_seq_cst) >= sequence) return;
    waiter.next = waiters_.first;
    waiters_.first = &waiter;
  }
  pool_.host_sleeps();
  while (awake.load(std::memory_order_seq_cst) == 0) {
    if (!pool_.stopping()) {
      futex_wait_for(awake, 0, std::chrono::milliseconds(200));
      continue;
    }
    // Nobody may come any more: leave the list, and let the caller help or give up.
    futex_wait_for(awake, 0, std::chrono::milliseconds(1));
    const std::lock_guard guard(waiters_);
    for (Waiter** link = &waiters_.first; *link != nullptr; link = &(*link)->next) {
      if (*link == &waiter) {
        *link = waiter.next;
        return;
      }
    }
  }
}

void CpuQueue::fail(Record& record, Errc code, const char* what, std::string_view name, std::exception_ptr cause) {
  std::string message;
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& e) {
    message = e.what();
  } catch (...) {
    message = "an exception that is no std::exception";
  }
  const char* operation = code == Errc::kernel_failed ? "weir::launch"
                          : record.flag()             ? "weir::external"
                                                      : "weir::host_call";
  std::string text = std::string(what) + " '" + std::string(name) + "' threw: " + message;
  if (name.empty()) text = std::string(what) + " threw: " + message;
  auto failure =
      std::make_shared<const Failure>(Failure{done_ + 1, Error(code, operation, label_, text, record.where, cause)});
  SpinGuard guard(failure_lock_);
  failure_ = std::move(failure);
  ever_failed_.store(true, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
}

void CpuQueue::inherit_failure(CpuQueue& source, std::uint64_t sequence, std::uint32_t reports_seen) {
  if (internal_ || !source.ever_failed_.load(std::memory_order_acquire)) return;
  if (const std::shared_ptr<const Failure> theirs = source.failure_at(sequence, reports_seen)) inherit(theirs->error);
}

void CpuQueue::inherit(const Error& error) {
  SpinGuard guard(failure_lock_);
  if (failure_) return;
  failure_ = std::make_shared<const Failure>(Failure{done_ + 1, error});
  ever_failed_.store(true, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
}

std::shared_ptr<const Failure> CpuQueue::failure_at(std::uint64_t sequence, std::uint32_t reports_seen) {
  SpinGuard guard(failure_lock_);
  if (failure_ && failure_->sequence <= sequence) return failure_;
  for (const Reported& past : reported_) {
    if (past.number > reports_seen && past.failure->sequence <= sequence && sequence <= past.until) return past.failure;
  }
  return nullptr;
}

/// The failure is the caller's; who waited for a command until `until` still finds it, among the last few. The lock is held.
std::shared_ptr<const Failure> CpuQueue::report_failure(std::uint64_t until) {
  constexpr std::size_t most_remembered = 8;
  if (reported_.size() == most_remembered) reported_.erase(reported_.begin());
  reported_.push_back({failure_, until, reports_.fetch_add(1, std::memory_order_release) + 1});
  failed_.store(false, std::memory_order_release);
  return std::exchange(failure_, nullptr);
}

/// For a queue that retires; null if nothing failed.
std::shared_ptr<const Failure> CpuQueue::take_failure() {
  SpinGuard guard(failure_lock_);
  return failure_ ? report_failure(tail()) : nullptr;  // sequence numbers go on, so this stays right
}

void CpuQueue::throw_failure(std::uint64_t sequence, bool forget) {
  if (!failed_.load(std::memory_order_acquire)) return;
  std::shared_ptr<const Failure> found;
  {
    SpinGuard guard(failure_lock_);
    if (!failure_ || failure_->sequence > sequence) return;
    found = forget ? report_failure(completed()) : failure_;
  }
  if (forget) begin_anew();
  throw Error(found->error);
}

/// Sees to it that marks taken from now on differ from those before: a number passes without a command.
void CpuQueue::begin_anew() {
  while (reached(tail())) {
    if (!try_acquire()) {  // a worker that found nothing to do has it for a moment
      pause(4);
      continue;
    }
    lock_producers();
    if (tail() == done_) {
      tail_.store(tail_.load(std::memory_order_relaxed) + 2, std::memory_order_release);
      complete(++done_);
    }
    unlock_producers();
    release();
    return;
  }
}

}  // namespace weir::cpu
