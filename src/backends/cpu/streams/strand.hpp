// A strand: numbered commands that many producers append and one consumer at a time completes, in order; and those who
// wait for one of them. It knows no commands, no devices and no threads. What its owner has to do, it is told by what a
// call returns: to push the strand to the workers, to wake waiters, to use the strand again.
//
// Invariants. (1) to (4) hold whenever no call is half-way, and each call restores what its first steps broke.
//  1. While no producer holds the lock, tail > done implies that the strand is listed or running; running includes
//     parked. So whoever gives the lock back lists an idle strand, on every path, also when an exception is on its way.
//  2. Listed: the strand is in the ready list, or one caller is about to push it, or to take what it popped or keeps.
//  3. Running: exactly one thread is the consumer; or the strand is parked, and then it is exactly one waiter's: of the
//     strand that it is parked on, or of what else its owner parked it on (unpark() is called exactly once).
//  4. completed = done <= tail, but inside complete_next() and pass_number(). Neither ever falls, nor starts again.
//  5. A waiter for n is in the list only while completed < n, but for the moment in which complete_next() looks; it is
//     returned by exactly one complete_next(), or taken back by leave().
//  6. Producer data belongs to who holds the lock, consumer data to the consumer, a waiter that was returned to the
//     caller of complete_next().
//  7. Retired: the call that finds the last command done tells its caller so, once.
//
// Hand-overs in which each side writes, then looks at what the other side writes. All four accesses are seq_cst: one of
// the two sides sees the other. "A1" and so on name them below.
//  A. A producer takes the lock (A1: tail) and looks whether the strand is idle (A2: state); a consumer gives it up (A3:
//     state) and looks for new commands, or for a producer who may publish one (A4: tail). So to publish and to give the
//     lock back is a plain store: who still found the strand taken is seen by the consumer, at work or done. The consumer
//     waits for who is at work. It does not where the lock may be held for long (hold_long()): who said so gives it back by
//     an exchange, after which A2 sees that the strand is idle.
//  B. A consumer completes (B1: completed) and looks for waiters (B2: word); a waiter joins (B3: word) and looks whether it
//     is late (B4: completed).
//  C. The owner retires (C1: retired) and looks whether somebody has the strand (C2: state); a consumer gives it up (A3)
//     and looks whether it was retired (C4: retired).
//  D. Two strands follow each other's commands: a producer takes its strand's lock (D1: tail) and looks at the other
//     strand's tail (D2).
#pragma once

#include <atomic>
#include <cstdint>

namespace weir::cpu {

/// `Parts` says what a strand is made of:
///   Atomic<T>, Data<T>    std::atomic<T> and T; a model checker has its own
///   pause(), back_off(tries)  of a thread that waits for a lock: for a moment, or for another thread to run
///   awaits_producer(tries)  whether who gave the strand up goes on waiting for a producer at work, after so many looks;
///                         who does not lists it, to look again later
///   Producer, Consumer    the owner's data beside the tail, and beside done: see invariant 6
///   Listed                the owner's data beside the state
///   Waiter                what the owner adds to a waiter
template <class Parts>
class Strand {
  template <class T>
  using Atomic = typename Parts::template Atomic<T>;
  template <class T>
  using Data = typename Parts::template Data<T>;

 public:
  using Number = std::uint64_t;  ///< of a command; the first is 1

  /// Who waits for a command: another strand, which is parked, or somebody whom the owner knows.
  struct Waiter : Parts::Waiter {
    Data<Number> number{0};
    Data<Strand*> strand{nullptr};
    Data<Waiter*> next{nullptr};
  };

  /// What giving a strand up leaves to its owner.
  enum class Left {
    nothing,
    ready,   ///< it has work and is listed now: push it
    retired  ///< its last command is done and nobody will add one: it may be used again
  };

  Strand() = default;
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  // Anybody.

