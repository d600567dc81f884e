// Gates of launches: before one, in its stream, for the calls before it; and behind it, in the lanes of the calls that follow.
#include "core/collectives/launch_gate.hpp"

#include <algorithm>
#include <utility>

namespace weir::detail {

namespace {

constexpr const char* operation = "weir::Graph::launch";

std::uint64_t next_order() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// In a lane: what comes next there comes behind the launch, whatever becomes of that.
class BehindLaunch final : public LocalCall {
 public:
  BehindLaunch(std::shared_ptr<CommunicatorState> communicator, const CommunicatorState::LastLaunch& launch)
      : LocalCall(std::move(communicator), 0, 0) {
    CollectivePart& part = parts()[0];
    part.queue = launch.queue;
    part.place = launch.place;
    part.reports_seen = launch.reports_seen;
  }
  void fail_part(std::size_t, std::shared_ptr<const Error>) noexcept override {}
};

}  // namespace

LaunchGate::LaunchGate(std::shared_ptr<CommunicatorState> communicator, StreamRef stream, SourceLocation where)
    : LocalCall(std::move(communicator), 0, 0), stream_(stream), where_(where) {}

void LaunchGate::fail_part(std::size_t, std::shared_ptr<const Error>) noexcept {
  if (stop()) communicator_->transport->let_go(parts()[0]);
}

void LaunchGate::enter() {
  Command command;
  command.where = where_;
  command.op = Collective{.part = &parts()[0], .call = "launch", .size = 1};
  stream_.state()->real->submit(command);
}

WaitingLaunch LaunchGate::waiting() {
  const CollectivePart& part = parts()[0];
  return {.launch = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(order())),
          .queue = part.queue,
          .place = part.place,
          .order = order(),
          .ready_nanoseconds = part.ready_nanoseconds.load(std::memory_order_acquire),
          .where = where_};
}

std::shared_ptr<const Error> LaunchGate::error_of(std::size_t, Errc, const std::string&) const {
  return std::make_shared<const Error>(
      Errc::rank_failed, operation, "communicator '" + communicator_->name + "'",
      "a communicator of the graph failed before the launch's turn came: its calls say why", where_);
}

void CommunicatorState::check_replay(SourceLocation where) {
  const std::string object = "communicator '" + name + "'";
  if (failure) {
    throw Error(failure->code, operation, object, "the communicator failed before: " + failure->text, where);
  }
  const auto refuse_beside = [&](const LocalCall& call) {
    std::string text = "a replay is a call of all its ranks, and some have yet to make one that others have made:";
    for (std::size_t i = 0; i < call.ranks().size(); ++i) {
      const auto& offer = call.offer(i);
      text += "\n  rank " + std::to_string(call.ranks()[i]) + ": " + (offer ? text_of(*offer) : "not called");
    }
    throw Error(Errc::collective_mismatch, operation, object, text, where);
  };
  if (!open.empty()) refuse_beside(*open.front());
  for (const auto& [pair, calls] : pairs) {
    if (!calls.empty()) refuse_beside(*calls.front());
  }
}

void CommunicatorState::check_replay_of(int rank, SourceLocation where) {
  const LockGuard guard(mutex);
  if (failure) refuse(rank, operation, where);
  if (!ranks[static_cast<std::size_t>(rank)].left) return;
  throw Error(Errc::invalid_handle, operation, describe(rank), "it was destroyed, and the graph calls it", where);
}

Device CommunicatorState::device_of(int rank) {
  const LockGuard guard(mutex);
  return ranks[static_cast<std::size_t>(rank)].device;
}

void CommunicatorState::begin_launch(SourceLocation where) {
  UniqueLock lock(mutex);
  while (launching) launch_over.wait(lock);
  check_replay(where);  // who is in a call has not made it yet: it is one of those
  launching = gated;
}

void CommunicatorState::end_launch() noexcept {
  if (!gated) return;
  const LockGuard guard(mutex);
  launching = false;
  launch_over.notify_all();
}

