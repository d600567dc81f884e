#include "backends/cuda/collectives/held_row.hpp"

#include <atomic>
#include <utility>

#include "backends/cuda/collectives/standing_waits.hpp"
#include "backends/cuda/streams/signals.hpp"

namespace weir::cuda {

HeldRow::HeldRow(std::shared_ptr<StockEvent> before, std::size_t parts, SourceLocation where)
    : before_(std::move(before)),
      word_(Signals::instance().take_word(where)),
      count_(word_.awaited),
      open_(parts),
      not_over_(parts) {
  StandingWaits::instance().come();
}

HeldRow::~HeldRow() {
  if (open_ != 0) StandingWaits::instance().go();
  reach();  // where the wait did not get into the stream: the word may serve again
  Signals::instance().give_word(word_);
}

void HeldRow::enter_lane(Member& member) noexcept {
  const detail::LockGuard guard(mutex_);
  if (member != Member::open) return;
  member = Member::in_lane;
  close_one();
}

void HeldRow::leave_lane(Member& member) noexcept {
  const detail::LockGuard guard(mutex_);
  if (member != Member::in_lane) return;
  member = Member::open;
  if (open_++ == 0) StandingWaits::instance().come_back();
  by_lane_ = false;
}

bool HeldRow::ends_by_lane() noexcept {
  const detail::LockGuard guard(mutex_);
  if (open_ == 0) by_lane_ = true;
  return by_lane_;
}

void HeldRow::end(Member& member) noexcept {
  const detail::LockGuard guard(mutex_);
  if (member == Member::over) return;
  if (member == Member::open) close_one();
  member = Member::over;
  if (--not_over_ == 0 && !by_lane_) reach();
}

void HeldRow::close_one() noexcept {
  if (--open_ == 0) StandingWaits::instance().go();
}

void HeldRow::give_up() noexcept { reach(); }

void HeldRow::reach() noexcept { std::atomic_ref(word_.reached).store(count_, std::memory_order_seq_cst); }

}  // namespace weir::cuda
