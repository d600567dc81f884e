// What one communicator has to do among processes.
#include "core/ranks/engine.hpp"

#include <algorithm>
#include <utility>

#include "back_off.hpp"
#include "core/ranks/ranked_state.hpp"
#include "no_waits.hpp"

namespace weir::detail {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds patience_with_cancelling{100};
constexpr std::chrono::microseconds patience_before_yielding{10};
constexpr std::size_t most_at_once = 64;  ///< of a lane
std::atomic<bool> some_engine_stopped{false};

}  // namespace

RankEngine::RankEngine(std::shared_ptr<SharedLink> link, Place place, std::weak_ptr<RankedState> owner)
    : link_(std::move(link)), place_(std::move(place)), owner_(std::move(owner)) {}
RankEngine::~RankEngine() = default;

void RankEngine::add(CallReference call, std::size_t lane) {
  auto& mine = static_cast<RankedCall&>(*call);
  const bool launched = mine.launch() != nullptr;
  // A kernel uses memory in the order of its stream, as any other does.
  if (!launched) mine.keep_memory();
  auto operation = std::make_unique<RankOperation>(call, lane);
  bool stopped = false;
  {
    const LockGuard guard(mutex_);
    added_.push_back(std::move(operation));
    stopped = stop_.has_value();
    if (!launched) by_messages_.fetch_add(1, std::memory_order_acq_rel);
  }
  if (!launched || stopped) return RankProgress::instance().wake();
  // Who was told before did not find it. Who is told from here on does.
  if (mine.was_told()) look_at_launched(lane);
}

void RankEngine::stop(Errc code, const std::string& text, const LocalCall* call, std::shared_ptr<const Error> own) {
  {
    const LockGuard guard(mutex_);
    if (!stop_) stop_ = Stop{code, text, call, std::move(own)};
  }
  some_engine_stopped.store(true);
  RankProgress::instance().wake();
}

bool RankEngine::any_stopped() { return some_engine_stopped.load(); }
void RankEngine::wake() { RankProgress::instance().wake(); }

RankedCall::Way RankEngine::way_of(const Offer& offer) const {
  using Way = RankedCall::Way;
  const CollectiveRequest& request = offer.request;
  if (mover_ != nullptr && !place_.compare && mover_->launches(request)) return Way::launched;
  if (place_.staging == RankStaging::none || (mover_ != nullptr && mover_->moves(request))) return Way::host;
  const bool folds = request.reduction != Reduction::none;
  const auto size = static_cast<int>(place_.members.size());
  if (folds || place_.staging == RankStaging::all) {
    return Pieces(offer, place_.rank, size).count() > 1 ? Way::cut : Way::host;
  }
  if (!place_.direct || request.kind == CollectiveKind::barrier || !offer.send_counts.empty()) return Way::host;
  // A short message goes with its head, which the host writes.
  const bool parts = request.kind == CollectiveKind::broadcast || request.kind == CollectiveKind::all_to_all;
  const CollectiveOperand& one = request.in.present() ? request.in : request.out;
  const std::size_t least = count_of(request) / (parts ? place_.members.size() : 1) * one.layout.element_bytes;
  return least > RankOperation::most_with_head ? Way::direct : Way::host;
}

std::shared_ptr<PieceRoom> RankEngine::room_for(const Offer& offer, std::size_t lane) {
  const std::size_t bytes = Pieces(offer, place_.rank, static_cast<int>(place_.members.size())).bytes();
  {
    const LockGuard guard(mutex_);
    const auto found = rooms_.find(lane);
    if (found != rooms_.end() && found->second->bytes() >= bytes) return found->second;
  }
  // Calls of a rank are made one after the other: nobody else makes the lane's.
  auto room = std::make_shared<PieceRoom>(bytes, offer);
  const LockGuard guard(mutex_);
  return rooms_[lane] = std::move(room);
}

RankOperation::Ends RankEngine::ends_of(const RankOperation& operation) const {
  const std::uint32_t tag = 4 * place_.context + (operation.lane() == 0 ? 0 : 1);  // and two more for pieces
  return {*link_->link, place_.members, place_.rank, tag, place_.compare, mover_.get()};
}

RankEngine::Look RankEngine::look() {
  std::vector<CallReference> over;
  Look look;
  {
    const LockGuard guard(link_->mutex);
    look = look_locked();
    over.swap(over_);
  }
  let_memory_go(over);
  return look;
}

