// Groups: calls that are one unit enter their streams together, so that none of them waits for another.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/collectives/operand_span.hpp"
#include "core/collectives/unit.hpp"

namespace weir {

using namespace detail;

namespace {

std::atomic<std::uint64_t> last_unit{0};
constexpr std::size_t kept_calls = 1024;

struct OpenGroups {
  int depth = 0;
  bool broken = false;
  std::vector<UnitCall> calls;
};
thread_local OpenGroups open_groups;

bool is_captured_by(StreamRef stream) { return stream.state()->recorder.load(std::memory_order_acquire) != nullptr; }

/// Memory that calls give, as spans that are apart, in order.
class Given {
 public:
  bool meets(const OperandSpan& span) const {
    const auto first = first_behind(span.begin);
    return first != spans_.end() && first->meets(span);
  }
  void add(OperandSpan span) {
    if (span.begin == span.end) return;
    const auto first = first_behind(span.begin);
    auto last = first;
    for (; last != spans_.end() && last->begin < span.end; ++last) {
      span = {std::min(span.begin, last->begin), std::max(span.end, last->end)};
    }
    spans_.insert(spans_.erase(first, last), span);
  }

 private:
  std::vector<OperandSpan>::const_iterator first_behind(const std::byte* place) const {
    return std::upper_bound(spans_.begin(), spans_.end(), place,
                            [](const std::byte* at, const OperandSpan& one) { return at < one.end; });
  }
  std::vector<OperandSpan> spans_;
};

/// What the calls of a unit give where they do so behind the unit, or by other ways than those of its other calls: of ranks that are
/// processes, and whose memory the host does not reach.
class GivenByUnit {
 public:
  /// False: it has what another one before it in the communicator's order gives, and comes behind that.
  bool add(const UnitCall& call) {
    const CommunicatorState& communicator = *call.communicator;
    const CollectiveRequest& request = call.offer.request;
    if (!communicator.ranked || communicator.transport->traits().reaches_memory || is_pair(request.kind)) return true;
    Given& given = by_communicator_[&communicator];
    const OperandSpan out = span_of(request.out);
    if (given.meets(span_of(request.in)) || given.meets(out)) return false;
    given.add(out);
    return true;
  }

 private:
  std::map<const CommunicatorState*, Given> by_communicator_;
};

/// While a unit's calls are made: their transports may do them together.
class Gathering {
 public:
  explicit Gathering(std::span<const UnitCall> calls) {
    transports_.reserve(calls.size());  // nothing fails once one gathers
    for (const UnitCall& call : calls) {
      CollectiveTransport* const one = call.communicator->transport.get();
      if (std::find(transports_.begin(), transports_.end(), one) != transports_.end()) continue;
      transports_.push_back(one);
      one->gather();
    }
  }
  ~Gathering() {
    for (CollectiveTransport* one : transports_) one->give_out();
  }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  std::vector<CollectiveTransport*> transports_;  ///< the calls keep them
};

/// Of those calls that were made.
void take_out(std::span<UnitCall> calls, std::size_t made) {
  for (std::size_t i = 0; i < made; ++i) {
    if (!calls[i].staged) continue;
    calls[i].communicator->take_out(*calls[i].staged);
  }
}

void call_together(std::span<UnitCall> calls) {
  const std::uint64_t unit = ++last_unit;
  // The first part in each stream, kept until all have its place.
  std::vector<std::pair<StreamRef, std::pair<CallReference, const CollectivePart*>>> leaders;
  for (UnitCall& call : calls) {
    if (!call.communicator->ranked || is_captured_by(call.offer.stream)) continue;
    call.staged = std::make_unique<StagedOperands>(call.communicator->stage(call.rank, call.offer));
  }
  std::size_t made_calls = 0;
  try {
    const Gathering gathering(calls);
    for (UnitCall& call : calls) {
      call.offer.unit = unit;
      const CollectivePart* leader = nullptr;
      for (const auto& [stream, part] : leaders) {
        if (stream == call.offer.stream) leader = part.second;
      }
      CallReference made;
      const CollectivePart* part = call.communicator->call(call.rank, call.offer, leader, &made, call.staged.get());
      ++made_calls;
      if (leader == nullptr) leaders.push_back({call.offer.stream, {std::move(made), part}});
    }
  } catch (...) {
    take_out(calls, made_calls);
    throw;
  }
  take_out(calls, made_calls);
}

}  // namespace

namespace detail {

bool add_to_group(const std::shared_ptr<CommunicatorState>& communicator, int rank, const Offer& offer) {
  OpenGroups& groups = open_groups;
  if (groups.depth == 0) return false;
  try {
    static_cast<void>(state_of(offer.stream, operation_of(offer.request.kind), offer.where));
    if (communicator->ranked == nullptr && is_captured_by(offer.stream)) {
      throw Error(Errc::capture_unsupported, operation_of(offer.request.kind), communicator->describe(rank),
                  "a group of ranks of one process is one unit at run time: in a capture their calls depend on what "
                  "they come behind alone",
                  offer.where);
    }
    Region regions[2];
    check_offer(*communicator, rank, offer, true, regions);
    groups.calls.push_back({.communicator = communicator, .rank = rank, .offer = offer});
  } catch (...) {
    groups.broken = true;
    throw;
  }
  return true;
}

void call_unit(std::span<UnitCall> calls) {
  while (!calls.empty()) {
    GivenByUnit given;
    const auto end = std::find_if(calls.begin(), calls.end(), [&](const UnitCall& call) { return !given.add(call); });
    const auto count = static_cast<std::size_t>(end - calls.begin());
    call_together(calls.first(count));
    calls = calls.subspan(count);
  }
}

}  // namespace detail

CollectiveGroup::CollectiveGroup(SourceLocation where) : exceptions_(std::uncaught_exceptions()) {
  enter("weir::CollectiveGroup", where);
  ++open_groups.depth;
}

CollectiveGroup::~CollectiveGroup() {
  if (!open_) return;
  if (std::uncaught_exceptions() > exceptions_) open_groups.broken = true;
  try {
    end();
  } catch (...) {
    // The communicators have failed, and say so to the next call and to the streams.
  }
}

void CollectiveGroup::end() {
  if (!std::exchange(open_, false)) return;
  OpenGroups& groups = open_groups;
  if (--groups.depth > 0) return;  // part of the outer one
  std::vector<UnitCall> calls = std::exchange(groups.calls, {});
  if (std::exchange(groups.broken, false)) return;
  call_unit(calls);
  // The next group has their place: what is so large is not got from the system each time.
  calls.clear();
  if (groups.calls.empty() && calls.capacity() <= kept_calls) groups.calls.swap(calls);
}

}  // namespace weir
