// How a pool grows while commands hold its workers, and shrinks when they go on.
#include <algorithm>
#include <chrono>
#include <utility>

#include "backends/cpu/workers/thread_start.hpp"
#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
/// Of a core's time, for each core: who used more of it without progress may wait for what nobody runs.
constexpr auto busy_patience = std::chrono::milliseconds(20);
constexpr int most_doublings = 3;
constexpr auto grants_forgotten = std::chrono::seconds(5);
constexpr int most_at_once = 8;
constexpr int quiet_ticks = 5;
}  // namespace

void WorkerPool::arm() {
  if (vigil_.arm() && !arm_monitor()) vigil_.disarm();  // the next one tries again
}

void WorkerPool::start_worker(bool extra) {
  if (stopping_.load(std::memory_order_relaxed)) return;
  const int others = alive_.fetch_add(1, std::memory_order_seq_cst);
  Member* member = extra || others < width_ ? crew_.reserve(extra) : nullptr;
  if (member == nullptr) {
    alive_.fetch_sub(1, std::memory_order_seq_cst);
    if (!extra) arm();  // another thread started the last one, which may have other work by now
    return;
  }
  member->pool = this;
  const auto run = [](void* worker) {
    auto& self = *static_cast<Member*>(worker);
    self.pool->work(self);
  };
  if (start_thread(run, member)) return;
  crew_.leave(*member);
  alive_.fetch_sub(1, std::memory_order_seq_cst);
  arm();  // those that live go on; who waits or polls helps
}

void WorkerPool::grow(int count) {
  for (int i = 0; i < count; ++i) {
    if (!sleepers_.wake()) start_worker(alive_.load(std::memory_order_relaxed) >= width_);
  }
}

/// While one worker after the other is held up, the next ones will be, too: the pool grows by several at once.
void WorkerPool::foresee(const Crew::Look& look) {
  const int blocked = crew_.blocked();
  if (look.computing > width_) {
    foreseen_ = 0;
  } else if (blocked > watched_blocked_) {
    foreseen_ = std::min(2 * foreseen_ + 1, most_at_once);
  } else if (looks_without_more_blocked_ >= 3) {
    foreseen_ = 0;
  }
  looks_without_more_blocked_ = blocked > watched_blocked_ ? 0 : looks_without_more_blocked_ + 1;
  watched_blocked_ = blocked;
}

/// Workers that are held up get a replacement at once. If all compute while others wait for a worker, that is as it should
/// be, unless they do so for long without a step: then each may wait for one of the others. They get help, each time
/// later and more of it.
bool WorkerPool::watch() {
  const auto now = Clock::now();
  const Crew::Look look = crew_.look(now);
  if (look.helped == 0) help_ = 0;
  foresee(look);
  granted_.store(help_ + foreseen_, std::memory_order_relaxed);
  // Extra workers help in no loop: those that stood in for one that rests now give their work to that.
  const int surplus = std::max(look.computing - allowed(), look.at_rest);
  if (surplus > 0 && look.extra > 0) crew_.send_away(surplus);
  const std::uint32_t pops = ready_.pops();
  const bool taken = std::exchange(watched_pops_, pops) != pops;
  if (!any_ready()) {
    if (loops_.any() && awake() < width_) sleepers_.wake_ordinary();
    if (look.extra > 0 || loops_.any() || ++quiet_ticks_ < quiet_ticks) return true;
    quiet_ticks_ = 0;
    crew_.rest();
    vigil_.disarm();
    return (ready_.any_for_certain() || loops_.any_for_certain()) && vigil_.arm_again();
  }
  quiet_ticks_ = 0;
  if (vigil_.spinners() > 0) return true;
  if (const int room = allowed() - awake(); room > 0) {  // those that are on their way are awake
    if (!taken || crew_.blocked() > 0) grow(std::min(room, ready_.count()));
    return true;
  }
  if (now - last_grant_ > grants_forgotten) grants_ = 0;
  const int more = 1 << std::min(grants_, most_doublings);
  // Where there are fewer cores than workers, so many of them seldom go on at once: if none does, that says as much.
  const int cores = std::min(width_, cores_);
  if (taken ||
      (look.without_progress < busy_patience * (width_ * more) && look.stalled < busy_patience * (cores * more)))
    return true;
  crew_.mark_helped();
  help_ = look.computing - width_ + more;
  granted_.store(help_, std::memory_order_relaxed);
  grow(std::min(more, ready_.count()));
  ++grants_;
  last_grant_ = now;
  return true;
}

}  // namespace weir::cpu
