// Queues around a Strand as the CPU backend has them, as small as can be: commands that work or wait, a ready list, workers,
// host threads that help and sleep. Made of the explorer's words, with the strand's invariants checked on the way.
#pragma once

#include <optional>
#include <utility>

#include "backends/cpu/streams/strand.hpp"
#include "explorer.hpp"

namespace model {

struct Parts {
  template <class T>
  using Atomic = model::Atomic<T>;
  template <class T>
  using Data = model::Plain<T>;
  static void pause() { spin(); }
  static void back_off(int) { spin(); }
  static inline bool awaits_producers = true;
  static bool awaits_producer(int) { return awaits_producers; }
  struct Producer {
    Plain<int> written{0};
  };
  struct Consumer {
    Plain<int> read{0};
  };
  struct Listed {};
  struct Waiter {
    Plain<Atomic<std::uint32_t>*> awake{nullptr};
  };
};
using PlainStrand = weir::cpu::Strand<Parts>;

/// The ready list: a bit for each queue, as ordered as a list under a lock.
class Ready {
 public:
  void push(int queue) {
    const std::uint32_t before = listed_.fetch_or(1u << queue, std::memory_order_acq_rel);
    check((before & (1u << queue)) == 0, "a queue that is listed is not pushed again (invariant 2)");
  }
  /// Waits until there is one; a scenario may end meanwhile.
  int pop() {
    const std::uint32_t before = listed_.await_update(
        Condition::differs, 0u, [](std::uint32_t listed) { return listed & (listed - 1); }, std::memory_order_acq_rel,
        true);
    return __builtin_ctz(before);
  }
  bool empty() const { return listed_.load(std::memory_order_relaxed) == 0; }

 private:
  Atomic<std::uint32_t> listed_{0};
};

/// What a host thread sleeps in; used once.
template <class Strand>
struct Bed {
  Atomic<std::uint32_t> awake{0};
  typename Strand::Waiter waiter;
};

template <class Strand = PlainStrand>
class Queue : public Strand {
 public:
  using Number = typename Strand::Number;
  using Waiter = typename PlainStrand::Waiter;
  static constexpr int most_commands = 4;

  explicit Queue(Ready& ready, int name) : ready_(ready), name_(name) {}

  // Producers.

  void append() {
    this->lock();
    append_locked();
  }
  /// As the hot path of a launch.
  void append_fast() {
    if (!this->try_lock()) return append();
    write({});
    if (this->publish_and_unlock()) schedule();
  }
  /// With what may last under the lock.
  void append_for_long() {
    this->lock();
    this->hold_long();
    append_locked();
  }
  void look_for_room() {
    if (!this->try_lock()) return;
    check(this->producer_.written < most_commands, "there is room");
    this->unlock_unchanged();
  }
  /// Of two queues that follow each other, as the legacy queue.
  void append_awaiting(const Queue& other) {
    this->lock();
    this->hold_long();
    followed_ = this->tail_awaiting(other);
    append_locked();
  }
  /// As a blocking one.
  void append_giving_way(const Queue& other) {
    this->lock();
    this->hold_long();
    followed_ = this->tail_giving_way(other);
    append_locked();
  }
  /// A wait goes before the command, which then fails to be written.
  void append_and_throw(Queue& source, Number number) {
    source.await_published(number);
    struct Guard {
      explicit Guard(Queue& queue) : queue(queue) { queue.lock(); }
      ~Guard() { queue.leave_lock(); }
      Queue& queue;
    };
    try {
      const Guard guard(*this);
      write({&source, number});
      this->publish();
      throw 1;
    } catch (int) {
    }
  }
  void append_wait(Queue& source, Number number, bool for_long = false) {
    source.await_published(number);
    this->lock();
    if (for_long) this->hold_long();
    write({&source, number});
    this->publish();
    if (this->unlock_and_acquire()) begin_wait();
  }
  /// Of the lane of a graph: the counting queue's next number is reached by it.
  void append_ticket(Queue& timeline) {
    this->lock();
    write({&timeline, 0});
    this->publish();
    if (this->unlock()) schedule();
  }

