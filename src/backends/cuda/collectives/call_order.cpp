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
constexpr std::chrono::milliseconds longest_gathering{1};

/// A stream has come to its part: what was before it has failed, or will not.
class CameToPart final : public Reached {
 public:
  explicit CameToPart(std::shared_ptr<StockEvent> event) : event_(std::move(event)) {}
  void reached(cudaError_t) noexcept override { CallOrder::instance().look_if_any_wait(); }

 private:
  std::shared_ptr<StockEvent> event_;
};

/// Of all communicators of a graph: each has ranks of its own, and nobody but who has the order's lock takes several. The graph may go
/// meanwhile.
class AllInUse {
 public:
  explicit AllInUse(const std::vector<NcclTransport*>& transports) WEIR_NOT_ANALYSED {  // as many as there are
    ranks_.reserve(transports.size());
    for (NcclTransport* one : transports) ranks_.push_back(one->ranks());
    for (const auto& one : ranks_) one->in_use.lock();
  }
  ~AllInUse() WEIR_NOT_ANALYSED {
    for (const auto& one : ranks_) one->in_use.unlock();
  }
  AllInUse(const AllInUse&) = delete;
  AllInUse& operator=(const AllInUse&) = delete;

 private:
  std::vector<std::shared_ptr<NcclRanks>> ranks_;
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

bool LastHanded::OfDevice::stands_in(const CudaQueue& queue) const noexcept {
  return in == &queue && owner == queue.owner();
}

CallOrder& CallOrder::instance() {
  static auto& order = *new CallOrder;
  return order;
}

TaskThread& CallOrder::worker() {
  static auto& thread = *new TaskThread;
  return thread;
}
TaskThread& CallOrder::looker() {
  static auto& thread = *new TaskThread;
  return thread;
}
TaskThread& CallOrder::holder() {
  static auto& thread = *new TaskThread;
  return thread;
}

CallOrderLock::CallOrderLock(bool needed) : taken_(needed) {
  if (!taken_) return;
  CallOrder::instance().lock().lock();
  mine_.emplace();
}

CallOrderLock::~CallOrderLock() {
  mine_.reset();
  if (taken_) CallOrder::instance().lock().unlock();
}

void CallOrder::add(NcclTransport& transport, detail::CollectiveCall& call, std::size_t lane) {
  const detail::LockGuard guard(mutex_);
  const Mine mine;
  waiting_.push_back({&transport, CallRef(call), lane});
  call.lane_number.store(++last_number_, std::memory_order_release);
  if (gathers_ == 0) {
    waiting_count_.fetch_add(1, std::memory_order_seq_cst);
    return pass();
  }
  waiting_.back().gatherer = &gathers_;
  waiting_.back().until = std::chrono::steady_clock::now() + longest_gathering;
  if (gathered_count_.fetch_add(1, std::memory_order_relaxed) + 1 < most_with_nccl) return;
  give_out_own();
  pass();
}

void CallOrder::give_out(Waiting& waiting) {
  waiting.gatherer = nullptr;
  gathered_count_.fetch_sub(1, std::memory_order_relaxed);
  waiting_count_.fetch_add(1, std::memory_order_seq_cst);
}

void CallOrder::give_out_own() {
  for (Waiting& one : waiting_) {
    if (one.gatherer == &gathers_) give_out(one);
  }
}

void CallOrder::give_out() noexcept {
  if (--gathers_ != 0) return;
  const detail::LockGuard guard(mutex_);
  const Mine mine;
  give_out_own();
  pass();
}

bool CallOrder::is_gathered(Waiting& waiting) {
  if (waiting.gatherer == nullptr) return false;
  if (std::chrono::steady_clock::now() < waiting.until) return true;
  give_out(waiting);
  return false;
}

void CallOrder::look_if_any_are_gathered() noexcept {
  if (gathered_count_.load(std::memory_order_relaxed) != 0) post(worker(), [this] { look(); });
}

void CallOrder::look() noexcept {
  const detail::LockGuard guard(mutex_);
  const Mine mine;
  pass();
}

void CallOrder::look_if_any_wait() noexcept {
  if (waiting_count_.load(std::memory_order_seq_cst) == 0) return;
  post(worker(), [this] { look(); });
}

void CallOrder::add(std::shared_ptr<LateReplay> replay) {
  const detail::LockGuard guard(mutex_);
  const Mine mine;
  LateReplay::note(replay, ++last_number_);
  waiting_.push_back({nullptr, {}, 0, std::move(replay)});
  waiting_count_.fetch_add(1, std::memory_order_seq_cst);
  pass();
}

bool CallOrder::any_wait(const std::vector<NcclTransport*>& transports) const {
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

/// A call that is handed over may be what an earlier one waits for.
void CallOrder::pass() {
  bool again = true;
  while (again) {
    again = false;
    Closed closed;
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (is_gathered(*at) || closed.has(*at)) {
        closed.add(*at);
        ++at;
        continue;
      }
      std::size_t with_it = 0;
      const Answer answer = at->replay != nullptr ? try_to_launch(*at->replay) : try_to_hand(at, with_it);
      if (answer == Answer::waits || answer == Answer::is_full) {
        closed.add(*at);
        if (answer == Answer::waits) watch(*at);
        ++at;
        continue;
      }
      again = again || (answer == Answer::handed && at != waiting_.begin());
      at = waiting_.erase(at, at + 1 + static_cast<std::ptrdiff_t>(with_it));
      waiting_count_.fetch_sub(1 + with_it, std::memory_order_seq_cst);
    }
  }
}

CallOrder::Answer CallOrder::try_to_hand(std::deque<Waiting>::iterator at, std::size_t& with_it) {
  const Waiting& waiting = *at;
  detail::CollectiveCall& call = *waiting.call;
  const detail::LockGuard in_use(waiting.transport->ranks()->in_use);  // the call keeps them
  if (!call.open() || waiting.transport->abandoned()) return Answer::is_over;
  const auto parts = call.parts();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& part = *static_cast<NcclPart*>(parts[i].own.get());
    const FailureState& failures = part.failures();
    // Before the question for a failure: a place that fails between the two is one or the other.
    const bool in_doubt = failures.in_doubt_beyond(part.behind, waiting.transport->tag());
    if (auto failure = failures.failure_at(part.behind)) {
      post(worker(), [call = CallRef(call), i, failure = std::move(failure)] { call->fail_part(i, failure); });
      return Answer::is_over;
    }
    if (in_doubt) return Answer::waits;
  }
  if (waiting.transport->ranks()->calls.size() >= most_with_nccl) return Answer::is_full;
  try {
    Handing one(last_, *waiting.transport, call, waiting_.size() > 1);
    for (auto next = at + 1; next != waiting_.end() && next->transport == waiting.transport; ++next) {
      if (next->gatherer != nullptr || next->lane != waiting.lane || !one.take_along(*next->call)) break;
    }
    const Handing::Outcome outcome = one.run();
    with_it = one.taken_along();
    switch (outcome) {
      case Handing::Outcome::handed: return Answer::handed;
      case Handing::Outcome::waits: return Answer::waits;
      case Handing::Outcome::later: return Answer::is_full;
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
  // What NCCL has may end early, too, and nothing in a graph heeds that.
  constexpr std::uint64_t nobodys_tag = ~std::uint64_t{0};
  const bool in_doubt = part.failures().in_doubt_beyond(part.behind, nobodys_tag);  // first, as above
  if (auto failure = part.failures().failure_at(part.behind)) {
    replay.drop(std::move(failure));
    return Answer::is_over;
  }
  const auto& transports = replay.transports();
  const AllInUse in_use(transports);
  if (std::any_of(transports.begin(), transports.end(), [](NcclTransport* one) { return one->abandoned(); })) {
    replay.drop(replay.communicator_failed());
    return Answer::is_over;
  }
  if (in_doubt) return Answer::waits;
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