  /// The last command published. Acquire, with publish() and unlock(): what the producer wrote for it.
  Number tail() const { return tail_.load(std::memory_order_acquire) >> 1; }
  /// The last one completed. Acquire, with complete_next(): what the command did.
  Number completed() const { return completed_.load(std::memory_order_acquire); }
  bool reached(Number number) const { return completed() >= number; }
  /// Whether it is completed, or else now waits: then a complete_next() returns it.
  bool join(Waiter& waiter) {
    lock_waiters();                                                     // B3
    if (completed_.load(std::memory_order_seq_cst) >= waiter.number) {  // B4
      unlock_waiters();
      return false;
    }
    waiter.next = first_waiter_;
    first_waiter_ = &waiter;
    unlock_waiters();
    return true;
  }
  /// A waiter that joined waits no longer. False: a complete_next() has it, or is about to.
  bool leave(Waiter& waiter) {
    lock_waiters();
    bool found = false;
    for (Data<Waiter*>* link = &first_waiter_; *link != nullptr; link = &static_cast<Waiter*>(*link)->next) {
      if (*link != &waiter) continue;
      *link = static_cast<Waiter*>(waiter.next);
      found = true;
      break;
    }
    unlock_waiters();
    return found;
  }

  /// What the strand is parked on, for those who would help it; null if on nothing, or for the moment unknown.
  Strand* parked_on(Number& number) const {
    // Acquire twice, with the releases of park_on() and unpark(): who reads the number of a later park finds that what
    // was parked on before has changed, or is the same strand.
    Strand* const source = parked_on_.load(std::memory_order_acquire);
    if (source == nullptr) return nullptr;
    number = parked_until_.load(std::memory_order_acquire);
    return parked_on_.load(std::memory_order_relaxed) == source ? source : nullptr;
  }

  // Producers.

  /// Acquire, with unlock(): producer data. False: another producer has it.
  bool try_lock() { return (tail_.fetch_or(1, std::memory_order_seq_cst) & 1) == 0; }  // A1, D1
  void lock() {
    if (!try_lock()) [[unlikely]]
      lock_slowly();
  }
  // Two strands that follow each other's commands. Of two producers that append at the same time at least one sees the
  // other at work, and waits for it: one command follows the other.

  /// With the lock held: the other strand's tail at a moment without a producer there. Those give way.
  static Number tail_awaiting(const Strand& other) {
    for (int tries = 0;; ++tries) {
      const Number seen = other.tail_.load(std::memory_order_seq_cst);  // D2
      if ((seen & 1) == 0) return seen >> 1;
      wait_a_little(tries);
    }
  }
  /// With the lock held and nothing published since; gives it up while the other strand has a producer.
  Number tail_giving_way(const Strand& other) {
    for (;;) {
      const Number seen = other.tail_.load(std::memory_order_seq_cst);  // D2
      if ((seen & 1) == 0) return seen >> 1;
      unlock_unchanged();
      (void)tail_awaiting(other);
      lock();
    }
  }

  /// With the lock held: from here to unlock() it may be held for more than a few instructions.
  void hold_long() { held_long_.store(true, std::memory_order_relaxed); }
  /// One more command, with the lock held; consumers may take it at once. Returns its number.
  Number publish() {
    const Number next = tail_.load(std::memory_order_relaxed) + 2;  // only the holder of the lock changes the number
    tail_.store(next, std::memory_order_release);                   // with tail()
    return next >> 1;
  }
  /// True if the strand is idle and has work: the caller has to list() it, and to push it if that succeeds.
  [[nodiscard]] bool unlock() {
    const Number last = give_lock_back();
    // Relaxed: an old value only lists it in vain.
    return idle() && completed_.load(std::memory_order_relaxed) != last;
  }
  /// publish() and unlock() by one store. Not after hold_long().
  [[nodiscard]] bool publish_and_unlock() {
    // The lock's bit becomes one more command. Release, with tail() and try_lock().
    tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    return idle();
  }
  /// Fails if somebody took or listed it meanwhile: who did that came after A1, and will see that there is a producer, or
  /// was, when it gives it up.
  [[nodiscard]] bool list() {
    std::uint32_t expected = 0;
    return state_.compare_exchange_strong(expected, listed, std::memory_order_seq_cst);
  }
  /// Where nothing was published since the lock was taken.
  void unlock_unchanged() { (void)give_lock_back(); }
  /// unlock() that takes an idle strand instead of listing it. True: the caller is the consumer.
  [[nodiscard]] bool unlock_and_acquire() {
    (void)give_lock_back();
    return idle() && try_acquire();  // not idle: whoever has it sees, by A, that there is a producer, or was
  }

  // Consumers. Each ends by release(), park_on(), or by parking on something else.

