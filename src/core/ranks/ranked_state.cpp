// A communicator whose other ranks are other processes.
#include "core/ranks/ranked_state.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <thread>
#include <utility>

#include "core/ranks/opening.hpp"

namespace weir::detail {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kept_calls = 64;
constexpr std::chrono::milliseconds patience_before_asking{100};
/// Dead and silent processes are noticed before.
constexpr std::chrono::seconds longest_opening{120};
constexpr std::chrono::seconds patience_with_verdicts{2};  ///< from a report on; then this rank decides alone

/// Those of this process. Never destroyed.
struct Living {
  Mutex mutex;
  std::vector<std::weak_ptr<RankedState>> all WEIR_GUARDED_BY(mutex);
};
Living& living() {
  static auto& one = *new Living;
  return one;
}

/// A job's communicators are far apart, whatever its number.
std::uint64_t shared_id_of(std::uint64_t job, std::uint32_t context) {
  constexpr std::uint64_t golden = 0x9e3779b97f4a7c15;
  return std::max<std::uint64_t>((job + context * golden) >> 12, 1);
}

}  // namespace

RankedState::RankedState(const std::shared_ptr<CommunicatorState>& communicator, RankEngine::Place place,
                         std::shared_ptr<SharedLink> link, std::shared_ptr<Control> control)
    : communicator_(communicator),
      place_(std::move(place)),
      link_(std::move(link)),
      control_(std::move(control)),
      shared_id_(shared_id_of(control_->job(), place_.context)),
      own_pairs_(place_.members.size()),
      their_pairs_(place_.members.size()) {
  for (std::size_t r = 0; r < own_pairs_.size(); ++r) own_pairs_[r].rank = static_cast<int>(r);
}

void RankedState::start() {
  engine_ = std::make_shared<RankEngine>(link_, place_, weak_from_this());
  RankProgress::instance().add(engine_);
  control_->attach(place_.context, weak_from_this());
  const LockGuard guard(living().mutex);
  std::erase_if(living().all, [](const auto& one) { return one.expired(); });
  living().all.push_back(weak_from_this());
}

void RankedState::leave_all() {
  std::vector<std::weak_ptr<RankedState>> all;
  {
    const LockGuard guard(living().mutex);
    all = living().all;
  }
  for (const auto& weak : all) {
    const auto one = weak.lock();
    const auto communicator = one ? one->communicator_.lock() : nullptr;
    if (communicator) communicator->leave(one->place_.rank);
  }
}

int RankedState::rank_here(int rank_of_job) const {
  const auto found = std::find(place_.members.begin(), place_.members.end(), rank_of_job);
  return found == place_.members.end() ? -1 : static_cast<int>(found - place_.members.begin());
}

void RankedState::keep(Past past) {
  if (past_.size() < kept_calls) {
    past_.push_back(std::move(past));
  } else {
    past_[past_calls_ % kept_calls] = std::move(past);
  }
  ++past_calls_;
}

void RankedState::add(const CallReference& call, std::size_t lane) {
  const Offer& offer = *call->offer(0);
  const auto& mine = static_cast<RankedCall&>(*call);
  keep({call->number(), mine.fingerprint(), Called(offer), mine.arrival, mine.launch() != nullptr});
  if (is_pair(offer.request.kind)) {
    PairCounts& pairs = own_pairs_[static_cast<std::size_t>(offer.request.peer)];
    ++(offer.request.kind == CollectiveKind::send ? pairs.sends : pairs.receives);
  } else {
    history_ = history_with(history_, mine.fingerprint());
  }
  engine_->add(call, lane);
}

std::string RankedState::last_of(const CommunicatorState::Rank& rank) const {
  return rank.device.name() + "): " + (rank.last ? text_of(*rank.last) : std::string("has called nothing"));
}

std::string RankedState::host_of(int rank) const {
  return control_->peers()[static_cast<std::size_t>(rank_of_job(rank))].host;
}

