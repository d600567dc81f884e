// Who moves which chunk, and how long it is looked for before a thread rests.
#include "backends/cuda/memory/copy_threads.hpp"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
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
  void spin() const {
#if defined(__x86_64__)
    for (int i = 0; i < 32; ++i) __builtin_ia32_pause();
#endif
  }
  void pause() {
    constexpr auto spins = std::chrono::microseconds(50);
    constexpr auto yields = std::chrono::milliseconds(1);
    const auto waited = spent();
    if (waited < spins) {
      spin();
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

/// Between host memories.
class ParallelCopy final : public Chunks {
 public:
  static constexpr std::size_t chunk_bytes = 64 * 1024;

  ParallelCopy(void* to, const void* from, std::size_t bytes)
      : to_(static_cast<char*>(to)), from_(static_cast<const char*>(from)), bytes_(bytes) {}

  bool move_one() noexcept override {
    const std::size_t begin = next_.fetch_add(chunk_bytes, std::memory_order_relaxed);
    if (begin >= bytes_) return false;
    std::memcpy(to_ + begin, from_ + begin, std::min(chunk_bytes, bytes_ - begin));
    return true;
  }
  bool all_taken() const noexcept override { return next_.load(std::memory_order_relaxed) >= bytes_; }

 private:
  char* to_;
  const char* from_;
  std::size_t bytes_;
  std::atomic<std::size_t> next_{0};
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

/// In the list of copies that the threads help. At its end nobody moves any more.
class CopyThreads::Part {
 public:
  Part(CopyThreads& threads, Chunks& chunks, std::uint64_t helpers)
      : threads_(threads), entry_{chunks, static_cast<unsigned>(std::min<std::uint64_t>(helpers, most() - 1))} {
    if (entry_.wanted == 0) return;
    threads_.start_movers();
    {
      const detail::LockGuard guard(threads_.mutex_);
      try {
        threads_.entries_.push_back(&entry_);
      } catch (...) {
        entry_.listed = false;  // the caller moves the chunks alone
        return;
      }
      threads_.places_ += entry_.wanted;
    }
    threads_.wake_movers(entry_.wanted);
  }
  ~Part() {
    if (entry_.wanted == 0 || !entry_.listed) return;
    {
      const detail::LockGuard guard(threads_.mutex_);
      std::erase(threads_.entries_, &entry_);
      entry_.listed = false;
      threads_.places_ -= entry_.wanted - entry_.users;
    }
    for (Patience patience; entry_.users.load(std::memory_order_acquire) > 0;) patience.pause();
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
  {
    constexpr std::uint64_t each = 512 * 1024;  // more of them bring a small copy no sooner
    const Part part(*this, copy, copy.job().bytes / each);
    while (!copy.all_taken() && !copy.skipped()) {
      if (copy.move_one()) {
        patience.renew();
      } else if (!wait()) {
        return false;
      }
    }
  }
  while (!copy.over()) {
    if (!wait()) return false;
  }
  return true;
}

void CopyThreads::copy(void* to, const void* from, std::size_t bytes) noexcept {
  ParallelCopy chunks(to, from, bytes);
  const Part part(*this, chunks, bytes / ParallelCopy::chunk_bytes / 4);
  while (chunks.move_one()) {
  }
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

void CopyThreads::wake_movers(unsigned wanted) noexcept {
  const unsigned awake = awake_.load();
  if (awake >= wanted) return;
  ++wakings_;
  if (wanted == most() - 1) {
    wakings_.notify_all();
  } else {
    for (unsigned i = awake; i < wanted; ++i) wakings_.notify_one();
  }
}

/// Of the next copy that wants somebody.
CopyThreads::Entry* CopyThreads::take_entry() noexcept {
  if (places_.load(std::memory_order_relaxed) == 0) return nullptr;
  const detail::LockGuard guard(mutex_);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = *entries_[turn_++ % entries_.size()];
    if (entry.users.load(std::memory_order_relaxed) == entry.wanted) continue;
    ++entry.users;
    --places_;
    return &entry;
  }
  return nullptr;
}

void CopyThreads::leave(Entry& entry) noexcept {
  const detail::LockGuard guard(mutex_);
  if (entry.listed) ++places_;
  entry.users.fetch_sub(1, std::memory_order_release);
}

namespace {
/// Moves some of the copy's chunks; another copy may have its turn then.
bool move_some(Chunks& chunks) noexcept {
  constexpr int most = 8;
  constexpr auto usual = std::chrono::microseconds(20);  // until the device has filled or emptied the next one
  int moved = 0;
  for (Patience patience; moved < most && !chunks.all_taken();) {
    if (chunks.move_one()) {
      ++moved;
      patience.renew();
    } else if (patience.spent() < usual) {
      patience.spin();
    } else {
      break;
    }
  }
  return moved > 0;
}
}  // namespace

void CopyThreads::rest() noexcept {
  const std::uint32_t seen = wakings_.load();
  --awake_;
  if (places_.load() == 0) wakings_.wait(seen);
  ++awake_;
}

void CopyThreads::move_for_all() noexcept {
  constexpr auto linger = std::chrono::microseconds(20);  // another copy often follows
  ++awake_;
  for (Patience patience;;) {
    if (places_.load(std::memory_order_relaxed) == 0) {
      if (patience.spent() < linger) {
        patience.spin();
      } else {
        rest();
        patience.renew();
      }
      continue;
    }
    if (!gate_.enter()) detail::stay_until_the_end();  // the ring's memory is the driver's
    bool moved = false;
    if (Entry* const entry = take_entry()) {
      moved = move_some(entry->chunks);
      leave(*entry);
    }
    gate_.leave();
    if (moved) {
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
