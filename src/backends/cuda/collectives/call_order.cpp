// Who is handed over, and when.
#include "backends/cuda/collectives/call_order.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/collectives/handing.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/graphs/late_replay.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"

namespace weir::cuda {

namespace {

/// Of one communicator: so many are more than GPUs are through with before the next ones are there, and few enough for the streams to
/// have room (R3): whoever makes a call shall not wait.
constexpr std::size_t most_with_nccl = 64;

/// Launches of graphs in one lane, each of which takes as many places as a call.
constexpr std::size_t most_replays = 16;

/// A stream has come to its part: what was before it has failed, or will not.
class CameToPart final : public Reached {
 public:
  explicit CameToPart(std::shared_ptr<StockEvent> event) : event_(std::move(event)) {}
  void reached(cudaError_t) noexcept override { CallOrder::instance().look_if_any_wait(); }

 private:
  std::shared_ptr<StockEvent> event_;
};

void watch_part(NcclPart& part) {
  part.queue().try_mark_deferred();
  while (!part.marked()) {
    part.watched.store(false);
    // Who is about to mark it looks at the call behind that, and finds that nobody watches; or has done so by now.
    if (!part.marked() || part.watched.exchange(true)) return;
  }
  std::unique_ptr<Reached> reached = std::make_unique<CameToPart>(part.ready);
  Poller::instance().add(&part, part.queue().device().index(), part.ready->get(), reached);
}

}  // namespace

CallOrder& CallOrder::instance() {
  static auto& order = *new CallOrder;
  return order;
}

TaskThread& CallOrder::worker() {
  static auto& thread = *new TaskThread;
  return thread;
}
TaskThread& CallOrder::holder() {
  static auto& thread = *new TaskThread;
  return thread;
}

void CallOrder::Turn::lock() {
  while (!take(std::chrono::seconds(1), true)) {
  }
}

bool CallOrder::Turn::take(std::chrono::microseconds time, bool makes) noexcept {
  CallOrder& order = order_;
  const detail::LockGuard guard(order.mutex_);
  if (order.taken_) {
    constexpr std::chrono::milliseconds look_again{1};
    const auto until = std::chrono::steady_clock::now() + time;
    ++order.asking_;
    while (!order.given_ && (order.makes_ || std::chrono::steady_clock::now() < until)) {
      order.free_.wait_until(order.mutex_, std::max(until, std::chrono::steady_clock::now() + look_again));
    }
    --order.asking_;
    if (!std::exchange(order.given_, false)) return false;  // in the last moment, too, or nobody would have it
  }
  order.makes_ = makes;
  return order.taken_ = true;
}

/// Who waits for it has it next; and who called meanwhile is not left alone.
void CallOrder::Turn::unlock() noexcept {
  CallOrder& order = order_;
  {
    const detail::LockGuard guard(order.mutex_);
    if (order.asking_ != 0) {
      order.given_ = true;
      order.free_.notify_one();
      return;
    }
    order.taken_ = false;
    if (!order.again_) return;
  }
  post(worker(), [&order] { order.look(); });
}

CallOrderTurn::CallOrderTurn(bool needed, bool behind_all) : taken_(needed) {
  if (!taken_) return;
  CallOrder::instance().turn().lock();
  if (behind_all) CallOrder::instance().pass_on();
  mine_.emplace();
}

CallOrderTurn::CallOrderTurn(std::chrono::microseconds patience)
    : taken_(CallOrder::instance().turn().try_lock_for(patience)) {
  if (taken_) mine_.emplace();
}

CallOrderTurn::~CallOrderTurn() {
  mine_.reset();
  if (taken_) CallOrder::instance().turn().unlock();
}

void CallOrder::add(NcclTransport& transport, detail::CollectiveCall& call, std::size_t lane) {
  {
    const detail::LockGuard guard(mutex_);
    added_.push_back({&transport, CallRef(call), lane});
    call.lane_number.store(++last_number_, std::memory_order_release);
    waiting_count_.fetch_add(1, std::memory_order_seq_cst);
    again_ = true;
  }
  take(patience_for_turn);
}

void CallOrder::add(std::shared_ptr<LateReplay> replay) {
  {
    const detail::LockGuard guard(mutex_);
    added_.push_back({nullptr, {}, 0, replay});
    LateReplay::note(replay, ++last_number_);
    waiting_count_.fetch_add(1, std::memory_order_seq_cst);
    again_ = true;
  }
  take(patience_for_turn);
}

void CallOrder::look() noexcept {
  {
    const detail::LockGuard guard(mutex_);
    again_ = true;
    if (taken_) return;  // it is looked behind that turn
  }
  take({});
}

void CallOrder::look_if_any_wait() noexcept {
  if (waiting_count_.load(std::memory_order_seq_cst) == 0) return;
  post(worker(), [this] { look(); });
}

/// Not in this time: whoever's turn it is sees that somebody looks.
void CallOrder::take(std::chrono::microseconds patience) noexcept {
  if (!turn_.try_lock_for(patience)) return;
  pass_on();
  turn_.unlock();
}

void CallOrder::pass_on() noexcept {
  const Mine mine;
  for (;;) {
    {
      const detail::LockGuard guard(mutex_);
      if (!std::exchange(again_, false)) return;
    }
    fetch();
    pass();
  }
}

void CallOrder::fetch() {
  const detail::LockGuard guard(mutex_);
  for (; !added_.empty(); added_.pop_front()) waiting_.push_back(std::move(added_.front()));
}

bool CallOrder::any_wait(const std::vector<NcclTransport*>& transports) {
  fetch();
  return std::any_of(waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
    const auto has = [&](NcclTransport* transport) {
      return std::find(transports.begin(), transports.end(), transport) != transports.end();
    };
    if (one.replay == nullptr) return has(one.transport);
    const auto& theirs = one.replay->transports();
    return std::any_of(theirs.begin(), theirs.end(), has);
  });
}

