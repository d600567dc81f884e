// A worker that used its core computes; one that did not waits for a core, or for something else: the kernel knows.
#include "backends/cpu/workers/crew.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {

using std::chrono::nanoseconds;
constexpr int looks_at_helpers = 20;  ///< before who waits for them counts as blocked: they, too, may wait for a core
constexpr std::uint32_t looks_between_questions = 16;  ///< about a worker that is known to be blocked

nanoseconds time_of(clockid_t clock) {
  timespec time{};
  if (clock_gettime(clock, &time) != 0) return nanoseconds{0};  // its thread has just ended
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// How the system sees a thread.
struct ThreadStatus {
  bool runnable = true;
  std::int64_t switches = -1;  ///< times that it gave its core up of its own will
};

/// What cannot be read counts as runnable: then a pool grows late rather than wrongly.
ThreadStatus status_of(pid_t thread) {
  ThreadStatus status;
  char text[4096];
  std::snprintf(text, sizeof text, "/proc/self/task/%d/status", static_cast<int>(thread));
  const int file = open(text, O_RDONLY | O_CLOEXEC);
  if (file < 0) return status;
  const ssize_t size = read(file, text, sizeof text);
  close(file);
  const std::string_view all(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  constexpr std::string_view state = "\nState:\t";
  if (const auto at = all.find(state); at != all.npos && at + state.size() < all.size()) {
    status.runnable = all[at + state.size()] == 'R';
  }
  constexpr std::string_view switches = "\nvoluntary_ctxt_switches:\t";
  if (const auto at = all.find(switches); at != all.npos) {
    std::from_chars(all.data() + at + switches.size(), all.data() + all.size(), status.switches);
  }
  return status;
}

}  // namespace

Member* Crew::reserve(bool extra) {
  for (Member& member : members_) {
    pid_t nobody = Member::nobody;
    if (member.thread.load(std::memory_order_relaxed) != nobody) continue;
    if (!member.thread.compare_exchange_strong(nobody, Member::starting, std::memory_order_acquire)) continue;
    member.extra.store(extra, std::memory_order_relaxed);
    member.asleep.store(false, std::memory_order_relaxed);
    member.leave.store(false, std::memory_order_relaxed);
    member.queue.store(nullptr, std::memory_order_relaxed);
    return &member;
  }
  return nullptr;
}

void Crew::enter(Member& member) {
  pthread_getcpuclockid(pthread_self(), &member.clock);
  member.thread.store(static_cast<pid_t>(syscall(SYS_gettid)), std::memory_order_release);
}

/// Whether a worker that used little of its core waits for something: of its own will it gives its core up for that alone.
/// Who waits for its core for long shows nothing: then what it did before tells.
bool Crew::waits(Member& member) {
  const ThreadStatus status = status_of(member.seen.thread);
  const bool first = member.seen.switches < 0;
  const bool switched = !first && status.switches > member.seen.switches;
  if (first || looks_ % looks_between_questions == 0) member.seen.switches = status.switches;
  return !status.runnable || switched;
}

Crew::State Crew::judge(Member& member, Nanoseconds elapsed) {
  Member::Seen& seen = member.seen;
  const pid_t thread = member.thread.load(std::memory_order_acquire);
  if (thread == Member::nobody || member.asleep.load(std::memory_order_relaxed)) {
    unblock(member);
    seen.helped = false;
    return State::idle;
  }
  const std::uint32_t naps = member.naps.load(std::memory_order_relaxed);
  const bool anew = thread != seen.thread || naps != seen.naps || elapsed == Nanoseconds{0};
  if (thread == Member::starting) return State::computing;
  const Nanoseconds clock = time_of(member.clock);
  const Nanoseconds used = clock - std::exchange(seen.clock, clock);
  const std::uint32_t steps = member.steps.load(std::memory_order_relaxed);
  const CpuQueue* queue = member.queue.load(std::memory_order_acquire);
  const std::uint64_t completed = queue != nullptr ? queue->completed() : 0;
  const bool progress = anew || steps != seen.steps || completed != seen.completed;
  seen.thread = thread;
  seen.naps = naps;
  seen.steps = steps;
  seen.completed = completed;
  if (progress) {
    seen.without_progress = Nanoseconds{0};
    seen.awaiting = 0;
    seen.helped = false;
    stalled_ = Nanoseconds{0};
  }
  if (anew) {
    seen.switches = -1;
    unblock(member);
    return State::computing;
  }
  if (!progress) seen.without_progress += used;
  if (!progress && !seen.helped) stalled_ += used;
  if (2 * used >= elapsed) {
    seen.switches = -1;
    unblock(member);
    return State::computing;
  }
  seen.awaiting = member.awaits_helpers.load(std::memory_order_relaxed) ? seen.awaiting + 1 : 0;
  if (seen.awaiting > 0 && seen.awaiting < looks_at_helpers) return State::computing;
  const bool was_blocked = member.blocked.load(std::memory_order_relaxed);
  if (was_blocked && looks_ % looks_between_questions != 0) return State::blocked;
  const bool waited = waits(member);
  // Not of a command's: it has finished that, and went to sleep, while it was looked at.
  const bool sleeps =
      member.asleep.load(std::memory_order_relaxed) || member.naps.load(std::memory_order_relaxed) != naps;
  if (!waited || sleeps) {
    unblock(member);
    return State::computing;
  }
  if (!member.blocked.exchange(true, std::memory_order_relaxed)) blocked_.fetch_add(1, std::memory_order_relaxed);
  return State::blocked;
}

Crew::Look Crew::look(std::chrono::steady_clock::time_point now) {
  const Nanoseconds elapsed = resting_ ? Nanoseconds{0} : now - last_look_;
  resting_ = false;
  last_look_ = now;
  ++looks_;
  Look found;
  for (Member& member : members_) {
    const State state = judge(member, elapsed);
    if (state == State::idle) {
      const bool is_there = member.thread.load(std::memory_order_relaxed) > 0;
      if (is_there && !member.extra.load(std::memory_order_relaxed)) ++found.at_rest;
      continue;
    }
    if (member.extra.load(std::memory_order_relaxed)) ++found.extra;
    if (state == State::blocked) continue;
    ++found.computing;
    if (member.seen.helped) {
      ++found.helped;
    } else {
      found.without_progress += member.seen.without_progress;
    }
  }
  found.stalled = stalled_;
  return found;
}

void Crew::mark_helped() {
  stalled_ = Nanoseconds{0};
  for (Member& member : members_) {
    if (member.seen.without_progress > Nanoseconds{0}) member.seen.helped = true;
  }
}

cpu_set_t Crew::cores_of_others(const Member& but) const {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  for (const Member& member : members_) {
    if (&member == &but || member.thread.load(std::memory_order_relaxed) <= 0) continue;
    if (member.asleep.load(std::memory_order_relaxed) || member.blocked.load(std::memory_order_relaxed)) continue;
    const int core = member.core.load(std::memory_order_relaxed);
    if (core >= 0) CPU_SET(static_cast<std::size_t>(core), &cores);
  }
  return cores;
}

void Crew::send_away(int count) {
  for (std::size_t i = members_.size(); i-- > 0 && count > 0;) {
    Member& member = members_[i];
    if (!member.extra || member.thread.load(std::memory_order_relaxed) <= 0) continue;
    if (member.asleep.load(std::memory_order_relaxed) || member.blocked.load(std::memory_order_relaxed)) continue;
    member.leave.store(true, std::memory_order_relaxed);
    --count;
  }
}

void Crew::send_all_away() {
  for (Member& member : members_) member.leave.store(true, std::memory_order_relaxed);
}

}  // namespace weir::cpu
