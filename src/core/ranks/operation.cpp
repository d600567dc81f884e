// One collective among processes, from the call to its end.
#include "core/ranks/operation.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <type_traits>
#include <utility>

#include "core/collectives/operand_span.hpp"
#include "core/ranks/engine.hpp"

namespace weir::detail {

namespace {

/// Of a call that is not the host's alone.
CopyingTransport& copies_of(LocalCall& call) { return dynamic_cast<CopyingTransport&>(call.transport()); }

}  // namespace

RankedCall::RankedCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, int rank,
                       std::shared_ptr<RankArrival> its_arrival, std::shared_ptr<RankEngine> engine)
    : LocalCall(std::move(communicator), number, rank), arrival(std::move(its_arrival)), engine_(std::move(engine)) {
  is_told_ = true;
}

void RankedCall::arrived(CollectivePart&, std::shared_ptr<const Error> failure) noexcept {
  if (arrival->nanoseconds.load(std::memory_order_relaxed) != 0) return;  // another part of the unit came first
  arrival->failure = std::move(failure);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  arrival->nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                             std::memory_order_release);
  if (way == Way::launched && !arrival->failure) return engine_->launched_arrived();
  engine_->wake();
}

void RankedCall::set_way(Way its_way, std::size_t lane, std::uint64_t history) {
  way = its_way;
  lane_ = lane;
  fingerprint_ = fingerprint_of(*offer(0));
  if (way != Way::launched) return;
  const std::uint64_t called = history_with(history, fingerprint_);
  launch_ = {engine_->mover(), static_cast<std::uint32_t>(called ^ called >> 32), &kernel_};
}

bool RankedCall::was_told() const noexcept {
  return arrival->nanoseconds.load(std::memory_order_acquire) != 0 && (arrival->failure || kernel_.over());
}

void RankedCall::help() noexcept { engine_->drive(*this); }
void RankedCall::look_again() noexcept {
  if (way == Way::launched) return engine_->look_at_launched(lane_);
  engine_->wake();
}

void RankedCall::keep_memory() noexcept {
  kept_[0] = offer(0)->request.in.storage;
  kept_[1] = offer(0)->request.out.storage;
  for (Storage* storage : kept_) detail::retain(storage);
}

void RankedCall::lose_memory() noexcept {
  kept_[0] = kept_[1] = nullptr;
  try {
    if (room) new std::shared_ptr<PieceRoom>(room);
  } catch (...) {
    std::terminate();  // what is written to next would be somebody else's
  }
}

void RankedCall::let_memory_go() noexcept {
  for (Storage*& storage : kept_) detail::release(std::exchange(storage, nullptr));
}

RankOperation::RankOperation(CallReference call, std::size_t lane)
    : call_(std::move(call)),
      lane_(lane),
      number_(call_->number()),
      fingerprint_(static_cast<RankedCall&>(*call_).fingerprint()) {}

bool RankOperation::is_apart_from(const RankOperation& other) const {
  const CollectiveRequest& mine = call_->offer(0)->request;
  const CollectiveRequest& theirs = other.call_->offer(0)->request;
  const OperandSpan in = span_of(mine.in), out = span_of(mine.out), their_out = span_of(theirs.out);
  return !out.meets(their_out) && !out.meets(span_of(theirs.in)) && !in.meets(their_out);
}

bool RankOperation::may_be_beside(const Ends& ends) const {
  if (call().way != RankedCall::Way::host) return false;
  return ends.mover == nullptr || !ends.mover->moves(call_->offer(0)->request);
}

/// What is long follows its head where both are sent, and is received behind that alone.
bool RankOperation::has_sent_for_all() const {
  if (!messages_ || messages_->moves || call().way != RankedCall::Way::host) return false;
  const Track& track = tracks()[0];
  if (!track.begun || track.phase + 1 < track.plan.size()) return false;
  return std::none_of(track.legs.begin(), track.legs.end(), [](const Leg& leg) {
    return leg.message.receives && is_long(leg.message) && leg.stage == Leg::Stage::first;
  });
}

