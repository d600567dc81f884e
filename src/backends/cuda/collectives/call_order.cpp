// Who is handed over, and when.
#include "backends/cuda/collectives/call_order.hpp"

#include <algorithm>
#include <utility>

#include "backends/cuda/collectives/handing.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"

namespace weir::cuda {

namespace {

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

void CallOrder::add(NcclTransport& transport, detail::CollectiveCall& call, std::size_t lane) {
  const detail::LockGuard guard(mutex_);
  const Mine mine;
  waiting_.push_back({&transport, CallRef(call), lane});
  waiting_count_.fetch_add(1, std::memory_order_seq_cst);
  pass();
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

/// A call that is handed over may be what an earlier one waits for.
void CallOrder::pass() {
  bool again = true;
  while (again) {
    again = false;
    std::vector<std::pair<NcclTransport*, std::size_t>> closed;  // lanes whose first call waits
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const std::pair lane{at->transport, at->lane};
      if (std::find(closed.begin(), closed.end(), lane) != closed.end()) {
        ++at;
        continue;
      }
      const Answer answer = try_to_hand(*at);
      if (answer == Answer::waits) {
        closed.push_back(lane);
        watch(*at);
        ++at;
        continue;
      }
      again = again || (answer == Answer::handed && at != waiting_.begin());
      at = waiting_.erase(at);
      waiting_count_.fetch_sub(1, std::memory_order_seq_cst);
    }
  }
}

CallOrder::Answer CallOrder::try_to_hand(Waiting& waiting) {
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

/// Somebody looks again when the streams have come to it.
void CallOrder::watch(const Waiting& waiting) {
  for (const detail::CollectivePart& one : waiting.call->parts()) {
    NcclPart& part = *static_cast<NcclPart*>(one.own.get());
    if (part.watched.exchange(true)) continue;
    post(holder(), [own = one.own, &part] {
      try {
        watch_part(part);
      } catch (...) {
        part.watched.store(false);  // the next look tries again
      }
    });
  }
}

}  // namespace weir::cuda