  /// For a worker that popped the strand, or that unparked and keeps it. False: somebody has it, and will list it again if work is left.
  [[nodiscard]] bool take_popped() {
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    for (;;) {
      const bool taken = (state & running) != 0;
      const std::uint32_t next = taken ? state & ~listed : (state & ~listed) | running;
      // seq_cst: as try_acquire(); and where it is taken, who gives it up (A3) finds it unlisted or is seen to have
      // given it up.
      if (state_.compare_exchange_weak(state, next, std::memory_order_seq_cst)) return !taken;
    }
  }
  /// Acquire, with release() and unpark(): consumer data. False: somebody has it.
  [[nodiscard]] bool try_acquire() {
    std::uint32_t state = state_.load(std::memory_order_seq_cst);  // C2
    while ((state & running) == 0) {
      if (state_.compare_exchange_weak(state, state | running, std::memory_order_seq_cst)) return true;
    }
    return false;
  }
  /// The next command is complete. Returns who waited for it, linked by next.
  [[nodiscard]] Waiter* complete_next() {
    done_ = done_ + 1;
    completed_.exchange(done_, std::memory_order_seq_cst);         // B1
    if (waiters_.load(std::memory_order_seq_cst) == 0) [[likely]]  // B2
      return nullptr;
    return take_reached();
  }
  /// Gives the strand up.
  [[nodiscard]] Left release() {
    const Number mine = done_;  // the next consumer's
    const std::uint32_t before = state_.fetch_and(~std::uint32_t{running}, std::memory_order_seq_cst);  // A3
    Number seen = tail_.load(std::memory_order_seq_cst);                                                // A4
    if (seen != 2 * mine) {
      // Where it was listed, somebody will pop it, now that it is nobody's.
      if ((before & listed) != 0) return Left::nothing;
      for (int tries = 0; seen == 2 * mine + 1 && Parts::awaits_producer(tries); ++tries) {
        if (held_long_.load(std::memory_order_relaxed)) return Left::nothing;  // that producer's now, by A
        wait_a_little(tries);
        seen = tail_.load(std::memory_order_seq_cst);  // A4
      }
      if (seen != 2 * mine) return list() ? Left::ready : Left::nothing;
    }
    return end_retirement(mine) ? Left::retired : Left::nothing;
  }
  /// Ends the consumer's turn: `source` will end the wait. False if the command is complete: the turn goes on.
  [[nodiscard]] bool park_on(Strand& source, Number number) {
    if (source.reached(number)) return false;
    parked_until_.store(number, std::memory_order_release);  // both with parked_on()
    parked_on_.store(&source, std::memory_order_release);
    park_waiter_.number = number;
    park_waiter_.strand = this;
    if (source.join(park_waiter_)) return true;  // from here on it may be running elsewhere
    parked_on_.store(nullptr, std::memory_order_release);
    return false;
  }
  /// Ends a wait of a parked strand, by whom it is parked on. True: it is listed now, and the caller has to push it.
  [[nodiscard]] bool unpark() {
    parked_on_.store(nullptr, std::memory_order_release);
    std::uint32_t state = state_.load(std::memory_order_relaxed);
    while (
        !state_.compare_exchange_weak(state, (state & ~std::uint32_t{running}) | listed, std::memory_order_seq_cst)) {
    }
    return (state & listed) == 0;
  }

  // The owner.

  /// Nobody will append any more, once what is pending is done. Left::retired comes from here or from a later call.
  [[nodiscard]] Left retire() {
    retired_.store(tail() + 1, std::memory_order_seq_cst);  // C1
    return try_acquire() ? release() : Left::nothing;
  }
  /// By the consumer: a number passes without a command, so that places taken from now on differ from those before. Not
  /// if work came, which does the same. Returns what complete_next() does.
  [[nodiscard]] Waiter* pass_number() {
    Waiter* woken = nullptr;
    lock();
    if (tail() == done_) {
      woken = complete_next();  // before it is published: at no time is there a command that is not done
      publish();
    }
    unlock_unchanged();  // the caller is the consumer: it will look for work when it gives the strand up
    return woken;
  }

  // For counting: a strand without commands, whose numbers are taken here and reached by complete_next(). Nobody runs it.

  void begin_counting() {
    while (!try_acquire()) Parts::pause();  // a worker that finds nothing to do may have it for a moment
  }
  /// One caller at a time.
  Number count_one() { return publish(); }
  /// Where who waits for it may help.
  void help_at(Strand& lane, Number number) {
    parked_until_.store(number, std::memory_order_release);
    parked_on_.store(&lane, std::memory_order_release);
  }
  [[nodiscard]] Left end_counting() {
    parked_on_.store(nullptr, std::memory_order_release);
    retired_.store(tail() + 1, std::memory_order_seq_cst);
    return release();
  }