std::string RankedState::own_table(const CommunicatorState& communicator) const {
  std::string text;
  for (int r = 0; r < static_cast<int>(place_.members.size()); ++r) {
    const CommunicatorState::Rank& rank = communicator.ranks[static_cast<std::size_t>(r)];
    text += "\n  rank " + std::to_string(r) + " (" + host_of(r);
    if (r == place_.rank) {
      text += ", " + last_of(rank);
    } else {
      text += rank.left ? "): its communicator is gone" : rank.failed ? "): has failed" : "): was not asked";
    }
  }
  return text;
}

void RankedState::leave(CommunicatorState& communicator) {
  const CommunicatorState::Rank& mine = communicator.ranks[static_cast<std::size_t>(place_.rank)];
  std::vector<PairCounts> pairs;
  std::copy_if(own_pairs_.begin(), own_pairs_.end(), std::back_inserter(pairs),
               [](const PairCounts& one) { return one.sends + one.receives != 0; });
  control_->leave(place_.context, mine.calls, pairs, last_of(mine));
}

bool RankedState::has_called(int rank, CollectiveKind kind) const {
  const PairCounts& own = own_pairs_[static_cast<std::size_t>(rank)];
  const PairCounts& theirs = their_pairs_[static_cast<std::size_t>(rank)];
  return kind == CollectiveKind::send ? theirs.receives > own.sends : theirs.sends > own.receives;
}

bool RankedState::waits_in_vain(const CommunicatorState& communicator, int rank) const {
  const PairCounts& own = own_pairs_[static_cast<std::size_t>(rank)];
  const PairCounts& theirs = their_pairs_[static_cast<std::size_t>(rank)];
  return std::any_of(communicator.complete.begin(), communicator.complete.end(), [&](const CallReference& call) {
    const CollectiveRequest& request = call->offer(0)->request;
    if (!call->open() || request.peer != rank) return false;
    return (request.kind == CollectiveKind::send && own.sends > theirs.receives) ||
           (request.kind == CollectiveKind::receive && own.receives > theirs.sends);
  });
}

void RankedState::fail(CommunicatorState& communicator, const std::string& what) {
  provisional_ = control_->decides();
  engine_->stop(communicator.failure->code, communicator.failure->text, nullptr, nullptr);
  control_->report(place_.context, Inquiry::aborted, 0, -1, what);
}

void RankedState::propose(CommunicatorState& communicator, Errc code, const std::string& what) {
  if (communicator.failure) return;
  if (!proposal_) proposal_ = Proposal{code, what, Clock::now() + patience_with_verdicts};
  if (!control_->decides()) decide_alone(communicator);
}

void RankedState::decide_alone(CommunicatorState& communicator) {
  communicator.note(proposal_->code, proposal_->what);
  engine_->stop(communicator.failure->code, communicator.failure->text, own_call_, own_failure_);
}

std::string RankedState::why_not_on() const {
  if (!link_->link->outlives_ranks()) {
    return "ranks that send by " + std::string(link_->link->name()) + " cannot go on without those that failed";
  }
  return is_out_ ? std::string() : why_undecided();
}

std::string RankedState::why_undecided() const {
  return control_->decides() ? std::string() : "rank 0's process is gone, which would say who goes on";
}

void RankedState::split(std::uint64_t number, int color, int key) {
  control_->split(place_.context, number, color, key);
}

/// Kernels that meet have the same calls behind them; where they do not, one of those since the last that did may be why.
std::uint64_t RankedState::call_before(const RankedCall& call) const {
  if (call.launch() == nullptr || call.asked == 0) return 0;
  const std::uint64_t from = call.earlier != 0 ? call.earlier : call.number();
  for (std::size_t i = past_.size(); i-- > 0;) {
    const Past& before = past(i);
    if (before.number != 0 && before.number < from) return before.launched ? 0 : before.number;
  }
  return 0;
}

