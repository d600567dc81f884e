// The thread that asks.
#include "backends/cuda/streams/poller.hpp"

#include <sys/prctl.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "back_off.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "no_waits.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr auto spin = microseconds(20);        ///< after something was added or reached
constexpr auto least_pause = microseconds(4);  ///< what it costs to fall asleep and wake
constexpr int share_of_wait = 16;              ///< a wait is found to be over late by that part of it at most
constexpr int share_of_core = 4;               ///< of a core is used at most while it asks for very many
/// What nobody waits for comes in rows: who adds the next one soon does not have to wake the thread, which costs 8 us and more.
constexpr auto linger = std::chrono::milliseconds(4);
constexpr unsigned long timer_slack = 1000;  ///< ns; the system's own choice makes every pause 50 us longer

/// Whether the driver could not say yet. Everything else but success means that it never will.
bool is_no_answer(cudaError_t answer) {
  switch (answer) {
    case cudaErrorNotReady:
    case cudaErrorNotPermitted:
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureImplicit: return true;
    default: return false;
  }
}

}  // namespace

/// What the thread knows of: nobody else looks at it, so it asks without a lock.
class Polls {
 public:
  bool empty() const { return groups_.empty() && new_ == nullptr; }

  struct Taken {
    bool hurry = false;    ///< one of them is in a hurry
    bool leisure = false;  ///< one of them is not
  };
  /// The newest first.
  Taken take(Reached* inbox) noexcept {
    Taken taken;
    Reached** end = &new_;
    while (*end != nullptr) end = &(*end)->next_;
    while (inbox != nullptr) {
      Reached* const one = inbox;
      inbox = one->next_;
      one->next_ = *end;
      *end = one;
      (one->hurry_ ? taken.hurry : taken.leisure) = true;
    }
    return taken;
  }

  /// Puts what is new into groups.
  void sort() noexcept {
    try {
      while (new_ != nullptr) {
        Group& group = groups_[new_->order_];
        Reached* const one = new_;
        new_ = std::exchange(one->next_, nullptr);
        (group.last != nullptr ? group.last->next_ : group.first) = one;
        group.last = one;
        ++group.count;
      }
    } catch (...) {
      // Without memory for a group it stays new: the next round tries again.
    }
  }

  /// Whether one that is in a hurry was reached. `thorough`: asks for one more of each group, in turn, since the order in which they were added
  /// may not be that of their records.
  bool ask(bool thorough) {
    bool any = false;
    for (auto entry = groups_.begin(); entry != groups_.end();) {
      Group& group = entry->second;
      any = ask_first(group) || any;
      if (thorough && group.count > 1) any = ask_another(group) || any;
      entry = group.first == nullptr ? groups_.erase(entry) : std::next(entry);
    }
    return any;
  }

 private:
  struct Group {
    Reached* first = nullptr;
    Reached* last = nullptr;
    std::size_t count = 0;
    std::size_t turn = 0;  ///< whom of the others to ask next
  };

  bool ask_first(Group& group) {
    bool any = false;
    while (group.first != nullptr) {
      const cudaError_t answer = query(*group.first);
      if (is_no_answer(answer)) return any;
      any = finish(take_behind(group, nullptr), answer) || any;
    }
    return any;
  }

  bool ask_another(Group& group) {
    group.turn = group.turn % (group.count - 1) + 1;
    Reached* before = group.first;
    for (std::size_t i = 1; i < group.turn; ++i) before = before->next_;
    Reached* const other = before->next_;
    const cudaError_t answer = query(*other);
    if (is_no_answer(answer)) return false;
    // Those before it, mostly: they were reached meanwhile, and are told in order.
    bool ask_it = true;
    while (group.first != nullptr && ask_it) {
      if (group.first == other) return ask_first(group);
      const cudaError_t first = query(*group.first);
      ask_it = !is_no_answer(first);
      if (ask_it) finish(take_behind(group, nullptr), first);
    }
    for (before = group.first; before->next_ != other;) before = before->next_;
    return finish(take_behind(group, before), answer);
  }

  Reached* take_behind(Group& group, Reached* before) {
    Reached*& link = before != nullptr ? before->next_ : group.first;
    Reached* const one = link;
    link = one->next_;
    if (group.last == one) group.last = before;
    --group.count;
    return one;
  }