 protected:
  enum : std::uint32_t { listed = 1, running = 2 };  ///< bits of state_; 0: idle
  enum : std::uint32_t { present = 1, locked = 2 };  ///< bits of waiters_

  bool idle() const { return state_.load(std::memory_order_seq_cst) == 0; }  // A2
  /// By who gave the strand up when `mine` was the last command: it may be told so late that the strand was used again
  /// meanwhile, and retired again with work that is not done. So a retirement has a number.
  bool end_retirement(Number mine) {
    Number retired = retired_.load(std::memory_order_seq_cst);  // C4
    return retired != 0 && retired <= mine + 1 &&               // less where pass_number() came after it
           retired_.compare_exchange_strong(retired, 0, std::memory_order_seq_cst);
  }

  /// Returns the last number. Release, with tail() and try_lock().
  Number give_lock_back() {
    if (held_long_.load(std::memory_order_relaxed)) [[unlikely]]
      return give_back_after_long();
    const Number last = tail_.load(std::memory_order_relaxed) & ~Number{1};
    tail_.store(last, std::memory_order_release);
    return last >> 1;
  }
  [[gnu::noinline]] Number give_back_after_long() {
    held_long_.store(false, std::memory_order_relaxed);
    return tail_.fetch_and(~Number{1}, std::memory_order_seq_cst) >> 1;  // A1
  }
  [[gnu::noinline]] void lock_slowly() {
    for (int tries = 0;; ++tries) {
      if ((tail_.load(std::memory_order_relaxed) & 1) == 0 && try_lock()) return;
      wait_a_little(tries);
    }
  }
  /// B3. The word is lock and flag in one, so that to join costs one exchange, and a look of a strand that nobody waits
  /// for a load. Acquire, with unlock_waiters(): the list.
  void lock_waiters() {
    if ((waiters_.fetch_or(present | locked, std::memory_order_seq_cst) & locked) != 0) [[unlikely]]
      lock_waiters_slowly();
  }
  [[gnu::noinline]] void lock_waiters_slowly() {
    for (int tries = 0;; ++tries) {
      if ((waiters_.load(std::memory_order_relaxed) & locked) == 0 &&
          (waiters_.fetch_or(present | locked, std::memory_order_seq_cst) & locked) == 0)
        return;
      wait_a_little(tries);
    }
  }
  void unlock_waiters() {
    waiters_.store(first_waiter_ != nullptr ? std::uint32_t{present} : 0u, std::memory_order_release);
  }
  [[gnu::noinline]] Waiter* take_reached() {
    Waiter* reached = nullptr;
    lock_waiters();
    // Another thread may have completed more meanwhile, where strands count.
    const Number now = completed_.load(std::memory_order_relaxed);
    for (Data<Waiter*>* link = &first_waiter_; *link != nullptr;) {
      Waiter* const waiter = *link;
      if (waiter->number <= now) {
        *link = static_cast<Waiter*>(waiter->next);
        waiter->next = reached;
        reached = waiter;
      } else {
        link = &waiter->next;
      }
    }
    unlock_waiters();
    return reached;
  }
  static void wait_a_little(int tries) {
    if (tries < 100) {
      Parts::pause();
    } else {
      Parts::back_off(tries);
    }
  }

  /// Twice the number of the last command, plus one while a producer has the lock: publishing a command and giving the
  /// lock back is one store.
  alignas(64) Atomic<Number> tail_{0};
  Atomic<bool> held_long_{false};  ///< written by who has the lock
  typename Parts::Producer producer_{};

  alignas(64) Atomic<std::uint32_t> state_{0};
  Atomic<Number> retired_{0};  ///< one more than the last command; 0: not retired
  typename Parts::Listed in_list_{};

  alignas(64) Data<Number> done_{0};  ///< the consumer's copy of completed_
  typename Parts::Consumer consumer_{};
  Atomic<Strand*> parked_on_{nullptr};
  Atomic<Number> parked_until_{0};
  Waiter park_waiter_;

  alignas(64) Atomic<Number> completed_{0};
  Atomic<std::uint32_t> waiters_{0};
  Data<Waiter*> first_waiter_{nullptr};  ///< guarded by waiters_
};

}  // namespace weir::cpu
