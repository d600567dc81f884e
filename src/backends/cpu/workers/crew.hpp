// Who works in a pool: which of the workers compute and which are held up inside a command, told by their threads' clocks.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>

namespace weir::cpu {

class CpuQueue;
class WorkerPool;

/// What a worker says of itself, on a cache line of its own, and what the monitor has found out about it.
struct alignas(64) Member {
  enum : pid_t { nobody = 0, starting = -1 };

  std::atomic<pid_t> thread{nobody};
  std::atomic<bool> asleep{false};
  std::atomic<bool> blocked{false};             ///< set by the monitor; taken back by it and by the worker
  std::atomic<bool> leave{false};               ///< the worker gives its queue up as soon as it may
  std::atomic<std::uint32_t> steps{0};          ///< the worker's: things begun
  std::atomic<const CpuQueue*> queue{nullptr};  ///< the worker's: what it took last; released for the monitor
  std::atomic<std::uint32_t> naps{0};       ///< the worker's: how often it slept for other reasons than its commands'
  std::atomic<int> core{-1};                ///< of a narrow pool, the worker's: where it began its last turn
  std::atomic<bool> awaits_helpers{false};  ///< the worker's: of its loop, nothing of which is left for itself
  clockid_t clock = 0;                      ///< written before `thread`
  WorkerPool* pool = nullptr;               ///< written before its thread starts
  std::atomic<bool> extra{false};           ///< beyond the pool's width

  void note_nap() { naps.store(naps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }
  void note_progress() { steps.store(steps.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  // The monitor's.
  struct Seen {
    pid_t thread = nobody;
    std::uint32_t steps = 0;
    std::uint32_t naps = 0;
    int awaiting = 0;             ///< looks in a row that found it waiting for helpers
    std::uint64_t completed = 0;  ///< by its queue
    std::chrono::nanoseconds clock{0};
    std::chrono::nanoseconds without_progress{0};  ///< time of a core used since it last made progress
    std::int64_t switches = -1;                    ///< of its own will; -1: not known
    bool helped = false;                           ///< a worker was started because this one makes no progress
  } seen;
};

class Crew {
 public:
  using Nanoseconds = std::chrono::nanoseconds;
  static constexpr int most = 128;

  /// What a look at the workers shows; of those that are not asleep, unless it says otherwise.
  struct Look {
    int computing = 0;  ///< use a core, or would if they had one
    int extra = 0;      ///< beyond the pool's width
    int helped = 0;
    int at_rest = 0;                  ///< asleep, and not extra
    Nanoseconds without_progress{0};  ///< the sum over those that compute and were not helped
    Nanoseconds stalled{0};           ///< time of a core that all of these used since anyone last made progress
  };

  /// A place for a worker that is about to start; null if all are taken. Ordinary ones have the first places.
  Member* reserve(bool extra);
  /// Called by the worker's own thread.
  void enter(Member& member);
  void leave(Member& member) { member.thread.store(Member::nobody, std::memory_order_release); }
  int index(const Member& member) const { return static_cast<int>(&member - members_.data()); }

  /// Workers that are inside a command and wait there for something else than a core.
  int blocked() const { return blocked_.load(std::memory_order_relaxed); }
  void unblock(Member& member) {
    if (member.blocked.exchange(false, std::memory_order_relaxed)) blocked_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// The cores where those that are at work began their last turns, but for that worker's own.
  cpu_set_t cores_of_others(const Member& but) const;

  // For the monitor alone.

  Look look(std::chrono::steady_clock::time_point now);
  /// No look will follow soon: the next begins anew.
  void rest() { resting_ = true; }
  /// Those that compute without progress have got help: they get no more until they go on.
  void mark_helped();
  /// Asks extra workers to give their queues up.
  void send_away(int count);
  /// All workers, at the end of the process.
  void send_all_away();

 private:
  enum class State { idle, computing, blocked };
  State judge(Member& member, Nanoseconds elapsed);
  bool waits(Member& member);

  std::array<Member, most> members_;
  std::atomic<int> blocked_{0};
  std::chrono::steady_clock::time_point last_look_{};  ///< the monitor's
  bool resting_ = true;                                ///< the monitor's
  Nanoseconds stalled_{0};                             ///< the monitor's
  std::uint32_t looks_ = 0;                            ///< the monitor's
};

}  // namespace weir::cpu