  cudaError_t query(Reached& one) {
    if (several_devices && one.device_ != device_ && cudaSetDevice(one.device_) == cudaSuccess) device_ = one.device_;
    const cudaError_t answer = one.ask();
    if (answer != cudaSuccess) note(is_no_answer(answer) ? cudaErrorNotReady : answer);
    return answer;
  }

  static bool finish(Reached* taken, cudaError_t answer) {
    const std::unique_ptr<Reached> one(taken);
    one->reached(answer);
    return one->hurry_;
  }

  std::unordered_map<const void*, Group> groups_;  ///< none of them empty
  Reached* new_ = nullptr;                         ///< the oldest first
  int device_ = -1;
};

Poller& Poller::instance() {
  static auto& poller = *new Poller;
  return poller;
}

void Poller::add(const void* order, int device, cudaEvent_t event, std::unique_ptr<Reached>& then, Hurry hurry) {
  then->order_ = order;
  then->device_ = device;
  then->event_ = event;
  then->hurry_ = hurry == Hurry::yes;
  if (!started_.load(std::memory_order_acquire)) start();
  Reached* const one = then.release();
  one->next_ = inbox_.load(std::memory_order_relaxed);
  while (!inbox_.compare_exchange_weak(one->next_, one)) {
  }
  // The first one who finds it asleep wakes it.
  const bool wakes = (sleeps_ && sleeps_.exchange(false)) || (hurry == Hurry::yes && naps_ && naps_.exchange(false));
  if (!wakes) return;
  const detail::LockGuard guard(mutex_);
  added_.notify_one();
}

void Poller::start() {
  const detail::LockGuard guard(mutex_);
  if (started_.load(std::memory_order_relaxed)) return;
  gate_.open();
  start_thread([](void* self) { static_cast<Poller*>(self)->serve(); }, this);
  started_.store(true, std::memory_order_release);
}

void Poller::wait_for_more(Time awake_until, Time naps_until) noexcept {
  const auto empty = [&] { return inbox_ == nullptr; };
  for (int looks = 0; empty() && Clock::now() < awake_until;) detail::back_off(looks++);
  if (!empty()) return;
  const detail::LockGuard guard(mutex_);
  // Each time anew: who wakes it may have been about to for long, and for what it has by now.
  for (naps_ = true; empty() && Clock::now() < naps_until; naps_ = true) added_.wait_for(mutex_, most_pause);
  naps_ = false;
  for (sleeps_ = true; empty(); sleeps_ = true) added_.wait(mutex_);
  sleeps_ = false;
}

void Poller::serve() noexcept {
  const detail::NoWaits no_waits;
  prctl(PR_SET_TIMERSLACK, timer_slack);
  // Queries are nothing that a capture of another thread could object to.
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  if (!gate_.enter()) detail::stay_until_the_end();
  note(cudaThreadExchangeStreamCaptureMode(&mode));
  gate_.leave();
  Polls polls;
  Clock::time_point lately = Clock::now();
  int looks = 0;  // since then
  Clock::time_point naps_until{};
  for (;;) {
    // Who adds something mostly adds more.
    if (polls.empty()) wait_for_more(lately + spin, naps_until);
    Reached* const inbox = inbox_.exchange(nullptr);
    if (!gate_.enter()) detail::stay_until_the_end();
    const Clock::time_point begin = Clock::now();
    const Polls::Taken taken = polls.take(inbox);
    if (taken.hurry) lately = begin;
    if (taken.leisure) naps_until = begin + linger;
    polls.sort();
    const bool any = polls.ask(begin - lately >= spin);
    gate_.leave();
    const Clock::time_point now = Clock::now();
    if (any) {
      lately = now;
      looks = 0;
    }
    if (polls.empty()) continue;
    if (now - lately < spin) {
      detail::back_off(looks++);
      continue;
    }
    const auto pause =
        std::max<Clock::duration>(std::clamp<Clock::duration>((now - lately) / share_of_wait, least_pause, most_pause),
                                  (now - begin) * (share_of_core - 1));
    const detail::LockGuard guard(mutex_);
    naps_ = true;
    if (inbox_ == nullptr) added_.wait_for(mutex_, pause);
    naps_ = false;
  }
}

}  // namespace weir::cuda
