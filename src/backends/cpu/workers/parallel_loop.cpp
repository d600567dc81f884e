// Parallel loops: shares, chunks, and helpers that come and go.
#include "backends/cpu/workers/parallel_loop.hpp"

#include <algorithm>

namespace weir::cpu {

std::size_t ParallelLoop::share_begin(std::size_t count, int shares, int share) {
  const auto all = static_cast<std::size_t>(shares);
  const auto i = static_cast<std::size_t>(share);
  const std::size_t begin = count / all * i + count % all * i / all;
  // Two cores should not write to one cache line, where that costs no evenness.
  return share == shares || count / all < 4096 ? begin : begin / 64 * 64;
}

ParallelLoop::ParallelLoop(Body body, void* context, std::size_t count, int shares, int first, std::size_t done,
                           Chunks chunks)
    : chunks_(chunks), body_(body), context_(context), shares_(shares) {
  int open = 0;
  for (int i = 0; i < shares; ++i) {
    const std::size_t begin = share_begin(count, shares, i) + (i == first ? done : 0);
    share_[i].end = share_begin(count, shares, i + 1);
    share_[i].next = begin;
    share_[i].claimed = false;
    if (begin < share_[i].end) ++open;
  }
  open_shares_.store(open, std::memory_order_relaxed);
}

/// The share to begin with: the worker's own, else one that is nobody's.
int ParallelLoop::claim(const Runner& runner) {
  const int own = runner.place < shares_ ? runner.place : 0;
  for (int i = 0; i < shares_; ++i) {
    const int share = (own + i) % shares_;
    const std::atomic_ref claimed(share_[share].claimed);
    if (!claimed.load(std::memory_order_relaxed) && !claimed.exchange(true, std::memory_order_relaxed)) return share;
  }
  return own;
}

bool ParallelLoop::take(int mine, std::size_t& begin, std::size_t& end, bool& last) {
  for (int i = 0; i < shares_; ++i) {
    Share& share = share_[(mine + i) % shares_];
    const std::atomic_ref next(share.next);
    begin = next.load(std::memory_order_relaxed);
    while (begin < share.end) {
      const std::size_t left = share.end - begin;
      end = begin + std::min(left, std::clamp(left / 2, chunks_.least, chunks_.most));
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      last = end == share.end && exhausted(1);
      return true;
    }
  }
  return false;
}

void ParallelLoop::fail(OpenLoops& list) {
  int ended = 0;
  for (int i = 0; i < shares_; ++i) {
    const std::atomic_ref next(share_[i].next);
    if (next.exchange(share_[i].end, std::memory_order_relaxed) < share_[i].end) ++ended;
  }
  if (ended > 0 && exhausted(ended)) list.remove(*this);
  SpinGuard guard(failure_lock_);
  if (!failure_) failure_ = std::current_exception();
}

void ParallelLoop::leave() {
  // The owner may be gone with the loop behind the decrement; to wake an address at which nobody sleeps does no harm.
  if (helpers_.fetch_sub(1, std::memory_order_acq_rel) == (owner_sleeps | 1)) futex_wake(helpers_, 1);
}

void ParallelLoop::finish(Runner& runner) {
  constexpr int spins = 200;
  for (int tries = 0; (helpers_.load(std::memory_order_acquire) & ~owner_sleeps) != 0; ++tries) {
    if (tries < spins) {
      pause(4);
      continue;
    }
    const std::uint32_t helpers = helpers_.fetch_or(owner_sleeps, std::memory_order_acq_rel) | owner_sleeps;
    if (helpers == owner_sleeps) break;
    runner.await_helpers(true);
    futex_wait(helpers_, helpers);
  }
  runner.await_helpers(false);
  rethrow();
}

/// Behind the last helper.
void ParallelLoop::rethrow() const {
  if (failure_) std::rethrow_exception(failure_);
}

void OpenLoops::add(ParallelLoop& loop, int level) {
  owners_[level].fetch_add(1, std::memory_order_relaxed);
  SpinGuard guard(lock_);
  loop.level_ = level;
  loop.listed_ = true;
  loop.next_loop_ = first_[level];
  first_[level] = &loop;
  mask_.fetch_or(1u << level, std::memory_order_seq_cst);
}

void OpenLoops::remove(ParallelLoop& loop) {
  SpinGuard guard(lock_);
  if (!loop.listed_) return;
  loop.listed_ = false;
  ParallelLoop** link = &first_[loop.level_];
  while (*link != &loop) link = &(*link)->next_loop_;
  *link = loop.next_loop_;
  if (first_[loop.level_] == nullptr) mask_.fetch_and(~(1u << loop.level_), std::memory_order_relaxed);
}

ParallelLoop* OpenLoops::join(int& level) {
  SpinGuard guard(lock_);
  const std::uint32_t mask = mask_.load(std::memory_order_relaxed);
  if (mask == 0) return nullptr;
  level = __builtin_ctz(mask);
  ParallelLoop* loop = first_[level];
  loop->helpers_.fetch_add(1, std::memory_order_relaxed);  // before the lock is free, so that the owner sees it
  return loop;
}

}  // namespace weir::cpu
