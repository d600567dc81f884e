// A pool around a Vigil and its Sleepers, as small as can be: two ready lists, a loop, workers, a monitor. Made of the
// explorer's words. What WorkerPool decides by clocks is here decided by the scenario.
#pragma once

#include <array>

#include "backends/cpu/workers/sleepers.hpp"
#include "backends/cpu/workers/vigil.hpp"
#include "explorer.hpp"

namespace model {

struct WorkerParts {
  template <class T>
  using Atomic = model::Atomic<T>;
  template <class T>
  using Data = model::Plain<T>;
  struct Lock {
    void lock() {
      taken.await_update(
          Condition::equals, false, [](bool) { return true; }, std::memory_order_acquire);
    }
    void unlock() { taken.store(false, std::memory_order_release); }
    Atomic<bool> taken{false};
  };
  struct Guard {
    explicit Guard(Lock& lock) : lock(lock) { lock.lock(); }
    ~Guard() { lock.unlock(); }
    Lock& lock;
  };
  static int core() { return 0; }
  static void back_off(int) { spin(); }
  static void wake(Atomic<std::uint32_t>&) {}  // who waits for the word goes on when it changes
};
using PlainVigil = weir::cpu::Vigil<WorkerParts>;
using PoolSleepers = weir::cpu::BasicSleepers<WorkerParts>;

/// What a worker is like.
struct Habits {
  bool spins = true;
  int holds = -1;                     ///< a queue that never ends
  bool looks_before_it_joins = true;  ///< a loop, which holds it
};

/// The real one, for a pool whose workers look at the lists before they join a loop.
struct LookingVigil : PlainVigil {
  static constexpr bool looks_before_joining = true;
};

template <class Vigil = LookingVigil>
class Pool {
 public:
  static constexpr int queues = 2;  ///< each in a list of its own

  // Pushers.

  void push(int queue) {
    list(queue);
    call();
  }
  /// The pusher finds that those who are awake will come: it leaves the queue to them and the monitor.
  void push_and_leave(int queue) {
    list(queue);
    if (!vigil.somebody_comes()) arm();
  }
  /// A loop that waits for the queues: who joins it is held. Its owner looks for a helper, and is held, too.
  void begin_loop() {
    loop_.store(true, std::memory_order_seq_cst);
    if (vigil.spinners() == 0 && !sleepers.wake()) arm();
  }

  // Workers.

  void work(int self, Habits habits) {
    for (;;) {
      if (loop_.load(std::memory_order_relaxed)) {
        if (habits.looks_before_it_joins && any_for_certain()) call();
        return;  // held
      }
      const int queue = pop(self);
      if (queue != none) {
        if (any_for_certain()) call();
        ran_[queue].store(true, std::memory_order_relaxed);
        if (queue == habits.holds) return;
        continue;
      }
      if (habits.spins && spin_once()) continue;
      sleep(self);
    }
  }

  // The monitor: it starts a worker for what it finds.

  void watch() {
    for (;;) {
      const std::uint32_t seen = requests_.load(std::memory_order_seq_cst);
      bool busy = false;
      if (vigil.armed()) {
        const int queue = pop(0);
        if (queue != none) {
          ran_[queue].store(true, std::memory_order_relaxed);
          busy = true;
        } else {
          vigil.disarm();
          busy = any_for_certain() && vigil.arm_again();
        }
      }
      if (!busy) requests_.await_other(seen, std::memory_order_seq_cst, true);
    }
  }

  /// Where there is no monitor in the scenario, an armed one would start a worker.
  void check_ran(int count, bool watched) {
    for (int queue = 0; queue < count; ++queue)
      check(ran_[queue].load() || (!watched && vigil.armed()), "every queue that was pushed runs");
  }

  Vigil vigil;
  PoolSleepers sleepers;

 private:
  static constexpr int none = -1;