void RankOperation::start_beside(const Ends& ends) {
  own_scratch_ = std::make_unique<Scratch>();
  start(ends, *own_scratch_);
}

void RankOperation::give_scratch_back() {
  if (!messages_) return;
  for (RankScratch& one : *messages_->scratch) one.reset();
}

void RankOperation::lose_scratch() {
  if (!messages_) return;
  for (RankScratch& one : *messages_->scratch) one.abandon();
}

template <class F>
void RankOperation::where_memory_is(F&& f) {
  if (call().way != RankedCall::Way::direct) return f();
  copies_of(*call_).within([](void* what) { (*static_cast<std::remove_reference_t<F>*>(what))(); }, &f);
}

void RankOperation::start(const Ends& ends, Scratch& scratch) {
  if (call().launch() != nullptr) {
    started_ = true;
    return;
  }
  messages_ = std::make_unique<Messages>();
  messages_->scratch = &scratch;
  const std::span<Track> tracks = this->tracks();
  for (std::size_t t = 0; t < tracks.size(); ++t) {
    tracks[t].tag = ends.tag + 2 * static_cast<std::uint32_t>(t);
    tracks[t].scratch = &scratch[t];
    tracks[t].piece = t;
  }
  if (call().way == RankedCall::Way::cut) {
    messages_->pieces.emplace(*call_->offer(0), ends.rank, static_cast<int>(ends.members.size()));
    started_ = true;
    return begin_piece(tracks[0], ends);
  }
  plan_whole(ends);
  started_ = true;
  tracks[0].begun = true;
  where_memory_is([&] { begin_phase(tracks[0], ends); });
}

void RankOperation::plan_whole(const Ends& ends) {
  const Offer& offer = *call_->offer(0);
  const auto size = static_cast<int>(ends.members.size());
  Track& track = tracks()[0];
  if (ends.mover != nullptr && ends.mover->moves(offer.request)) {
    messages_->moves = true;
    auto move = std::make_shared<RankMove>();
    auto begin = [mover = ends.mover, &call = call(), move] { mover->move(call, move); };
    track.plan = plan_of_move(offer, ends.rank, size, std::move(begin), move, *track.scratch);
    return;
  }
  RankCopier copier;
  if (call().way == RankedCall::Way::direct) {
    copier = [this](const RankCopy& one, std::shared_ptr<RankMove> copied) { copy({&one, 1}, std::move(copied)); };
  }
  track.plan = plan_of(offer, ends.rank, size, ends.compare, *track.scratch, copier);
}

void RankOperation::begin_piece(Track& track, const Ends& ends) {
  track.begun = true;
  track.scratch->reset();
  Pieces::Place place{nullptr, nullptr, {}};
  if (const PieceRoom* const room = call().room.get()) {
    const auto at = static_cast<std::size_t>(&track - tracks().data());
    place = {room->in(at), room->out(at),
             [this](const std::vector<RankCopy>& copies, std::shared_ptr<RankMove> copied) {
               copy(copies, std::move(copied));
             }};
  } else {
    place.in = track.scratch->take(messages_->pieces->bytes());
    place.out = track.scratch->take(messages_->pieces->bytes());
  }
  track.plan = messages_->pieces->plan(track.piece, place, ends.compare && track.piece == 0, *track.scratch);
  track.phase = 0;
  begin_phase(track, ends);
}

void RankOperation::copy(std::span<const RankCopy> copies, std::shared_ptr<RankMove> copied) {
  copies_of(*call_).copy(*call_, copies, std::move(copied));
}

void RankOperation::begin_phase(Track& track, const Ends& ends) {
  track.legs = std::vector<Leg>(track.phase < track.plan.size() ? track.plan[track.phase].messages.size() : 0);
  // Who waits already is served first.
  for (const bool receives : {true, false}) {
    for (std::size_t i = 0; i < track.legs.size(); ++i) {
      track.legs[i].message = track.plan[track.phase].messages[i];
      if (track.legs[i].message.receives == receives) begin(track.legs[i], track, ends);
    }
  }
}