class CallOrder::Closed {
 public:
  bool has(const Waiting& waiting) const {
    return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& lane) {
      if (waiting.replay == nullptr) {
        return lane.transport == waiting.transport && (lane.all || lane.number == waiting.lane);
      }
      const auto& transports = waiting.replay->transports();
      return std::find(transports.begin(), transports.end(), lane.transport) != transports.end();
    });
  }
  void add(const Waiting& waiting) {
    if (waiting.replay == nullptr) return lanes_.push_back({waiting.transport, false, waiting.lane});
    for (NcclTransport* transport : waiting.replay->transports()) lanes_.push_back({transport, true, 0});
  }

 private:
  struct Lane {
    NcclTransport* transport;
    bool all;
    std::size_t number;
  };
  std::vector<Lane> lanes_;
};

/// A call that is handed over may be what an earlier one waits for. A communicator that NCCL has nothing of is made when nothing else
/// is left to hand over: NCCL waits for what the GPUs have, and that may wait for what is left.
void CallOrder::pass() {
  bool makes = false;
  for (;;) {
    bool again = false;
    bool unmade = false;
    Closed closed;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (closed.has(*at)) {
        closed.add(*at);
        ++at;
        continue;
      }
      const bool is_unmade = at->replay == nullptr && !at->transport->ranks()->made.load(std::memory_order_acquire);
      const Answer answer = at->replay != nullptr ? try_to_launch(*at->replay) : try_to_hand(*at, makes || !is_unmade);
      unmade = unmade || (is_unmade && answer == Answer::is_full);
      if (answer == Answer::waits || answer == Answer::is_full) {
        closed.add(*at);
        if (answer == Answer::waits) watch(*at);
        ++at;
        continue;
      }
      again = again || (answer == Answer::handed && at != waiting_.begin());
      at = waiting_.erase(at);
      waiting_count_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (again) continue;
    if (!unmade || makes || !makes_alone()) return;
    makes = true;
  }
}

/// From here on all wait for the end of this turn. False: somebody has called before.
bool CallOrder::makes_alone() {
  const detail::LockGuard guard(mutex_);
  makes_ = true;
  return added_.empty();
}

CallOrder::Answer CallOrder::try_to_hand(Waiting& waiting, bool may_make) {
  detail::CollectiveCall& call = *waiting.call;
  if (!call.open() || waiting.transport->abandoned()) return Answer::is_over;
  const auto parts = call.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = *static_cast<NcclPart*>(parts[i].own.get());
    const FailureState& failures = part.failures();
    if (auto failure = failures.failure_at(part.behind)) {
      post(worker(), [call = CallRef(call), i, failure = std::move(failure)] { call->fail_part(i, failure); });
      return Answer::is_over;
    }
    if (failures.in_doubt_beyond(part.behind, waiting.transport->tag())) return Answer::waits;
  }
  if (waiting.transport->ranks()->calls.size() >= most_with_nccl) return Answer::is_full;
  if (!may_make) return Answer::is_full;
  try {
    switch (Handing(last_, *waiting.transport, call, waiting_.size() > 1).run()) {
      case Handing::Outcome::handed: return Answer::handed;
      case Handing::Outcome::waits: return Answer::waits;
      case Handing::Outcome::is_over: break;
    }
  } catch (const Error& error) {
    post(worker(),
         [call = CallRef(call), code = error.errc(), why = std::string(error.what())] { call->fail_all(code, why); });
  } catch (...) {
    post(worker(), [call = CallRef(call)] { call->fail_all(Errc::out_of_memory, "no memory left to run it"); });
  }
  return Answer::is_over;
}

CallOrder::Answer CallOrder::try_to_launch(LateReplay& replay) {
  const NcclPart& part = *replay.part();
  if (part.over()) {  // the process ends
    replay.drop(nullptr);
    return Answer::is_over;
  }
  if (auto failure = part.failures().failure_at(part.behind)) {
    replay.drop(std::move(failure));
    return Answer::is_over;
  }
  const auto& transports = replay.transports();
  if (std::any_of(transports.begin(), transports.end(), [](NcclTransport* one) { return one->abandoned(); })) {
    replay.drop(replay.communicator_failed());
    return Answer::is_over;
  }
  // What NCCL has may end early, too, and nothing in a graph heeds that.
  constexpr std::uint64_t nobodys_tag = ~std::uint64_t{0};
  if (part.failures().in_doubt_beyond(part.behind, nobodys_tag)) return Answer::waits;
  if (transports.front()->ranks()->replays.load(std::memory_order_acquire) >= most_replays) return Answer::is_full;
  replay.launch(last_);
  return Answer::handed;
}

/// Somebody looks again when the streams have come to it.
void CallOrder::watch(const Waiting& waiting) {
  if (waiting.replay != nullptr) return watch(waiting.replay->part());
  for (const detail::CollectivePart& one : waiting.call->parts()) watch(std::static_pointer_cast<NcclPart>(one.own));
}

void CallOrder::watch(const std::shared_ptr<NcclPart>& part) {
  if (part->watched.exchange(true)) return;
  post(holder(), [part] {
    try {
      watch_part(*part);
    } catch (...) {
      part->watched.store(false);  // the next look tries again
    }
  });
}

}  // namespace weir::cuda