/// Asks the others about a call that waits. False: nobody answers, and it has waited too long.
bool RankedState::ask(RankedCall& call, Clock::time_point now, std::chrono::nanoseconds timeout) {
  const Clock::time_point ready{std::chrono::nanoseconds(call.arrival->nanoseconds.load(std::memory_order_acquire))};
  if (call.reported_nanoseconds != 0) {
    return now < Clock::time_point(std::chrono::nanoseconds(call.reported_nanoseconds)) + patience_with_verdicts;
  }
  if (now >= ready + timeout) {
    if (!control_->decides()) return false;
    call.reported_nanoseconds = now.time_since_epoch() / std::chrono::nanoseconds(1);
    // Half of a pair waits for one rank alone.
    const CollectiveRequest& request = call.offer(0)->request;
    control_->report(place_.context, Inquiry::late, call.number(),
                     is_pair(request.kind) ? rank_of_job(request.peer) : -1,
                     "nobody came within " + seconds_of(timeout) + " s of ");
  } else if (call.number() != 0 && now >= ready + patience_before_asking * (1 << (3 * std::min(call.asked, 4)))) {
    ++call.asked;
    call.earlier = 0;
    control_->report(place_.context, Inquiry::stuck, call.number(), -1, {});
  } else if (const std::uint64_t before = call_before(call)) {
    call.earlier = before;
    control_->report(place_.context, Inquiry::stuck, before, -1, {});
  }
  return true;
}

Clock::time_point RankedState::look(CommunicatorState& communicator, Clock::time_point now) {
  if (proposal_ && (now >= proposal_->until || !control_->decides())) {
    decide_alone(communicator);
    return Clock::time_point::max();
  }
  bool pending = false;
  for (const CallReference& one : communicator.complete) {
    if (!one->open()) continue;
    pending = true;
    auto& call = static_cast<RankedCall&>(*one);
    if (call.arrival->nanoseconds.load(std::memory_order_acquire) == 0) continue;
    if (ask(call, now, communicator.timeout)) continue;
    const std::string what = "nobody came within " + seconds_of(communicator.timeout) +
                             " s, and the process that would say who is missing, rank 0's, is gone";
    communicator.note(Errc::collective_timeout, what);
    engine_->stop(Errc::collective_timeout, communicator.failure->text, nullptr, nullptr);
    break;
  }
  return pending ? now + std::min<std::chrono::nanoseconds>(communicator.timeout, patience_with_pending)
                 : Clock::time_point::max();
}

void RankedState::stream_failed(LocalCall& call, const std::shared_ptr<const Error>& failure) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  const std::string why = failure ? failure->what() : "there is no memory for the collective";
  const std::string what = communicator->describe(place_.rank) + " failed before it came to this: " + why;
  const LockGuard guard(communicator->mutex);
  if (communicator->failure) {
    engine_->stop(communicator->failure->code, communicator->failure->text, failure ? &call : nullptr, failure);
  } else {
    communicator->ranks[static_cast<std::size_t>(place_.rank)].failed = true;
    own_call_ = failure ? &call : nullptr;
    own_failure_ = failure;
    propose(*communicator, Errc::rank_failed, what);
  }
  control_->report(place_.context, Inquiry::stream_failed, call.number(),
                   place_.members[static_cast<std::size_t>(place_.rank)], what);
}

void RankedState::went_wrong(LocalCall& call, bool different, int culprit, const RankOperation::Met& met) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  const std::string who = "rank " + std::to_string(culprit);
  std::string what = who + " is gone: its connection for data was closed";
  std::uint64_t asked = call.number();
  if (different) {
    what = "rank " + std::to_string(place_.rank) + " calls " + text_of(*call.offer(0)) + ", and ";
    if (met.read && met.number != call.number()) {
      // The others are asked for the earlier one: whoever made it called something else then.
      what += who + " sent what is of collective " + std::to_string(met.number) + " where this is " +
              std::to_string(call.number());
      asked = std::min(asked, met.number);
    } else if (met.read && met.bytes != met.due) {
      what +=
          who + " sent " + std::to_string(met.bytes) + " bytes for it, where " + std::to_string(met.due) + " are due";
    } else {
      what += who + " something else";
    }
  }
  const LockGuard guard(communicator->mutex);
  propose(*communicator, different ? Errc::collective_mismatch : Errc::rank_failed, what);
  control_->report(place_.context, different ? Inquiry::mismatch : Inquiry::died, asked, rank_of_job(culprit), what,
                   asked == 0 ? met.fingerprint : 0);
}

