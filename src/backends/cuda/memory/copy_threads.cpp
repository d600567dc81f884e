// Who moves which chunk, and how long it is looked for before a thread rests.
#include "backends/cuda/memory/copy_threads.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "back_off.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

namespace {

using Clock = std::chrono::steady_clock;

unsigned cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<unsigned>(std::max(CPU_COUNT(&set), 1));
}

/// False: there is none, and callers move their chunks alone.
bool start(void (*run)(void* threads), CopyThreads& threads) noexcept {
  try {
    start_thread(run, &threads);
    return true;
  } catch (...) {
    return false;
  }
}

/// For a word that the device is about to write: first the core looks, then others get it, and then it rests.
class Patience {
 public:
  void renew() {
    since_ = Clock::now();
    looks_ = 0;
  }
  Clock::duration spent() const { return Clock::now() - since_; }
  void pause() {
    constexpr auto spins = std::chrono::microseconds(50);
    constexpr auto yields = std::chrono::milliseconds(1);
    const auto waited = spent();
    if (waited < spins) {
#if defined(__x86_64__)
      for (int i = 0; i < 32; ++i) __builtin_ia32_pause();
#endif
    } else if (waited < yields) {
      detail::back_off(looks_++);
    } else {
      std::this_thread::sleep_for(spins);
    }
  }

 private:
  Clock::time_point since_ = Clock::now();
  int looks_ = 0;
};

/// Notes it if the device does not answer any more.
void ask(int device, cudaStream_t idle) {
  const DeviceScope scope(device);
  const cudaError_t answer = cudaStreamQuery(idle);
  if (answer != cudaErrorNotReady) note(answer);
}

}  // namespace

CopyThreads& CopyThreads::instance() {
  static auto& threads = *new CopyThreads;
  return threads;
}

unsigned CopyThreads::most() {
  static const unsigned number = [] {
    constexpr long most_sensible = 64;
    if (const char* said = std::getenv("WEIR_COPY_THREADS")) {
      return static_cast<unsigned>(std::clamp(std::strtol(said, nullptr, 10), 1L, most_sensible));
    }
    // A thread moves some 8 GB/s, so ten keep a fast link busy; the rest of the cores is for what else the program does.
    return std::clamp((cores() * 5 + 7) / 8, std::min(cores(), 2u), 10u);
  }();
  return number;
}

/// In the list of copies that the threads help.
class CopyThreads::Part {
 public:
  Part(CopyThreads& threads, StagedCopy& copy) : threads_(threads), entry_{copy} {
    if (most() == 1) return;
    threads_.start_movers();
    const detail::LockGuard guard(threads_.mutex_);
    try {
      threads_.entries_.push_back(&entry_);
    } catch (...) {
      return;  // the caller moves the chunks alone
    }
    threads_.joined_.notify_all();
  }
  ~Part() {
    const detail::LockGuard guard(threads_.mutex_);
    std::erase(threads_.entries_, &entry_);
    while (entry_.users > 0) threads_.left_.wait(threads_.mutex_);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 private:
  CopyThreads& threads_;
  Entry entry_;
};

/// While it lives, a thread asks whether the device still answers. Not the caller's own: others may be holding the driver up
/// because they wait for this very copy.
class CopyThreads::Watch {
 public:
  explicit Watch(CopyThreads& threads) : threads_(threads) {}
  ~Watch() { end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void begin(int device, cudaStream_t idle) {
    if (begun_) return;
    begun_ = true;
    watched_ = {device, idle};
    const detail::LockGuard guard(threads_.watch_mutex_);
    if (!threads_.watch_started_) {
      threads_.watch_gate_.open();
      threads_.watch_started_ = start([](void* all) { static_cast<CopyThreads*>(all)->watch_devices(); }, threads_);
    }
    try {
      if (threads_.watch_started_) threads_.watched_.push_back(watched_);
    } catch (...) {
      // Others notice.
    }
    threads_.watching_.notify_one();
  }

 private:
  void end() noexcept {
    if (!begun_) return;
    const detail::LockGuard guard(threads_.watch_mutex_);
    auto& all = threads_.watched_;
    const auto own = std::find_if(all.begin(), all.end(), [&](const Watched& w) { return w.idle == watched_.idle; });
    if (own != all.end()) all.erase(own);
  }

  CopyThreads& threads_;
  Watched watched_{};
  bool begun_ = false;
};

bool CopyThreads::drive(StagedCopy& copy, int device, cudaStream_t idle) {
  constexpr auto usual = std::chrono::milliseconds(5);
  Watch watch(*this);
  Patience patience;
  const auto wait = [&] {
    patience.pause();
    if (patience.spent() > usual) watch.begin(device, idle);
    return sticky_failure() == cudaSuccess;
  };
  while (!copy.begun()) {
    if (!wait()) return false;
  }
  patience.renew();
  const Part part(*this, copy);
  while (!copy.over()) {
    if (copy.move_one()) {
      patience.renew();
    } else if (!wait()) {
      return false;
    }
  }
  return true;
}

void CopyThreads::start_movers() noexcept {
  const detail::LockGuard guard(mutex_);
  if (movers_started_) return;
  movers_started_ = true;
  gate_.open();
  for (unsigned i = 1; i < most(); ++i) {
    if (!start([](void* all) { static_cast<CopyThreads*>(all)->move_for_all(); }, *this)) return;
  }
}

void CopyThreads::move_for_all() noexcept {
  constexpr int chunks_in_turn = 8;
  Patience patience;
  for (;;) {
    Entry* entry = nullptr;
    {
      const detail::LockGuard guard(mutex_);
      while (entries_.empty()) {
        joined_.wait(mutex_);
        patience.renew();
      }
      if (gate_.enter()) {
        entry = entries_[turn_++ % entries_.size()];
        ++entry->users;
      }
    }
    if (entry == nullptr) detail::stay_until_the_end();  // the ring's memory is the driver's
    int moved = 0;
    while (moved < chunks_in_turn && entry->copy.move_one()) ++moved;
    gate_.leave();
    {
      const detail::LockGuard guard(mutex_);
      if (--entry->users == 0) left_.notify_all();
    }
    if (moved > 0) {
      patience.renew();
    } else {
      patience.pause();
    }
  }
}

void CopyThreads::watch_devices() noexcept {
  constexpr auto pause = std::chrono::milliseconds(20);
  for (std::size_t turn = 0;; ++turn) {
    Watched next{};
    {
      const detail::LockGuard guard(watch_mutex_);
      while (watched_.empty()) watching_.wait(watch_mutex_);
      next = watched_[turn % watched_.size()];
    }
    if (!watch_gate_.enter()) detail::stay_until_the_end();
    ask(next.device, next.idle);
    watch_gate_.leave();
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace weir::cuda
