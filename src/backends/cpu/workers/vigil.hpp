// Who will look at the ready lists next: what pushers ask, and what workers and the monitor say of themselves.
//
// Invariant: when a push has returned, and its queue is still listed, somebody will look at the lists: a worker that spins,
// one that is being woken, one that is about to lie down, or the monitor, which is armed. It knows no lists and no threads.
//
// Hand-overs in which each side writes, then looks at what the other side writes. All accesses are seq_cst: one of the two
// sides sees the other. "A1" and so on name them below and in ready_lists.cpp.
//  A. A pusher lists a queue (A1: the list's mask) and asks whether somebody spins (A2); a spinner stops (A3) and looks at
//     the lists (A4: the masks), whatever else it finds to do.
//  B. A pusher lists (A1) and asks whether somebody is being woken (B2); who was woken says that it is up (B3) and looks
//     at the lists (A4), whatever else it finds to do.
//  C. A pusher lists (A1) and asks whether the monitor is armed (C2); the monitor disarms itself (C3) and looks (A4).
// A pusher that finds nobody asleep arms the monitor: to see a sleeper too late costs time, and no more.
#pragma once

#include <atomic>

namespace weir::cpu {

/// `Parts::Atomic<T>` is std::atomic<T>; a model checker has its own.
template <class Parts>
class Vigil {
  template <class T>
  using Atomic = typename Parts::template Atomic<T>;

 public:
  // Pushers.

  /// Whether somebody will look at the lists, and see what the caller put there before.
  bool somebody_comes() const {
    return spinners_.load(std::memory_order_seq_cst) > 0 ||  // A2
           waking_.load(std::memory_order_seq_cst);          // B2
  }
  /// True: the caller is to wake a sleeper, or, if there is none, to end_waking(). False: another does so.
  bool begin_waking() { return !waking_.exchange(true, std::memory_order_seq_cst); }
  /// True: the caller is to tell the monitor.
  bool arm() {
    return !armed_.load(std::memory_order_seq_cst) && !armed_.exchange(true, std::memory_order_seq_cst);  // C2
  }

  // Workers. Each step down ends with a look at the lists.

  bool begin_spinning(int most) {
    if (spinners() >= most) return false;
    // Who is one too many goes to sleep, and looks at the ready lists before: a pusher that relied on it is served.
    if (spinners_.fetch_add(1, std::memory_order_seq_cst) < most) return true;
    end_spinning();
    return false;
  }
  void end_spinning() { spinners_.fetch_sub(1, std::memory_order_seq_cst); }  // A3
  void end_waking() { waking_.store(false, std::memory_order_seq_cst); }      // B3
  /// A hint.
  int spinners() const { return spinners_.load(std::memory_order_relaxed); }

  // The monitor.

  bool armed() const { return armed_.load(std::memory_order_seq_cst); }
  void disarm() { armed_.store(false, std::memory_order_seq_cst); }  // C3
  /// After disarm(), where a look at the lists found something. False: somebody else has armed it, and told.
  bool arm_again() { return !armed_.exchange(true, std::memory_order_seq_cst); }

 protected:
  Atomic<int> spinners_{0};
  Atomic<bool> waking_{false};  ///< somebody called a sleeper, which is not up yet
  Atomic<bool> armed_{false};   ///< the monitor watches
};

}  // namespace weir::cpu
