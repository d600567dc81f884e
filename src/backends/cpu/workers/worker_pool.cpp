// Workers: one spins for a moment after the last work, the others sleep; a submitter wakes somebody only if nobody spins.
#include "backends/cpu/workers/worker_pool.hpp"

#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

#include "back_off.hpp"
#include "backend.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/workers/cores.hpp"
#include "backends/cpu/workers/topology.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
constexpr auto spin_window = std::chrono::microseconds(50);
constexpr int pauses_between_looks = 32;
constexpr auto between_looks = std::chrono::nanoseconds(400);
constexpr int usual_looks = 32;  ///< at ready queues, while a host thread is at work
constexpr int most_looks = 256;
constexpr int most_looks_of_narrow = 1024;  ///< where no other worker waits for what this one lists
constexpr int most_skipped = 8;             ///< looks that one stands for
constexpr auto cheap_command = std::chrono::nanoseconds(250);
constexpr auto cheap_turn = std::chrono::nanoseconds(1'000);  ///< that part of a turn which is handing over
constexpr auto brief_turn = std::chrono::nanoseconds(2'000);
constexpr std::int64_t soon = 50'000;  ///< nanoseconds in which a worker with brief turns comes back
constexpr int most_signs = 4;          ///< one sweep that differs from those before says little
constexpr auto long_sweep = std::chrono::microseconds(300);  ///< that is worth a look at where the others are
constexpr std::int64_t least_stay = 5'000'000;               ///< on a core, nanoseconds
constexpr std::int64_t kept_apart = 500'000'000;             ///< after two were on one, nanoseconds
constexpr int turns_of_a_sweep = 16;  ///< in a wide pool, where to count what is ready costs more than a turn
constexpr auto host_presence =
    std::chrono::nanoseconds(20'000);  ///< for so long after a sign of life a host is at work
constexpr auto extra_worker_patience = std::chrono::milliseconds(100);
constexpr auto stop_patience = std::chrono::milliseconds(500);

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// The worker that this thread is, if any.
struct Place {
  const WorkerPool* pool = nullptr;
  int home = ReadyLists::anywhere;
  int caller = -1;  ///< the core of who called it last
  std::uint32_t pops = 0;
  int cheap = most_signs;  ///< how sure it is of what sweeps are like
  int brief = most_signs;
  std::uint32_t host_turns = 0;  ///< when its present sweep began
  std::uint32_t seen_turns = 0;  ///< and when the one before ended
};
thread_local Place place;

struct WorkerBed : Sleepers::Bed {
  explicit WorkerBed(const Member& sleeper) : thread(sleeper.thread.load(std::memory_order_relaxed)) {
    extra = sleeper.extra.load(std::memory_order_relaxed);
  }
  const pid_t thread;
  KeptOff kept_off;
};

/// The time of so many looks.
void pause_for(int looks) {
  if (looks == 1) {
    pause(pauses_between_looks);
    return;
  }
  const auto end = Clock::now() + looks * between_looks;
  while (Clock::now() < end) pause(pauses_between_looks / 4);
}

}  // namespace

WorkerPool::WorkerPool(int workers) : width_(workers), ready_(workers), cores_(usable_cores()) { register_pool(*this); }

void WorkerPool::push_chain(CpuQueue* first, CpuQueue* last, int count, int level) {
  ready_.push(first, last, count, level, home());
  call_worker();
}

void WorkerPool::push_quietly(CpuQueue* queue, int level) {
  ready_.push(queue, queue, 1, level, home());
  arm();
}

/// A worker lists what it wakes where it looks first. What hosts list is spread, unless one worker serves them best.
int WorkerPool::home() const {
  if (place.pool == this) return place.home;
  return cheap_.load(std::memory_order_relaxed) ? ready_.home_of(0) : ReadyLists::anywhere;
}

/// Sees to it that ready queues find a worker. One more than there are cores for is woken by the monitor alone: the host
/// thread is at work, too, and would lose its core to it. So is one that would come for work which costs less than that.
void WorkerPool::call_worker() { call_unless_left(false); }

void WorkerPool::nudge() {
  if (cheap_.load(std::memory_order_relaxed)) cheap_.store(false, std::memory_order_relaxed);
  if (brief_.load(std::memory_order_relaxed)) brief_.store(false, std::memory_order_relaxed);
  call_unless_left(true);
}

void WorkerPool::call_unless_left(bool lasts) {
  if (vigil_.somebody_comes()) return;
  const int others = awake();
  if (others > 0 && better_left(others, lasts)) {
    arm();
  } else {
    wake_one();
  }
}

/// Whether the awake ones will soon have done what is ready, for less than handing it over costs: what a host feeds, and
/// what workers with brief turns list for themselves. If they do not come back after all, the monitor finds it.
bool WorkerPool::better_left(int others, bool lasts) {
  const bool all = others + 1 >= width_;
  const bool light = wide() && !lasts;
  const bool cheap = light && cheap_.load(std::memory_order_relaxed);
  const bool brief = light && place.pool == this && brief_.load(std::memory_order_relaxed);
  if (!all && !cheap && !brief) return false;
  const std::int64_t now = nanoseconds(Clock::now());
  if (brief && now < soon_.load(std::memory_order_relaxed)) return true;
  return (all || (cheap && now < soon_.load(std::memory_order_relaxed))) && host_is_active(now);
}

bool WorkerPool::host_is_active(std::int64_t now) {
  const std::uint32_t turns = host_turns_.load(std::memory_order_relaxed);
  if (turns != seen_host_turns_.load(std::memory_order_relaxed)) {
    seen_host_turns_.store(turns, std::memory_order_relaxed);
    host_seen_.store(now, std::memory_order_relaxed);
    return true;
  }
  return now - host_seen_.load(std::memory_order_relaxed) < host_presence.count();
}

void WorkerPool::host_sleeps() {
  seen_host_turns_.store(host_turns_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  host_seen_.store(0, std::memory_order_relaxed);
  if (any_ready()) call_worker();
}

/// Wakes a sleeper, starts a worker that was never needed so far, or has the monitor watch: all are busy.
void WorkerPool::wake_one() {
  if (sleepers_.count() > 0 && awake() < allowed()) {
    if (!vigil_.begin_waking()) return;
    if (sleepers_.wake([this](Sleepers::Bed& bed) { keep_apart(bed); })) return;  // which ends the waking when it is up
    vigil_.end_waking();
  }
  if (alive_.load(std::memory_order_relaxed) < width_) {
    start_worker(false);
  } else {
    arm();
  }
}

void WorkerPool::work(Member& member) {
  crew_.enter(member);
  detail::thread_state = detail::ThreadState::running;
  {
    Runner runner;
    runner.worker = true;
    runner.member = &member;
    runner.place = crew_.index(member);
    count_naps_in(&member.naps);
    place = {this, ready_.home_of(crew_.index(member))};
    WorkerBed bed(member);
    int patience = 0;
    while (!stopping_.load(std::memory_order_relaxed)) {
      if (!member.extra || (!member.leave.load(std::memory_order_relaxed) && awake() <= allowed())) {
        member.leave.store(false, std::memory_order_relaxed);
        if (sweep(runner, patience) && patience == 0) continue;
        if (spin(std::max(patience, usual_looks), !member.extra)) continue;
      }
      if (!sleep(bed, member)) break;
    }
  }
  crew_.unblock(member);
  crew_.leave(member);
  alive_.fetch_sub(1, std::memory_order_seq_cst);
}

/// Gives each queue that is ready now a turn; false if there was nothing to do. Where a host thread keeps feeding queues with
/// commands that cost less than to hand them over, `patience` grows, so that many are handed over at once; else it ends.
bool WorkerPool::sweep(Runner& runner, int& patience) {
  Member& member = *runner.member;
  int turns = 0;
  std::uint64_t commands = 0;
  place.host_turns = host_turns_.load(std::memory_order_relaxed);
  const auto begin = Clock::now();
  const bool light = wide() && (cheap_.load(std::memory_order_relaxed) || brief_.load(std::memory_order_relaxed));
  for (int left = light || !wide() ? ready_.count() : turns_of_a_sweep; left > 0; --left) {
    if (runner.joins_loops() && loops_.any() && !ready_.any_before(loops_.most_urgent() + 1)) {
      help_loop(runner);
      return true;
    }
    CpuQueue* queue = ready_.pop(place.home, place.pops++);
    if (queue == nullptr) break;
    if (light) soon_.store(nanoseconds(Clock::now()) + soon, std::memory_order_relaxed);
    // One wakes the next only if there is more to do. The first turn answers for whatever others left to this worker while
    // it was coming; what came later its pushers saw to.
    if (turns == 0 ? ready_.any_for_certain() : ready_.any_at(place.home)) call_worker();
    runner.note_queue(*queue);
    member.note_progress();
    if (!wide()) member.core.store(sched_getcpu(), std::memory_order_relaxed);
    commands += queue->run_popped(runner);
    ++turns;
    if (member.blocked.load(std::memory_order_relaxed)) crew_.unblock(member);
    if (member.leave.load(std::memory_order_relaxed)) return true;
  }
  if (turns == 0) return runner.joins_loops() && loops_.any() && help_loop(runner);
  const auto now = Clock::now();
  const auto spent = now - begin;
  if (spent >= long_sweep && !wide()) leave_shared_core(member, nanoseconds(now));
  const bool cheap = spent < static_cast<std::int64_t>(commands) * cheap_command + turns * cheap_turn;
  // Since the sweep before: a host that waits for each of its commands takes its turn in between.
  const std::uint32_t turns_now = host_turns_.load(std::memory_order_relaxed);
  const bool fed = turns_now != std::exchange(place.seen_turns, turns_now);
  if (wide()) learn(cheap, spent < turns * brief_turn, fed);
  const int most = wide() ? most_looks : most_looks_of_narrow;
  patience = cheap && fed ? std::min(std::max(2 * patience, usual_looks), most) : 0;
  return true;
}

/// Beside a busy program the system may leave two of a pool's threads on one core, and the other core to that program: each core has as many
/// threads as the other, give or take one. But the pool would have three halves of a core if its threads were apart.
void WorkerPool::leave_shared_core(Member& member, std::int64_t now) {
  std::int64_t again = moves_again_.load(std::memory_order_relaxed);
  const int core = sched_getcpu();
  if (now < again || core < 0) return;
  cpu_set_t taken = crew_.cores_of_others(member);
  if (const int host = host_core_.load(std::memory_order_relaxed); host >= 0) {
    CPU_SET(static_cast<std::size_t>(host), &taken);
  }
  // One at a time: two that share a core would both go where the other one goes.
  if (!CPU_ISSET(static_cast<std::size_t>(core), &taken) ||
      !moves_again_.compare_exchange_strong(again, now + least_stay, std::memory_order_relaxed)) {
    return;
  }
  // To move is to give a core up of one's own will: the monitor, which looks before or after, is not to take it for a wait of a command's.
  member.note_nap();
  const bool moved = move_off(taken);
  member.note_nap();
  if (moved) {
    apart_until_.store(now + kept_apart, std::memory_order_relaxed);
  } else {
    moves_again_.store(now, std::memory_order_relaxed);
  }
}

/// For a while after that, who is woken wakes on another core than its caller's. The system would have it share that core, since the
/// busy program has the other one, until its first long sweep has ended.
void WorkerPool::keep_apart(Sleepers::Bed& bed) const {
  const std::int64_t until = apart_until_.load(std::memory_order_relaxed);
  if (until == 0 || bed.caller < 0 || nanoseconds(Clock::now()) > until) return;
  cpu_set_t taken;
  CPU_ZERO(&taken);
  CPU_SET(static_cast<std::size_t>(bed.caller), &taken);
  auto& sleeper = static_cast<WorkerBed&>(bed);
  sleeper.kept_off.begin(sleeper.thread, taken);
}

/// Whether a host thread goes on feeding streams that wait for each other by turns, so that the worker ends its sweep: each of
/// their commands has both cores take the same lines of memory from each other, for several times what it costs one alone.
bool WorkerPool::better_left_to_host(const Runner& runner) const {
  return place.pool == this && runner.hops >= Runner::fair_share / 4 &&
         host_turns_.load(std::memory_order_relaxed) != place.host_turns;
}

/// What most of the last sweeps of this worker were like, all others go by, too.
void WorkerPool::learn(bool cheap, bool brief, bool fed) {
  const auto note = [](int& signs, bool sign, std::atomic<bool>& flag) {
    signs = std::clamp(signs + (sign ? 1 : -1), 0, most_signs);
    const bool now = signs > most_signs / 2;
    if (flag.load(std::memory_order_relaxed) != now) flag.store(now, std::memory_order_relaxed);
  };
  if (!cheap || fed) note(place.cheap, cheap, cheap_);
  note(place.brief, brief, brief_);
}

/// Looks for work for a short while; one worker at a time in a narrow pool, a few in a wide one. Looks seldom, and leaves
/// ready queues alone while a host thread lists or runs some, up to a limit: a host thread that is about to wait runs its own
/// work in a fraction of the time that handing it over takes, and every look of a spinner slows a submitter down. In a wide
/// pool only while commands are cheap, and it leaves queues that another worker takes one after another to that, too.
bool WorkerPool::spin(int patience, bool loops) {
  if (!vigil_.begin_spinning(most_spinners())) return false;
  const auto deadline = Clock::now() + spin_window;
  bool found = false;
  std::uint32_t turns = spin_signs();
  int looks = 1;  // that the next one stands for: more and more, while a host thread is at work
  while (!found && !stopping_.load(std::memory_order_relaxed)) {
    // The system may have woken it where the one who called it runs, who would do nothing meanwhile.
    if (place.caller >= 0 && place.caller == sched_getcpu()) {
      detail::back_off(0);  // does not sleep: this ends soon, and others count on who looks for work
    } else {
      pause_for(looks);
    }
    if (loops && loops_.any()) {
      found = true;
    } else if (any_ready()) {
      const std::uint32_t now = spin_signs();
      patience -= looks;
      found = now == turns || patience <= 0;
      turns = now;
      looks = std::min(2 * looks, most_skipped);
    } else if (Clock::now() >= deadline) {
      break;
    } else {
      looks = 1;
    }
  }
  vigil_.end_spinning();
  return found;
}

/// Changes while others are about to do what is ready.
std::uint32_t WorkerPool::spin_signs() const {
  const bool cheap = cheap_.load(std::memory_order_relaxed);
  const bool brief = brief_.load(std::memory_order_relaxed);
  if (!wide()) return host_turns_.load(std::memory_order_relaxed);
  return (cheap ? host_turns_.load(std::memory_order_relaxed) : 0) + (brief ? ready_.pops() : 0);
}

/// False if an extra worker was not called for so long that it may leave.
bool WorkerPool::sleep(Sleepers::Bed& bed, Member& member) {
  const bool sent_away = member.leave.exchange(false, std::memory_order_relaxed);
  member.asleep.store(true, std::memory_order_relaxed);
  crew_.unblock(member);
  sleepers_.lie_down(bed);
  vigil_.end_waking();
  const bool extra = member.extra;
  const bool stopping = stopping_.load(std::memory_order_seq_cst);
  bool work_left = ready_.any_for_certain();
  // It was woken for this, maybe, and others rely on it.
  if (extra && work_left && (awake() >= allowed() || (sent_away && sleepers_.wake_ordinary()))) {
    arm();
    work_left = false;
  }
  work_left = work_left || (!extra && loops_.any_for_certain()) || stopping;
  if (!work_left && extra) {
    futex_wait_for(bed.called, 0, extra_worker_patience);
  } else if (!work_left) {
    while (bed.called.load(std::memory_order_seq_cst) == 0) futex_wait(bed.called, 0);
  }
  const bool by_itself = sleepers_.get_up(bed);
  static_cast<WorkerBed&>(bed).kept_off.end();
  place.caller = bed.caller;
  vigil_.end_waking();
  member.note_nap();
  member.asleep.store(false, std::memory_order_relaxed);
  return !(extra && !work_left && by_itself);
}

void WorkerPool::stop() {
  stopping_.store(true, std::memory_order_seq_cst);
  crew_.send_all_away();
  const auto deadline = Clock::now() + stop_patience;
  while (alive_.load(std::memory_order_seq_cst) > 0 && Clock::now() < deadline) {
    while (sleepers_.wake()) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace weir::cpu