  void list(int queue) { lists_[queue].fetch_or(1, std::memory_order_seq_cst); }  // A1
  bool any_for_certain() const {
    for (const Atomic<int>& list : lists_) {
      if (list.load(std::memory_order_seq_cst) != 0) return true;  // A4
    }
    return false;
  }
  int pop(int home) {
    for (int i = 0; i < queues; ++i) {
      const int at = (home + i) % queues;
      if (lists_[at].load(std::memory_order_seq_cst) == 0) continue;  // A4
      if (lists_[at].exchange(0, std::memory_order_acq_rel) != 0) return at;
    }
    return none;
  }
  void call() {
    if (vigil.somebody_comes()) return;
    if (sleepers.count() > 0) {
      if (!vigil.begin_waking()) return;
      if (sleepers.wake()) return;
      vigil.end_waking();
    }
    arm();
  }
  void arm() {
    if (vigil.arm()) requests_.fetch_add(1, std::memory_order_seq_cst);
  }
  bool spin_once() {
    if (!vigil.begin_spinning(1)) return false;
    bool found = loop_.load(std::memory_order_relaxed);
    for (const Atomic<int>& list : lists_) found = found || list.load(std::memory_order_relaxed) != 0;
    vigil.end_spinning();
    return found;
  }
  void sleep(int self) {
    auto& bed = beds_[static_cast<std::size_t>(self)];
    sleepers.lie_down(bed);
    vigil.end_waking();
    if (!any_for_certain() && !loop_.load(std::memory_order_seq_cst))
      bed.called.await_other(0, std::memory_order_seq_cst, true);
    sleepers.get_up(bed);
    vigil.end_waking();
  }

  Atomic<int> lists_[queues];
  Atomic<bool> loop_{false};
  Atomic<std::uint32_t> requests_{0};
  Atomic<bool> ran_[queues];
  std::array<PoolSleepers::Bed, 2> beds_;
};

template <class Vigil>
struct PoolScenario {
  const char* name;
  std::vector<Role<Pool<Vigil>>> roles;
  int pushed;
  bool watched = false;  ///< one of the roles is the monitor

  friend void PrintTo(const PoolScenario& scenario, std::ostream* out) { *out << scenario.name; }
};

template <class Vigil>
Result explore(const PoolScenario<Vigil>& scenario, const Limits& limits = {}) {
  return explore<Pool<Vigil>>(
      scenario.roles, [&](Pool<Vigil>& pool) { pool.check_ran(scenario.pushed, scenario.watched); }, limits);
}

template <class Vigil = LookingVigil>
std::vector<PoolScenario<Vigil>> pool_scenarios() {
  using P = Pool<Vigil>;
  const auto pushes = [](int queue) -> Role<P> { return {"pusher", [=](P& p) { p.push(queue); }}; };
  const auto works = [](int self, Habits habits) -> Role<P> { return {"worker", [=](P& p) { p.work(self, habits); }}; };
  const Role<P> pushes_two{"pusher", [](P& p) {
                             p.push(0);
                             p.push(1);
                           }};
  const Role<P> leaves_two{"pusher", [](P& p) {
                             p.push_and_leave(0);
                             p.push_and_leave(1);
                           }};
  const Role<P> monitor{"monitor", [](P& p) { p.watch(); }};
  const Role<P> owner{"owner", [](P& p) { p.begin_loop(); }};
  const Habits sleeper{.spins = false};
  const Habits spinner{};
  const Habits held_sleeper{.spins = false, .holds = 0};
  const Habits held_spinner{.holds = 0};
  const Habits helper{.spins = true, .holds = -1, .looks_before_it_joins = Vigil::looks_before_joining};
  return {
      {"a_worker_goes_to_sleep", {pushes(0), works(0, sleeper)}, 1},
      {"a_worker_spins_and_goes_to_sleep", {pushes(0), works(0, spinner)}, 1},
      {"a_worker_is_woken_twice", {pushes_two, works(0, sleeper)}, 2},
      {"a_worker_spins_and_is_held", {pushes_two, works(0, held_spinner)}, 2},
      {"a_worker_is_woken_and_held", {pushes_two, works(0, held_sleeper)}, 2},
      {"two_push_while_a_worker_is_held", {pushes(0), pushes(1), works(0, held_sleeper)}, 2},
      {"two_workers_go_to_sleep", {pushes(0), works(0, sleeper), works(1, sleeper)}, 1},
      {"a_spinner_joins_a_loop", {owner, pushes(0), works(0, helper)}, 1},
      {"the_monitor_disarms", {leaves_two, monitor}, 2, true},
  };
}

}  // namespace model