void RankOperation::begin(Leg& leg, const Track& track, const Ends& ends) {
  const RankMessage& message = leg.message;
  const int peer = ends.members[static_cast<std::size_t>(message.peer)];
  const std::size_t with_head = is_long(message) ? 0 : message.bytes;
  if (message.receives) {
    leg.room.reset(new std::byte[sizeof(Head) + most_with_head]);
    ends.link.receive(leg.first, peer, track.tag, leg.room.get(), sizeof(Head) + most_with_head);
    return;
  }
  leg.room.reset(new std::byte[sizeof(Head) + with_head]);
  const Head head{fingerprint_, number_, message.bytes + message.said};
  std::memcpy(leg.room.get(), &head, sizeof head);
  if (with_head > 0) std::memcpy(leg.room.get() + sizeof head, message.data, with_head);
  ends.link.send(leg.first, peer, track.tag, leg.room.get(), sizeof head + with_head);
  if (is_long(message)) ends.link.send(leg.rest, peer, track.tag, message.data, message.bytes);
}

/// The first message has arrived: whether it is of this call.
bool RankOperation::take_head(Leg& leg, const Track& track, const Ends& ends) {
  Head head;
  const std::size_t with_head = is_long(leg.message) ? 0 : leg.message.bytes;
  if (leg.first.bytes != sizeof head + with_head) return false;
  std::memcpy(&head, leg.room.get(), sizeof head);
  if (head.fingerprint != fingerprint_ || head.number != number_ ||
      head.bytes != leg.message.bytes + leg.message.said) {
    return false;
  }
  if (with_head > 0) std::memcpy(leg.message.data, leg.room.get() + sizeof head, with_head);
  if (is_long(leg.message)) {
    ends.link.receive(leg.rest, ends.members[static_cast<std::size_t>(leg.message.peer)], track.tag, leg.message.data,
                      leg.message.bytes);
  }
  return true;
}

RankOperation::Outcome RankOperation::look(Transfer& transfer, RankLink& link) {
  using State = Transfer::State;
  if (transfer.state == State::under_way) link.test(transfer);
  switch (transfer.state) {
    case State::under_way: return Outcome::waits;
    case State::too_long: return Outcome::different;
    case State::failed: return Outcome::lost;
    default: return Outcome::done;
  }
}

RankOperation::Outcome RankOperation::step(Leg& leg, const Track& track, const Ends& ends) {
  if (leg.stage == Leg::Stage::first) {
    const Outcome outcome = look(leg.first, ends.link);
    if (outcome != Outcome::done) return outcome;
    if (leg.message.receives && !take_head(leg, track, ends)) {
      Head head;
      met_.due = leg.message.bytes + leg.message.said;
      met_.read = leg.first.bytes >= sizeof head;
      if (!met_.read) return Outcome::different;
      std::memcpy(&head, leg.room.get(), sizeof head);
      met_ = {true, head.fingerprint, head.number, head.bytes, met_.due};
      return Outcome::different;
    }
    leg.stage = is_long(leg.message) ? Leg::Stage::rest : Leg::Stage::over;
  }
  if (leg.stage == Leg::Stage::rest) {
    const Outcome outcome = look(leg.rest, ends.link);
    if (outcome != Outcome::done) return outcome;
    leg.stage = Leg::Stage::over;
  }
  return Outcome::done;
}

/// It is in the stream since the call.
RankOperation::Outcome RankOperation::look_at_kernel(bool& moved) {
  const RankMove& move = *call().launch()->move;
  switch (move.state.load(std::memory_order_acquire)) {
    case RankMove::State::under_way: return Outcome::waits;
    case RankMove::State::failed: why_ = move.why; return Outcome::not_moved;
    default: moved = true; return Outcome::done;
  }
}

