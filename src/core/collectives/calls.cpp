// The ranks' calls: matched, put into their streams, handed to the transport when the last one has come, or failed.
#include <algorithm>
#include <numeric>
#include <utility>

#include "core/collectives/captured_call.hpp"
#include "core/collectives/circle.hpp"
#include "core/collectives/communicator_state.hpp"
#include "core/observers.hpp"
#include "core/ranks/ranked_state.hpp"
#include "core/ranks/staged_operands.hpp"
#include "recycled.hpp"

namespace weir::detail {

namespace {

std::atomic<std::uint64_t> next_communicator{1};
constexpr std::chrono::hours longest_timeout{24 * 365};  // times of the clock can be added to it

/// Sends and receives of a pair have a lane of their own.
std::size_t lane_of(const CommunicatorState& communicator, int rank, const CollectiveRequest& request) {
  if (!is_pair(request.kind)) return 0;
  const std::vector<int> ends = ranks_of(request, rank, communicator.size());
  return lane_of_pair(ends, communicator.size());
}

std::size_t larger_bytes(const CollectiveRequest& request) {
  return std::max(request.in.count() * request.in.layout.element_bytes,
                  request.out.count() * request.out.layout.element_bytes);
}

/// Whether rank `from` sends as much to rank `to` as that one receives.
bool sent(const Offer& offer, int from, int to, const Offer& peer) {
  const std::size_t ranks = std::max({offer.send_counts.size(), peer.receive_counts.size(), std::size_t{1}});
  const auto part = [&](const std::vector<std::size_t>& counts, std::size_t all, int rank) {
    return counts.empty() ? all / ranks : counts[static_cast<std::size_t>(rank)];
  };
  return part(offer.send_counts, offer.request.in.count(), to) ==
         part(peer.receive_counts, peer.request.out.count(), from);
}

}  // namespace

std::vector<int> ranks_of(const CollectiveRequest& request, int rank, std::size_t size) {
  if (request.kind == CollectiveKind::send) return {rank, request.peer};
  if (request.kind == CollectiveKind::receive) return {request.peer, rank};
  std::vector<int> ranks(size);
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

std::size_t index_of(const CollectiveRequest& request, int rank) {
  if (request.kind == CollectiveKind::send) return 0;
  return request.kind == CollectiveKind::receive ? 1 : static_cast<std::size_t>(rank);
}

std::string difference(int rank, const Offer& mine, int other, const Offer& theirs) {
  const CollectiveRequest& a = mine.request;
  const CollectiveRequest& b = theirs.request;
  const std::string_view type = a.in.present() ? a.in.type : a.out.type;
  bool same = type == (b.in.present() ? b.in.type : b.out.type);
  if (is_pair(a.kind)) {
    same = same && count_of(a) == count_of(b);
  } else if (a.kind == CollectiveKind::all_to_all && b.kind == a.kind) {
    same = same && sent(mine, rank, other, theirs) && sent(theirs, other, rank, mine);
  } else {
    same = same && a.kind == b.kind && a.reduction == b.reduction && a.peer == b.peer && count_of(a) == count_of(b);
  }
  if (same) return {};
  return "rank " + std::to_string(rank) + " calls " + text_of(mine) + ", rank " + std::to_string(other) + " " +
         text_of(theirs) + (mine.send_counts.empty() ? "" : ": the counts between them differ");
}

CommunicatorState::CommunicatorState(const std::vector<Device>& devices, const CommunicatorOptions& options,
                                     SourceLocation where)
    : id(next_communicator.fetch_add(1, std::memory_order_relaxed)),
      name(options.name.empty() ? "communicator " + std::to_string(id) : options.name),
      timeout(std::min<std::chrono::nanoseconds>(options.timeout, longest_timeout)),
      calling(std::make_unique<Mutex[]>(devices.size())),
      size_(devices.size()) {
  Backend* const backend = devices.front().state()->backend;
  std::vector<int> indices;
  for (const Device device : devices) {
    if (device.state()->backend != backend) {
      throw Error(Errc::not_supported, "weir::communicators", "'" + name + "'",
                  devices.front().name() + " and " + device.name() + " have no transport in common", where);
    }
    indices.push_back(device.index());
    ranks.push_back({.device = device, .calls = 0, .last = {}, .left = false, .failed = false, .splits = 0});
  }
  try {
    transport = backend->open_transport(indices);
  } catch (const std::string& why) {
    throw Error(Errc::not_supported, "weir::communicators", "'" + name + "'", why, where);
  }
  if (!transport) {
    throw Error(Errc::not_supported, "weir::communicators", "'" + name + "'",
                "this build has no transport for devices of backend " + std::string(backend->name()) +
                    ": collectives run among CPU devices, GPUs, or simulated devices of one profile, of one process",
                where);
  }
  const auto* const by_gates = dynamic_cast<const GatedTransport*>(transport.get());
  gated = by_gates != nullptr && by_gates->launches_are_calls();
}

CommunicatorState::CommunicatorState(Device device, std::size_t size, const CommunicatorOptions& options,
                                     SourceLocation where)
    : id(next_communicator.fetch_add(1, std::memory_order_relaxed)),
      name(options.name.empty() ? "communicator " + std::to_string(id) : options.name),
      timeout(std::min<std::chrono::nanoseconds>(options.timeout, longest_timeout)),
      transport(device.state()->backend->open_rank_transport(device.index())),
      calling(std::make_unique<Mutex[]>(size)),
      size_(size) {
  if (!transport) {
    throw Error(Errc::not_supported, "weir::communicator", "'" + name + "'",
                "collectives of several processes run on CPU devices and GPUs, and this is " + device.name(), where);
  }
  ranks.resize(size, {.device = device, .calls = 0, .last = {}, .left = false, .failed = false, .splits = 0});
}

std::string CommunicatorState::describe(int rank) const {
  return "communicator '" + name + "', rank " + std::to_string(rank) + " of " + std::to_string(size_);
}

std::string CommunicatorState::table() const {
  if (ranked) return ranked->own_table(*this);
  std::string text;
  for (std::size_t r = 0; r < size_; ++r) {
    const Rank& rank = ranks[r];
    text += "\n  rank " + std::to_string(r) + " (" + rank.device.name() +
            "): " + (rank.last ? text_of(*rank.last) : std::string("has called nothing"));
    if (rank.left) text += "; its communicator is gone";
  }
  return text;
}

void CommunicatorState::refuse(int rank, const char* operation, SourceLocation where) {
  throw Error(failure->code, operation, describe(rank), "the communicator failed before: " + failure->text, where);
}

void CommunicatorState::note(Errc code, const std::string& what) {
  if (!failure) failure = Failure{code, what + table()};
  split_changed.notify_all();
}

void CommunicatorState::fail_by_who_left(int rank) {
  ranks[static_cast<std::size_t>(rank)].failed = true;
  fail(Errc::rank_failed, "the communicator of rank " + std::to_string(rank) + " was destroyed before it called this");
}

void CommunicatorState::fail(Errc code, const std::string& what) {
  note(code, what);
  if (ranked) return ranked->fail(*this, what);
  const std::string text = what + table();
  for_each_pending([&](LocalCall& call) { call.stop_with(code, text, call.ranks().size(), nullptr); });
  open.clear();
  complete.clear();
  pairs.clear();
  transport->abandon();
}

void CommunicatorState::forget_what_is_over() {
  while (!complete.empty() && complete.front()->over()) complete.pop_front();
}

/// The collective that this call of the rank is part of. The references outlive what a failed call takes back.
CallReference CommunicatorState::find_call(int rank, const Offer& offer, bool& fresh) {
  const CollectiveRequest& request = offer.request;
  if (is_pair(request.kind)) {
    Calls& waiting = pairs[lane_of(*this, rank, request)];
    const bool missed = !waiting.empty() && !waiting.front()->offer(index_of(request, rank));
    if (missed) return waiting.front();  // all of them miss the same half
    fresh = true;
    waiting.emplace_back(new LocalCall(shared_from_this(), 0, ranks_of(request, rank, size_)));
    return waiting.back();
  }
  Rank& mine = ranks[static_cast<std::size_t>(rank)];
  const std::uint64_t number = mine.calls + 1;
  if (!open.empty() && number - open.front()->number() < open.size()) {
    return open[static_cast<std::size_t>(number - open.front()->number())];
  }
  fresh = true;
  open.emplace_back(new LocalCall(shared_from_this(), number, ranks_of(request, rank, size_)));
  return open.back();
}

bool CommunicatorState::has_called(int other, int rank, const CollectiveRequest& request) const {
  if (!is_pair(request.kind)) {
    return ranks[static_cast<std::size_t>(other)].calls > ranks[static_cast<std::size_t>(rank)].calls;
  }
  if (ranked) return ranked->has_called(other, request.kind);
  const auto waiting = pairs.find(lane_of(*this, rank, request));
  return waiting != pairs.end() && !waiting->second.empty() && !waiting->second.front()->offer(index_of(request, rank));
}

void CommunicatorState::check_match(int rank, const Offer& offer, const LocalCall& call) {
  for (std::size_t i = 0; i < call.ranks().size(); ++i) {
    if (!call.offer(i)) continue;
    const std::string why = difference(rank, offer, call.ranks()[i], *call.offer(i));
    if (why.empty()) continue;
    ranks[static_cast<std::size_t>(rank)].last = Called(offer);
    fail(Errc::collective_mismatch, why);
    throw Error(Errc::collective_mismatch, operation_of(offer.request.kind), describe(rank), failure->text,
                offer.where);
  }
}

bool CommunicatorState::admit(int rank, const Offer& offer, bool grouped, Region regions[2], std::size_t& uses) {
  const CollectiveRequest& request = offer.request;
  const char* operation = operation_of(request.kind);
  const StreamState& state = state_of(offer.stream, operation, offer.where);
  const Rank& mine = ranks[static_cast<std::size_t>(rank)];
  if (failure) refuse(rank, operation, offer.where);
  if (state.device != mine.device.state()) {
    throw Error(
        Errc::wrong_device, operation, describe(rank),
        "the rank is device " + mine.device.name() + ", and stream '" + state.name + "' is of " + state.device->name,
        offer.where);
  }
  uses = check_offer(*this, rank, offer, grouped, regions);
  for (std::size_t r = 0; r < size_; ++r) {
    const bool needed = !is_pair(request.kind) || static_cast<int>(r) == request.peer;
    if (!ranks[r].left || !needed || has_called(static_cast<int>(r), rank, request)) continue;
    fail_by_who_left(static_cast<int>(r));
    refuse(rank, operation, offer.where);
  }
  if (state.recorder.load(std::memory_order_acquire) == nullptr) return true;
  if (ranked) {
    capture_rank(rank, offer, {regions, uses});
    return false;
  }
  if (!transport->traits().captured) {
    throw Error(Errc::capture_unsupported, operation, describe(rank),
                "collectives by " + std::string(transport->name()) +
                    " are not captured: call it between the launches of two graphs",
                offer.where);
  }
  call_captured(rank, offer);
  return false;
}

void CommunicatorState::take_back(const CallReference& call, std::size_t index, const CollectiveRequest& request,
                                  int rank) {
  call->offer(index).reset();
  Calls& from = is_pair(request.kind) ? pairs[lane_of(*this, rank, request)] : open;
  const auto offered = [&] {
    for (std::size_t i = 0; i < call->ranks().size(); ++i) {
      if (call->offer(i)) return true;
    }
    return false;
  };
  // Others may have called it meanwhile, or what is behind it.
  if (!from.empty() && &*from.back() == &*call && !offered()) from.pop_back();
}

const CollectivePart* CommunicatorState::call(int rank, const Offer& offer, const CollectivePart* leader,
                                              CallReference* made, StagedOperands* staged) {
  const CollectiveRequest& request = offer.request;
  const char* operation = operation_of(request.kind);
  const LockGuard one_by_one(calling[static_cast<std::size_t>(rank)]);
  Region regions[2];
  std::size_t uses = 0;
  UniqueLock lock(mutex);
  while (launching) launch_over.wait(lock);
  if (!admit(rank, offer, made != nullptr, regions, uses)) return nullptr;
  if (ranked) {
    lock.unlock();
    return call_ranked(rank, offer, {regions, uses}, leader, made, staged);
  }
  for (const auto& one : captured) {
    const auto mine_of = std::find(one->ranks.begin(), one->ranks.end(), rank) - one->ranks.begin();
    if (mine_of == static_cast<std::ptrdiff_t>(one->ranks.size()) || one->offers[static_cast<std::size_t>(mine_of)])
      continue;
    if (!is_captured_still(*one)) continue;
    throw Error(Errc::capture_isolation, operation, describe(rank), "another rank of this process captures it",
                offer.where);
  }
  forget_what_is_over();
  bool fresh = false;
  CallReference call = find_call(rank, offer, fresh);
  check_match(rank, offer, *call);
  const std::size_t index = index_of(request, rank);
  CollectivePart& part = call->parts()[index];
  if (leader != nullptr) {
    part.placed = true;
    part.leader = leader;
    part.place = leader->place;
    part.reports_seen = leader->reports_seen;
  }
  Command command = command_of(rank, offer, call->number(), part, {regions, uses});
  call->offer(index) = offer;
  lock.unlock();
  try {
    submit(offer.stream, command, operation);
  } catch (...) {
    lock.lock();
    take_back(call, index, request, rank);
    throw;
  }
  lock.lock();
  call->set_there(index, failure);
  Rank& mine = ranks[static_cast<std::size_t>(rank)];
  if (!is_pair(request.kind)) ++mine.calls;
  mine.last = Called(offer);
  if (made != nullptr) *made = call;
  if (fresh) watch_from_now(*this);
  if (call->over() || !call->is_complete()) return &part;
  Calls& from = is_pair(request.kind) ? pairs[lane_of(*this, rank, request)] : open;
  from.erase(std::find_if(from.begin(), from.end(), [&](const CallReference& one) { return &*one == &*call; }));
  complete.push_back(call);
  call->prepare();
  if (watched(commands_watched)) call->tell_order();
  run_in_lane(*call, lane_of(*this, rank, request));
  return &part;
}

Command CommunicatorState::command_of(int rank, const Offer& offer, std::uint64_t number, CollectivePart& part,
                                      std::span<const Region> uses) const {
  const CollectiveRequest& request = offer.request;
  Command command;
  command.where = offer.where;
  command.uses = uses;
  command.op = Collective{.part = &part,
                          .call = name_of(request.kind),
                          .communicator = ranked ? ranked->shared_id() : id,
                          .number = number,
                          .rank = rank,
                          .size = static_cast<int>(size_),
                          .peer = request.peer,
                          .bytes = larger_bytes(request),
                          .communicator_name = name.c_str(),
                          .unit = offer.unit,
                          .across_processes = ranked != nullptr};
  return command;
}

/// The other ranks' calls are made in their processes: this one's is all there is here.
const CollectivePart* CommunicatorState::call_ranked(int rank, const Offer& offer, std::span<const Region> uses,
                                                     const CollectivePart* leader, CallReference* made,
                                                     StagedOperands* staged) {
  const CollectiveRequest& request = offer.request;
  StagedOperands own;
  if (staged == nullptr) own = stage(rank, offer);
  auto* const first = leader == nullptr ? nullptr : dynamic_cast<RankedCall*>(leader->call);
  // A rank's send to itself and its receive do not follow each other.
  const bool own_receive = request.kind == CollectiveKind::receive && request.peer == rank;
  const std::size_t lane = lane_of(*this, rank, request) + (own_receive ? size_ * size_ : 0);
  const RankedCall::Way way = ranked->engine()->way_of(offer);
  std::shared_ptr<PieceRoom> room;
  if ((way == RankedCall::Way::cut || way == RankedCall::Way::direct) && !transport->traits().reaches_memory) {
    transport->start(offer.where);
    if (way == RankedCall::Way::cut) room = ranked->engine()->room_for(offer, lane);
  }
  UniqueLock lock(mutex);
  Rank& mine = ranks[static_cast<std::size_t>(rank)];
  forget_what_is_over();
  CallReference call(new RankedCall(shared_from_this(), is_pair(request.kind) ? 0 : mine.calls + 1, rank,
                                    first != nullptr ? first->arrival : make_recycled<RankArrival>(),
                                    ranked->engine()));
  static_cast<RankedCall&>(*call).room = std::move(room);
  CollectivePart& part = call->parts()[0];
  if (first != nullptr) {
    part.placed = true;
    part.leader = leader;
    part.place = leader->place;
    part.reports_seen = leader->reports_seen;
  }
  (staged != nullptr ? *staged : own).put(offer, call->offer(0));
  static_cast<RankedCall&>(*call).set_way(way, lane, ranked->history());
  Command command = command_of(rank, offer, call->number(), part, uses);
  complete.push_back(call);
  lock.unlock();
  try {
    submit(offer.stream, command, operation_of(request.kind));
  } catch (...) {
    lock.lock();
    complete.pop_back();
    throw;
  }
  lock.lock();
  call->set_there(0, failure);
  if (!is_pair(request.kind)) ++mine.calls;
  mine.last = Called(offer);
  if (made != nullptr) *made = call;
  ranked->add(call, lane);
  watch_from_now(*this);
  lock.unlock();
  if (staged == nullptr) take_out(own);
  return &part;
}

StagedOperands CommunicatorState::stage(int rank, const Offer& offer) const {
  if (ranked == nullptr || transport->traits().reaches_memory || ranked->moves(offer.request)) return {};
  const RankedCall::Way way = ranked->engine()->way_of(offer);
  if (way == RankedCall::Way::launched) return {};
  const bool whole = way == RankedCall::Way::host;
  return {offer, rank, whole ? StagedOperands::To::pinned : StagedOperands::To::dense};
}

void CommunicatorState::take_out(StagedOperands& staged) {
  try {
    staged.take_out();
  } catch (const std::exception& error) {
    const LockGuard guard(mutex);
    fail(Errc::rank_failed, std::string("what a collective gave could not be copied to its array: ") + error.what());
    throw;
  }
}

void CommunicatorState::leave(int rank) noexcept {
  try {
    if (ranked) {
      {
        const LockGuard guard(mutex);
        if (std::exchange(ranks[static_cast<std::size_t>(rank)].left, true)) return;
        forget_what_is_over();
        ranked->leave(*this);
      }
      ranked->flush();
      return;
    }
    const LockGuard guard(mutex);
    Rank& mine = ranks[static_cast<std::size_t>(rank)];
    mine.left = true;
    bool missing = false;
    for (const CallReference& call : open) missing = missing || !call->offer(call->index_of(rank));
    for (const auto& [pair, calls] : pairs) {
      for (const CallReference& call : calls) {
        const std::size_t half = call->ranks().front() == rank ? 0 : 1;
        missing = missing || (call->ranks()[half] == rank && !call->offer(half));
      }
    }
    missing = missing || mine.splits < splits.size();
    if (missing && !failure) fail_by_who_left(rank);
    // The transport has what is complete; the rest would keep the communicator alive.
    if (std::all_of(ranks.begin(), ranks.end(), [](const Rank& one) { return one.left; })) {
      complete.clear();
      open.clear();
      pairs.clear();
      captured.clear();
    }
  } catch (...) {
    // There is no memory to say so: who waits for this rank hears of it when the time is over.
  }
}

}  // namespace weir::detail