/// Without any lock: what was the last owner's goes back to its backend. Not behind what is in a stream, which may be full of what waits
/// for this thread (R3).
void RankEngine::let_memory_go(const std::vector<CallReference>& calls) noexcept {
  if (calls.empty()) return;
  const NoWaits no_waits;
  for (const CallReference& call : calls) static_cast<RankedCall&>(*call).let_memory_go();
}

bool RankEngine::take_added() {
  const LockGuard guard(mutex_);
  for (Operation& one : added_) {
    if (one) lanes_[one->lane()].push_back(std::move(one));  // some went already where there was no memory for the next
  }
  added_.clear();
  return !stop_;
}

RankEngine::Look RankEngine::look_locked() {
  Look look;
  if (!take_added()) {
    stop_all(look);
    return look;
  }
  for (auto& [number, lane] : lanes_) look_at_lane(lane, look);
  return look;
}

RankEngine::Launched RankEngine::end_launched(std::size_t lane, Operation& over) {
  // Who stopped it has woken the library's thread.
  if (!take_added()) return Launched::waits;
  const auto found = lanes_.find(lane);
  if (found == lanes_.end() || found->second.empty()) return Launched::waits;
  std::deque<Operation>& operations = found->second;
  RankOperation& first = *operations.front();
  if (first.noted()) return Launched::waits;
  const RankLaunch* const launch = first.call().launch();
  if (launch == nullptr) return Launched::needs_more;
  if (first.arrival().nanoseconds.load(std::memory_order_acquire) == 0) return Launched::waits;
  if (first.arrival().failure) return Launched::needs_more;
  switch (launch->move->state.load(std::memory_order_acquire)) {
    case RankMove::State::under_way: return Launched::waits;
    case RankMove::State::failed: return Launched::needs_more;
    case RankMove::State::done: break;
  }
  finish(first);
  over = std::move(operations.front());
  operations.pop_front();
  return Launched::over;
}

/// What goes by messages may be of its unit, or wait for its end. Who counts such a call before this is seen here; who does behind it wakes
/// the thread, which then finds that this one has come.
void RankEngine::launched_arrived() noexcept {
  if (by_messages_.fetch_add(0, std::memory_order_acq_rel) != 0) RankProgress::instance().wake();
}

/// Where another thread has the lock, it may have been there already.
void RankEngine::look_at_launched(std::size_t lane) noexcept {
  for (;;) {
    Operation over;  // it ends without the lock: nobody else may know of its call any more
    auto launched = Launched::needs_more;
    if (link_->mutex.try_lock()) {
      try {
        launched = end_launched(lane, over);
      } catch (...) {
        // No memory: the other thread tries again.
      }
      link_->mutex.unlock();
    }
    if (launched == Launched::needs_more) RankProgress::instance().wake();
    if (launched != Launched::over) return;
  }
}

/// One after the other; but short ones begin while those before them wait for what others send, as the calls of a group do.
void RankEngine::look_at_lane(std::deque<Operation>& lane, Look& look) {
  while (!lane.empty()) {
    RankOperation& operation = *lane.front();
    if (operation.noted()) return;
    auto outcome = RankOperation::Outcome::waits;
    try {
      if (!operation.started()) {
        if (operation.arrival().nanoseconds.load(std::memory_order_acquire) == 0) return;
        if (operation.arrival().failure) return note(operation, outcome);
        operation.start(ends_of(operation), scratch_[operation.lane()]);
        look.moved = true;
      }
      outcome = operation.step(ends_of(operation), look.moved);
    } catch (...) {
      return note(operation, outcome);
    }
    if (outcome != RankOperation::Outcome::done) {
      (operation.call().launch() != nullptr && by_messages_.load(std::memory_order_relaxed) == 0 ? look.launched
                                                                                                 : look.pending) = true;
      look.bytes += operation.bytes_moving();
      if (outcome != RankOperation::Outcome::waits) return note(operation, outcome);
      return begin_next(lane, look);
    }
    operation.give_scratch_back();
    finish(operation);
    take_out(lane);
  }
}

/// What has begun is looked at when it is the first.
void RankEngine::begin_next(std::deque<Operation>& lane, Look& look) {
  const std::size_t end = std::min(lane.size(), most_at_once);
  std::size_t at = 1;
  while (at < end && lane[at - 1]->has_sent_for_all() && lane[at]->started()) ++at;
  if (at == end || !may_begin(lane, at)) return;
  link_->link->gather();
  do {
    RankOperation& next = *lane[at];
    try {
      next.start_beside(ends_of(next));
    } catch (...) {
      note(next, RankOperation::Outcome::waits);
      break;
    }
  } while (++at < end && may_begin(lane, at));
  link_->link->give_out();
  look.moved = true;
}