RankOperation::Outcome RankOperation::step(const Ends& ends, bool& moved) {
  if (call().launch() != nullptr) return look_at_kernel(moved);
  Outcome outcome = Outcome::waits;
  where_memory_is([&] { outcome = step_all(ends, moved); });
  return outcome;
}

RankOperation::Outcome RankOperation::step_all(const Ends& ends, bool& moved) {
  const std::span<Track> tracks = this->tracks();
  if (!messages_->pieces) return step(tracks[0], ends, moved);
  bool waits = false;
  for (Track& track : tracks) {
    const std::size_t count = messages_->pieces->count();
    while (track.piece < count) {
      const Track& first = tracks[0];
      // No piece moves before the ranks have compared what they call.
      const bool compared = !ends.compare || first.piece > 0 || first.phase > 1;
      if (!track.begun && !compared) break;
      if (!track.begun) begin_piece(track, ends);
      const Outcome outcome = step(track, ends, moved);
      if (outcome == Outcome::waits) break;
      if (outcome != Outcome::done) return outcome;
      track.piece += tracks.size();
      track.begun = false;
    }
    waits = waits || track.piece < count;
  }
  return waits ? Outcome::waits : Outcome::done;
}

RankOperation::Outcome RankOperation::step(Track& track, const Ends& ends, bool& moved) {
  for (;;) {
    bool waits = false;
    for (Leg& leg : track.legs) {
      if (leg.stage == Leg::Stage::over) continue;
      const Leg::Stage before = leg.stage;
      const Outcome outcome = step(leg, track, ends);
      moved = moved || leg.stage != before;
      waits = waits || outcome == Outcome::waits;
      if (outcome == Outcome::waits || outcome == Outcome::done) continue;
      culprit_ = leg.message.peer;
      return outcome;
    }
    if (waits) return Outcome::waits;
    const bool was_moving = track.moving;
    const Outcome end = end_phase(track);
    moved = moved || end == Outcome::done || track.moving != was_moving;
    if (end != Outcome::done) return end;
    if (++track.phase >= track.plan.size()) return Outcome::done;
    begin_phase(track, ends);
  }
}

RankOperation::Outcome RankOperation::end_phase(Track& track) {
  if (track.phase >= track.plan.size()) return Outcome::done;
  const RankPhase& phase = track.plan[track.phase];
  if (!track.moving && phase.then) phase.then();
  if (phase.until == nullptr) return Outcome::done;
  track.moving = true;
  switch (phase.until->state.load(std::memory_order_acquire)) {
    case RankMove::State::under_way: return Outcome::waits;
    case RankMove::State::failed: why_ = phase.until->why; return Outcome::not_moved;
    default: track.moving = false; return Outcome::done;
  }
}

std::size_t RankOperation::bytes_moving() const {
  std::size_t bytes = 0;
  for (const Track& track : tracks()) {
    for (const Leg& leg : track.legs) {
      // Who sends has come; who is sent to may not have.
      if (leg.stage == Leg::Stage::rest && leg.message.receives) bytes += leg.message.bytes;
    }
  }
  return bytes;
}

bool RankOperation::cancel(const Ends& ends) {
  bool all = true;
  where_memory_is([&] {
    for (Track& track : tracks()) {
      if (track.moving && !track.plan[track.phase].until->over()) {
        if (ends.mover != nullptr) ends.mover->abandon();
        all = false;
      }
      for (Leg& leg : track.legs) {
        for (Transfer* transfer : {&leg.first, &leg.rest}) {
          if (transfer->state == Transfer::State::under_way && !ends.link.cancel(*transfer)) all = false;
        }
      }
    }
  });
  return all;
}

void RankOperation::abandon() {
  call().lose_memory();
  for (Track& track : tracks()) {
    for (Leg& leg : track.legs) static_cast<void>(leg.room.release());
    new std::vector<Leg>(std::move(track.legs));  // the link has their addresses
  }
}

}  // namespace weir::detail