void CommunicatorState::run_in_lane(LocalCall& call, std::size_t lane) {
  if (gated) {
    if (call.order() == 0) call.set_order(next_order());
    if (last_launch.number != 0) {
      std::uint64_t& behind = lanes_behind[lane];
      if (behind != last_launch.number) {
        const CallReference gate(new BehindLaunch(shared_from_this(), last_launch));
        transport->run(*gate, lane);
        behind = last_launch.number;
      }
    }
  }
  transport->run(call, lane);
}

void CommunicatorState::hold_launch(StreamRef stream, std::uint64_t order, SourceLocation where) {
  std::vector<std::size_t> lanes{0};
  {
    const LockGuard guard(mutex);
    forget_what_is_over();
    for (const CallReference& call : complete) {
      if (call->number() != 0 || call->as_gate() != nullptr || !call->open()) continue;
      const std::size_t lane = lane_of_pair(call->ranks(), size_);
      if (std::find(lanes.begin(), lanes.end(), lane) == lanes.end()) lanes.push_back(lane);
    }
  }
  for (const std::size_t lane : lanes) hold_lane(lane, stream, order, where);
}

void CommunicatorState::hold_lane(std::size_t lane, StreamRef stream, std::uint64_t order, SourceLocation where) {
  auto* const gate = new LaunchGate(shared_from_this(), stream, where);
  const CallReference call(gate);
  call->set_order(order);
  UniqueLock lock(mutex);
  if (failure) check_replay(where);
  complete.push_back(call);
  lock.unlock();
  try {
    gate->enter();
  } catch (...) {
    lock.lock();
    std::erase_if(complete, [&](const CallReference& one) { return &*one == gate; });
    throw;
  }
  lock.lock();
  call->set_there(0, failure);
  watch_from_now(*this);
  if (!call->over()) run_in_lane(*call, lane);
}

void CommunicatorState::note_launch(StreamRef stream, SourceLocation where) noexcept {
  try {
    auto* const mark = new LaunchGate(shared_from_this(), stream, where);
    const CallReference call(mark);
    const CollectivePart& part = mark->parts()[0];
    transport->let_go(mark->parts()[0]);  // it holds up nobody
    mark->enter();
    const LockGuard guard(mutex);
    last_launch = {last_launch.number + 1, part.queue, part.place, part.reports_seen};
  } catch (...) {
    const LockGuard guard(mutex);
    try {
      fail(Errc::out_of_memory, "no memory left to let calls come behind the launch of a graph");
    } catch (...) {
      // Nor for the text.
    }
  }
}

std::vector<WaitingLaunch> CommunicatorState::waiting_launches() {
  if (auto* const launching_itself = dynamic_cast<LaunchingTransport*>(transport.get())) {
    return launching_itself->waiting_launches();
  }
  std::vector<WaitingLaunch> all;
  if (!gated) return all;
  for (const CallReference& call : complete) {
    if (call->as_gate() != nullptr && call->open() && call->is_complete()) {
      all.push_back(static_cast<LaunchGate&>(*call).waiting());
    }
  }
  return all;
}

LaunchAmongCalls::LaunchAmongCalls(const std::vector<std::shared_ptr<CommunicatorState>>& communicators,
                                   StreamRef stream, SourceLocation where)
    : communicators_(communicators), stream_(stream), where_(where) {
  try {
    for (const auto& one : communicators_) {
      one->begin_launch(where);
      ++begun_;
    }
    const std::uint64_t order = next_order();
    for (const auto& one : communicators_) {
      if (one->gated) one->hold_launch(stream, order, where);
    }
  } catch (...) {
    end();
    throw;
  }
}

LaunchAmongCalls::~LaunchAmongCalls() { end(); }

void LaunchAmongCalls::launched() noexcept {
  for (const auto& one : communicators_) {
    if (one->gated) one->note_launch(stream_, where_);
  }
}

void LaunchAmongCalls::end() noexcept {
  while (begun_ > 0) communicators_[--begun_]->end_launch();
}

}  // namespace weir::detail