void RankedState::not_moved(LocalCall& call, const std::string& why) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  const LockGuard guard(communicator->mutex);
  if (communicator->failure) return;
  communicator->ranks[static_cast<std::size_t>(place_.rank)].failed = true;
  communicator->fail(Errc::rank_failed,
                     "rank " + std::to_string(place_.rank) + " could not do " + text_of(*call.offer(0)) + ": " + why);
}

bool RankedState::has_mover() const {
  std::set<std::string_view> devices;
  std::set<std::string_view> kinds;
  for (const int rank : place_.members) {
    const std::string_view mover = control_->peers()[static_cast<std::size_t>(rank)].mover;
    const std::size_t end = mover.rfind(' ');
    if (end == std::string_view::npos) return false;
    kinds.insert(mover.substr(0, end));
    devices.insert(mover.substr(end));
  }
  return kinds.size() == 1 && devices.size() == place_.members.size() && devices.size() > 1;
}

void RankedState::open_mover() {
  const auto communicator = communicator_.lock();
  if (!communicator || !has_mover()) return;
  const Device device = [&] {
    const LockGuard guard(communicator->mutex);
    return communicator->ranks[static_cast<std::size_t>(place_.rank)].device;
  }();
  std::shared_ptr<RankMover> mover = device.state()->backend->open_rank_mover(device.index());
  const auto until = Clock::now() + longest_opening;
  const auto go_on = [&] {
    const LockGuard guard(communicator->mutex);
    return !communicator->failure && Clock::now() < until;
  };
  switch (open_with_all(*mover, *link_, place_, go_on)) {
    case Opening::open: return engine_->set_mover(std::move(mover));
    case Opening::closed: return;
    case Opening::given_up: break;
  }
  const LockGuard guard(communicator->mutex);
  if (communicator->failure) return;
  communicator->fail(Errc::rank_failed, "rank " + std::to_string(place_.rank) + " could not open " +
                                            std::string(mover->name()) + " with the other ranks within " +
                                            seconds_of(longest_opening) + " s");
}

RankListener::Answer RankedState::answer(std::uint64_t call, std::uint64_t fingerprint) {
  Answer answer;
  const auto communicator = communicator_.lock();
  if (!communicator) return answer;
  const LockGuard guard(communicator->mutex);
  const CommunicatorState::Rank& mine = communicator->ranks[static_cast<std::size_t>(place_.rank)];
  answer.calls = mine.calls;
  answer.last = last_of(mine);
  for (std::size_t i = 0; i < past_.size(); ++i) {
    const Past& past = this->past(i);
    if (past.number != call || (call == 0 && (fingerprint == 0 || past.fingerprint != fingerprint))) continue;
    answer.call = text_of(past.called);
    if (call == 0) continue;  // one of those that are alike; the last one
    answer.fingerprint = past.fingerprint;
    answer.state = past.arrival->nanoseconds.load() != 0 ? CallState::ready : CallState::not_ready;
  }
  if (call != 0 && call <= mine.calls && answer.fingerprint == 0) answer.state = CallState::over;
  return answer;
}

void RankedState::verdict(Errc code, const std::vector<int>& failed, const std::string& what) {
  const auto communicator = communicator_.lock();
  if (!communicator) return;
  const LockGuard guard(communicator->mutex);
  if (communicator->failure && !provisional_) return;
  provisional_ = false;
  communicator->failure = CommunicatorState::Failure{code, what};
  for (const int rank : failed) {
    const int here = rank_here(rank);
    if (here >= 0) communicator->ranks[static_cast<std::size_t>(here)].failed = true;
    is_out_ = is_out_ || here == place_.rank;
  }
  engine_->stop(code, what, own_call_, own_failure_);
  communicator->split_changed.notify_all();
}

