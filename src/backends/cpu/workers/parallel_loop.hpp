// Loops that several threads share, and the list of those that still want helpers.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>

#include "backends/cpu/workers/futex.hpp"
#include "backends/cpu/workers/runner.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

class OpenLoops;

/// A loop in as many equal shares as there are workers. A worker takes chunks of its own share first, so that equal loops
/// meet each part of the memory on the same core, and then of the others'. A chunk is half of what is left of a share, within
/// limits: long runs through memory are faster than scattered ones, and short ones at the end make an even finish.
class ParallelLoop {
 public:
  using Body = void (*)(void* context, std::size_t begin, std::size_t end, Runner& runner);

  struct Chunks {
    std::size_t least;
    std::size_t most;
  };

  /// In at most `count` shares, over [0, count) but for `done` elements that the owner has run: the first ones of the share `first`.
  ParallelLoop(Body body, void* context, std::size_t count, int shares, int first, std::size_t done, Chunks chunks);
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  /// Takes chunks until none is left or a participant threw, or until `stop` says so, which is asked behind each chunk.
  template <class Stop>
  void participate(OpenLoops& list, Runner& runner, Stop&& stop);
  /// For a helper: the last that it does to the loop.
  void leave();
  /// For the owner: until all helpers have left. Rethrows what a participant threw.
  void finish(Runner& runner);

  /// Where a share begins.
  static std::size_t share_begin(std::size_t count, int shares, int share);

 private:
  friend class OpenLoops;

  /// Plain members, used by atomic_ref: most of the array is never touched.
  struct alignas(64) Share {
    std::size_t next;
    std::size_t end;
    bool claimed;
  };
  enum : std::uint32_t { owner_sleeps = 1u << 31 };

  int claim(const Runner& runner);
  /// False if nothing is left; `last` if nothing is after this.
  bool take(int mine, std::size_t& begin, std::size_t& end, bool& last);
  void fail(OpenLoops& list);
  void rethrow() const WEIR_NOT_ANALYSED;  ///< nobody else is left: without the lock
  bool exhausted(int shares) { return open_shares_.fetch_sub(shares, std::memory_order_relaxed) == shares; }

  const Chunks chunks_;
  const Body body_;
  void* const context_;
  const int shares_;
  std::atomic<int> open_shares_{0};        ///< that have something left
  std::atomic<std::uint32_t> helpers_{0};  ///< and whether the owner sleeps until there are none
  SpinLock failure_lock_;
  std::exception_ptr failure_ WEIR_GUARDED_BY(failure_lock_);
  ParallelLoop* next_loop_ = nullptr;  ///< the list's
  int level_ = 0;                      ///< the list's
  bool listed_ = false;                ///< the list's
  Share share_[Crew::most];            ///< the first shares_ of them
};

/// Loops of which something is left to take, by priority.
class OpenLoops {
 public:
  static constexpr int levels = 6;  ///< 0 is the most urgent

  /// With a full barrier, as a push of a ready queue.
  void add(ParallelLoop& loop, int level);
  /// Nothing is left of it; may be called again.
  void remove(ParallelLoop& loop);
  /// The most urgent loop, of which the caller is a helper now; null if there is none.
  ParallelLoop* join(int& level);
  /// The owner of a loop has gone on: see busy().
  void end(int level) { owners_[level].fetch_sub(1, std::memory_order_relaxed); }

  bool any() const { return mask_.load(std::memory_order_relaxed) != 0; }
  /// After a full barrier of the caller's: sees every loop that was added before its owner looked who sleeps.
  bool any_for_certain() const { return mask_.load(std::memory_order_seq_cst) != 0; }
  /// Whether there is a loop of a level before `level`.
  bool any_before(int level) const { return (mask_.load(std::memory_order_relaxed) & ((1u << level) - 1)) != 0; }
  /// The level of the most urgent loop; `levels` if there is none.
  int most_urgent() const { return __builtin_ctz(mask_.load(std::memory_order_relaxed) | 1u << levels); }
  /// Whether loops of a level are running, with something left or not.
  bool busy(int level) const { return owners_[level].load(std::memory_order_relaxed) > 0; }

 private:
  alignas(64) SpinLock lock_;
  std::atomic<std::uint32_t> mask_{0};  ///< levels whose list is not empty; written under lock_
  ParallelLoop* first_[levels] WEIR_GUARDED_BY(lock_) = {};
  std::atomic<int> owners_[levels] = {};
};

template <class Stop>
void ParallelLoop::participate(OpenLoops& list, Runner& runner, Stop&& stop) {
  try {
    const int mine = claim(runner);
    std::size_t begin;
    std::size_t end;
    bool last = false;
    while (take(mine, begin, end, last)) {
      if (last) list.remove(*this);
      runner.note_progress();
      body_(context_, begin, end, runner);
      if (stop()) return;
    }
  } catch (...) {
    fail(list);
  }
}

}  // namespace weir::cpu