  /// Nobody waits for a number that he was not told by its producer.
  void await_published(Number number) { this->tail_.await_at_least(2 * number, std::memory_order_acquire); }

  // Consumers.

  void run(Number until, bool host, int share = most_commands) {
    Number tail = 0;
    Queue* woken = nullptr;  // by a worker's last command, the only one: listed, and pushed by nobody yet
    for (int left = share; left > 0; --left) {
      const Number done = this->done_;
      if (done >= until) break;
      if (done >= tail) {
        tail = this->tail();
        check(done <= tail, "no more is done than there is (invariant 4)");
        if (done >= tail) break;
      }
      const int at = this->consumer_.read;
      Queue* const source = commands_[at].source;
      const Number number = commands_[at].number;
      if (woken != nullptr && (number == 0 || woken != source)) ready_.push(std::exchange(woken, nullptr)->name_);
      if (source != nullptr && number == 0) {
        source->reach_next();
      } else if (source != nullptr) {
        if (host) source->wait_by_helping(number);
        if (woken != nullptr) run_woken(*std::exchange(woken, nullptr), number);
        if (this->park_on(*source, number)) return;
        check(source->reached(number), "a wait is over when its command is done");
        source->seen(number);
      }
      this->consumer_.read = at + 1;
      effects_[done] = true;
      woken = wake(this->complete_next(), !host);
    }
    if (woken != nullptr) ready_.push(woken->name_);
    if (this->done_ == until && parks_at_next()) return;
    give_up();
  }
  /// Within the turn of the queue that woke it and waits for it now.
  void run_woken(Queue& queue, Number number) {
    if (queue.take_popped()) queue.run(number, false);
  }
  bool parks_at_next() {
    if (this->done_ == this->tail()) return false;
    const int at = this->consumer_.read;
    Queue* const source = commands_[at].source;
    const Number number = commands_[at].number;
    return source != nullptr && number != 0 && this->park_on(*source, number);
  }
  /// Of a counting queue.
  void reach_next() {
    effects_[this->done_] = true;
    complete();
  }
  void complete() { wake(this->complete_next()); }
  /// `keep`: the last queue is not pushed but returned, if it is the only one.
  Queue* wake(Waiter* waiter, bool keep = false) {
    Queue* kept = nullptr;
    bool several = false;
    while (waiter != nullptr) {
      Waiter* const next = waiter->next;
      check(waiter->number <= this->done_, "who is woken waited for what is done (invariant 5)");
      PlainStrand* const parked = waiter->strand;
      if (parked != nullptr) {
        Queue& queue = static_cast<Queue&>(*parked);
        if (queue.unpark()) {
          if (kept != nullptr) {
            ready_.push(std::exchange(kept, nullptr)->name_);
            several = true;
          }
          if (keep && !several) {
            kept = &queue;
          } else {
            ready_.push(queue.name_);
          }
        }
      } else {
        Atomic<std::uint32_t>* const awake = waiter->awake;
        check(awake->exchange(1, std::memory_order_seq_cst) == 0, "a waiter is woken once (invariant 5)");
      }
      waiter = next;
    }
    return kept;
  }
  void give_up() { left(this->release()); }
  void left(typename PlainStrand::Left what) {
    if (what == PlainStrand::Left::ready) ready_.push(name_);
    if (what != PlainStrand::Left::retired) return;
    check(this->reached(this->tail()), "a queue that is over has nothing left");
    times_retired_.fetch_add(1, std::memory_order_acq_rel);
  }
  /// A worker's turn, of at most `share` commands.
  void run_popped(int share = most_commands) {
    if (this->take_popped()) run(~Number{0}, false, share);
  }

  // Hosts.