bool RankEngine::may_begin(const std::deque<Operation>& lane, std::size_t at) const {
  const RankOperation& next = *lane[at];
  const RankArrival& arrival = next.arrival();
  if (arrival.nanoseconds.load(std::memory_order_acquire) == 0 || arrival.failure) return false;
  if (next.noted() || !lane[at - 1]->has_sent_for_all() || !next.may_be_beside(ends_of(next))) return false;
  return std::all_of(lane.begin(), lane.begin() + static_cast<std::ptrdiff_t>(at),
                     [&](const Operation& one) { return next.is_apart_from(*one); });
}

/// The communicator is told by the library's thread, which holds no lock then.
void RankEngine::note(RankOperation& operation, RankOperation::Outcome outcome) {
  LocalCall& call = operation.call();
  call.retain();
  const LockGuard guard(mutex_);
  incidents_.push_back({CallReference(&call), outcome, operation.culprit(), operation.met(),
                        outcome == RankOperation::Outcome::not_moved ? operation.why() : std::string()});
  operation.set_noted();
  RankProgress::instance().wake();
}

void RankEngine::tell_incidents() {
  std::vector<Incident> incidents;
  {
    const LockGuard guard(mutex_);
    incidents.swap(incidents_);
  }
  const auto owner = owner_.lock();
  if (!owner) return;
  for (const Incident& one : incidents) {
    if (one.outcome == RankOperation::Outcome::not_moved) {
      owner->not_moved(*one.call, one.why);
    } else if (one.outcome != RankOperation::Outcome::waits) {
      owner->went_wrong(*one.call, one.outcome == RankOperation::Outcome::different, one.culprit, one.met);
    } else {
      owner->stream_failed(*one.call, static_cast<RankedCall&>(*one.call).arrival->failure);
    }
  }
}

void RankEngine::finish(RankOperation& operation) {
  RankedCall& call = operation.call();
  if (call.begin()) {
    call.end();
    call.let_parts_go();
  }
}

void RankEngine::take_out(std::deque<Operation>& lane) {
  RankedCall& call = lane.front()->call();
  call.retain();
  over_.push_back(CallReference(&call));
  if (call.launch() == nullptr) by_messages_.fetch_sub(1, std::memory_order_relaxed);
  lane.pop_front();
}

/// Each is let go when nothing of its memory is under way any more.
void RankEngine::stop_all(Look& look) {
  const auto now = Clock::now();
  if (stopped_at_ == Clock::time_point{}) {
    stopped_at_ = now;
    link_->link->abandon();
  }
  Stop stop;
  {
    const LockGuard guard(mutex_);
    stop = *stop_;
  }
  for (auto& [number, lane] : lanes_) {
    while (!lane.empty()) {
      RankOperation& operation = *lane.front();
      if (operation.started() && !operation.cancel(ends_of(operation))) {
        if (now - stopped_at_ < patience_with_cancelling) {
          look.pending = true;
          break;
        }
        operation.abandon();
        operation.lose_scratch();
      }
      LocalCall& call = operation.call();
      const bool own = &call == stop.call;
      call.stop_with(stop.code, stop.text, own ? 0 : 1, own ? stop.own : nullptr);
      take_out(lane);
      look.moved = true;
    }
  }
}

void RankEngine::drive(RankedCall& call) noexcept {
  RankProgress& progress = RankProgress::instance();
  progress.driven(true);
  auto moved_at = Clock::now();
  std::size_t bytes = 0;
  int looks = 0;  // since something moved
  while (call.open()) {
    if (!link_->mutex.try_lock()) {
      back_off(looks++);
    } else {
      Look look;
      try {
        look = look_locked();
      } catch (...) {
      }
      std::vector<CallReference> over;
      over.swap(over_);
      link_->mutex.unlock();
      let_memory_go(over);
      bytes = look.bytes;
      if (look.moved) {
        moved_at = Clock::now();
        looks = 0;
        continue;
      }
      if (!look.pending) break;  // it waits for another stream, which this thread would keep from its processor
    }
    const auto idle = Clock::now() - moved_at;
    if (idle > RankProgress::patience(bytes) / 4) break;
    // A busy machine would give the processor away for longer than a short message takes.
    if (idle > patience_before_yielding) back_off(looks++);
  }
  progress.driven(false);
  if (call.open()) progress.wake();
}

}  // namespace weir::detail