void RankedState::left(int rank, std::uint64_t calls, const std::vector<PairCounts>& pairs) {
  const auto communicator = communicator_.lock();
  const int here = rank_here(rank);
  if (!communicator || here < 0 || here == place_.rank) return;
  const LockGuard guard(communicator->mutex);
  CommunicatorState::Rank& theirs = communicator->ranks[static_cast<std::size_t>(here)];
  theirs.left = true;
  theirs.calls = calls;
  for (const PairCounts& one : pairs) {
    if (one.rank == place_.rank) their_pairs_[static_cast<std::size_t>(here)] = one;
  }
  const std::uint64_t own = communicator->ranks[static_cast<std::size_t>(place_.rank)].calls;
  if (communicator->failure || (own <= calls && !waits_in_vain(*communicator, here))) return;
  const std::string what = "the communicator of rank " + std::to_string(here) + " was destroyed before it called this";
  propose(*communicator, Errc::rank_failed, what);
  control_->report(place_.context, Inquiry::left, 0, rank, what);
}

void RankedState::dead(int rank, const std::string& why) {
  const int here = rank_here(rank);
  std::string what;
  {
    const auto communicator = communicator_.lock();
    if (!communicator) return;
    const LockGuard guard(communicator->mutex);
    communicator->split_changed.notify_all();  // nobody answers who splits it, whoever its ranks are
    if (here < 0) return;
    if (communicator->ranks[static_cast<std::size_t>(here)].left) return;
    communicator->ranks[static_cast<std::size_t>(here)].failed = true;
    what = "rank " + std::to_string(here) + " is gone: " + why + own_table(*communicator);
  }
  verdict(Errc::rank_failed, {rank}, what);
}

void RankedState::split(std::uint64_t number, const std::vector<Choice>& choices) {
  const auto communicator = communicator_.lock();
  if (!communicator || choices.size() != place_.members.size()) return;
  std::shared_ptr<CommunicatorState::Split> split;
  std::vector<Device> devices;
  {
    const LockGuard guard(communicator->mutex);
    if (number == split_of_survivors) {
      split = communicator->survivors_split;
    } else if (number < communicator->splits.size()) {
      split = communicator->splits[static_cast<std::size_t>(number)];
    }
    if (!split) return;
    split->decided = true;
    devices.push_back(communicator->ranks[static_cast<std::size_t>(place_.rank)].device);
  }
  const Choice& mine = choices[static_cast<std::size_t>(place_.rank)];
  if (number == split_of_survivors && mine.color != 0) {
    const LockGuard guard(communicator->mutex);
    split->results.resize(choices.size());  // without a communicator: it is one that failed
    return communicator->split_changed.notify_all();
  }
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < choices.size(); ++r) {
    if (choices[r].color == mine.color) order.push_back(r);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return choices[a].key < choices[b].key; });
  RankEngine::Place place{
      .members = {}, .rank = 0, .context = static_cast<std::uint32_t>(mine.context), .compare = place_.compare};
  for (const std::size_t r : order) {
    if (static_cast<int>(r) == place_.rank) place.rank = static_cast<int>(place.members.size());
    place.members.push_back(place_.members[r]);
  }
  const int rank = place.rank;
  auto made = make_ranked_state(
      devices.front(),
      {.name = communicator->name + (number == split_of_survivors ? "'" : "/" + std::to_string(mine.color)),
       .timeout = communicator->timeout},
      std::move(place), link_, control_, {});
  const auto publish = [communicator, split, made, rank, size = choices.size(), here = place_.rank] {
    const LockGuard guard(communicator->mutex);
    split->results.resize(size);
    split->results[static_cast<std::size_t>(here)] = {made, rank};
    communicator->split_changed.notify_all();
  };
  if (!made->ranked->has_mover()) return publish();
  // That waits for the other ranks, which this thread must not.
  std::thread([made, publish] {
    made->ranked->open_mover();
    publish();
  }).detach();
}

}  // namespace weir::detail