  using Beds = std::optional<Bed<PlainStrand>>;
  void wait(Number number, Beds& bed) {
    await_published(number);
    wait_by_helping(number);
    if (!this->reached(number)) sleep(number, bed, false);
    check(this->reached(number), "who is woken finds its command done");
    seen(number);
  }
  /// `impatient`: takes itself off the list again, unless it is woken just then.
  void sleep(Number number, Beds& bed, bool impatient) {
    bed.emplace();
    bed->waiter.number = number;
    bed->waiter.awake = &bed->awake;
    if (this->join(bed->waiter) && !(impatient && this->leave(bed->waiter)))
      bed->awake.await_other(0, std::memory_order_seq_cst);
    bed.reset();
  }
  void wait_by_helping(Number number) {
    while (!this->reached(number) && help(number)) {
    }
  }
  bool help(Number number) {
    Queue* queue = this;
    for (int depth = 0; depth < 3; ++depth) {
      if (queue->try_acquire()) {
        queue->run(number, true);
        return true;
      }
      PlainStrand* const source = queue->parked_on(number);
      if (source == nullptr) return false;
      queue = static_cast<Queue*>(source);
      if (queue->reached(number)) return false;
    }
    return false;
  }
  /// Until the queue may be used again for the so many-th time.
  void await_retired(int times) { times_retired_.await_at_least(times, std::memory_order_acquire); }
  void retire_now() { left(this->retire()); }
  /// A failure was reported: the next failure is another one.
  void begin_anew() {
    while (this->reached(this->tail())) {
      if (!this->try_acquire()) {
        spin();
        continue;
      }
      wake(this->pass_number());
      return give_up();
    }
  }
  void stop_counting() { left(this->end_counting()); }
  void seen(Number number) { check(effects_[number - 1], "what a command did is seen by who waited"); }

  /// Nothing is left, and nobody has it.
  void check_over(Number commands) {
    check((this->tail_.load() & 1) == 0, "the producers' lock is free at the end");
    check(this->tail() == commands && this->completed() == commands && this->done_ == commands,
          "all is done at the end");
    check(this->state_.load() == 0, "nobody has the queue at the end (invariant 1)");
    check(this->waiters_.load() == 0 && this->first_waiter_ == nullptr, "nobody waits at the end (invariant 5)");
    check(this->parked_on_.load() == nullptr, "a queue that is over is parked on nothing");
  }
  /// What is left is listed, and will be popped.
  void check_done_or_listed(Number commands) {
    check(this->tail() == commands, "all is appended");
    if (this->reached(commands)) return;
    check(this->state_.load() == Strand::listed && !ready_.empty(), "what is left is listed (invariant 1)");
  }
  /// What is left is listed, but nobody took it: for scenarios without workers.
  void check_done(Number number) { check(this->reached(number), "the command is done at the end"); }
  void check_follows(Queue& other) {
    check(followed_ != 0 || other.followed_ != 0, "of two queues that follow each other one comes first");
  }
  void check_all_done() { check_over(this->tail()); }
  void check_retired(int times = 1) {
    check(times_retired_.load() >= times, "a retired queue is used again (invariant 7)");
    check(times_retired_.load() <= times, "that a queue is over is told once (invariant 7)");
  }

 private:
  struct Command {
    Plain<Queue*> source{nullptr};  ///< null: a command that works
    Plain<Number> number{0};        ///< 0: one that reaches the next number of the source
  };
  struct Written {
    Queue* source = nullptr;
    Number number = 0;
  };
  void write(Written command) {
    const int at = this->producer_.written;
    commands_[at].source = command.source;
    commands_[at].number = command.number;
    this->producer_.written = at + 1;
  }
  void append_locked() {
    write({});
    this->publish();
    if (this->unlock()) schedule();
  }
  void schedule() {
    if (this->list()) ready_.push(name_);
  }
  void begin_wait() {
    const int at = this->consumer_.read;
    if (this->done_ + 1 == this->tail() && commands_[at].source != nullptr &&
        this->park_on(*commands_[at].source, commands_[at].number))
      return;
    give_up();
  }
  void leave_lock() {
    if (this->unlock()) schedule();
  }

  Ready& ready_;
  const int name_;
  Command commands_[most_commands];
  Plain<bool> effects_[most_commands];
  Plain<Number> followed_{0};  ///< how far the other queue's commands come before this one's
  Atomic<int> times_retired_{0};
};

}  // namespace model
