// One collective among processes, from the call to its end.
#include "core/ranks/operation.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/ranks/engine.hpp"

namespace weir::detail {

RankedCall::RankedCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, int rank,
                       std::shared_ptr<RankArrival> its_arrival, std::shared_ptr<RankEngine> engine)
    : LocalCall(std::move(communicator), number, {rank}), arrival(std::move(its_arrival)), engine_(std::move(engine)) {
  is_told_ = true;
}

void RankedCall::arrived(CollectivePart&, std::shared_ptr<const Error> failure) noexcept {
  if (arrival->nanoseconds.load(std::memory_order_relaxed) != 0) return;  // another part of the unit came first
  arrival->failure = std::move(failure);
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  arrival->nanoseconds.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                             std::memory_order_release);
  engine_->wake();
}

void RankedCall::help() noexcept { engine_->drive(*this); }
void RankedCall::look_again() noexcept { engine_->wake(); }

void RankedCall::keep_memory() noexcept {
  kept_[0] = offer(0)->request.in.storage;
  kept_[1] = offer(0)->request.out.storage;
  for (Storage* storage : kept_) detail::retain(storage);
}

void RankedCall::let_memory_go() noexcept {
  for (Storage*& storage : kept_) detail::release(std::exchange(storage, nullptr));
}

RankOperation::RankOperation(CallReference call, std::size_t lane)
    : call_(std::move(call)), lane_(lane), number_(call_->number()), fingerprint_(fingerprint_of(*call_->offer(0))) {}

void RankOperation::start(const Ends& ends, RankScratch& scratch) {
  const Offer& offer = *call_->offer(0);
  const auto size = static_cast<int>(ends.members.size());
  if (ends.mover != nullptr && ends.mover->moves(offer.request)) {
    auto move = std::make_shared<RankMove>();
    auto begin = [mover = ends.mover, &call = call(), move] { mover->move(call, move); };
    plan_ = plan_of_move(offer, ends.rank, size, std::move(begin), move, scratch);
  } else {
    plan_ = plan_of(offer, ends.rank, size, ends.compare, scratch);
  }
  started_ = true;
  begin_phase(ends);
}

void RankOperation::begin_phase(const Ends& ends) {
  legs_ = std::vector<Leg>(phase_ < plan_.size() ? plan_[phase_].messages.size() : 0);
  // Who waits already is served first.
  for (const bool receives : {true, false}) {
    for (std::size_t i = 0; i < legs_.size(); ++i) {
      legs_[i].message = plan_[phase_].messages[i];
      if (legs_[i].message.receives == receives) begin(legs_[i], ends);
    }
  }
}

void RankOperation::begin(Leg& leg, const Ends& ends) {
  const RankMessage& message = leg.message;
  const int peer = ends.members[static_cast<std::size_t>(message.peer)];
  const std::size_t with_head = is_long(message) ? 0 : message.bytes;
  if (message.receives) {
    leg.room.reset(new std::byte[sizeof(Head) + most_with_head]);
    ends.link.receive(leg.first, peer, ends.tag, leg.room.get(), sizeof(Head) + most_with_head);
    return;
  }
  leg.room.reset(new std::byte[sizeof(Head) + with_head]);
  const Head head{fingerprint_, number_, message.bytes + message.said};
  std::memcpy(leg.room.get(), &head, sizeof head);
  if (with_head > 0) std::memcpy(leg.room.get() + sizeof head, message.data, with_head);
  ends.link.send(leg.first, peer, ends.tag, leg.room.get(), sizeof head + with_head);
  if (is_long(message)) ends.link.send(leg.rest, peer, ends.tag, message.data, message.bytes);
}

/// The first message has arrived: whether it is of this call.
bool RankOperation::take_head(Leg& leg, const Ends& ends) {
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
    ends.link.receive(leg.rest, ends.members[static_cast<std::size_t>(leg.message.peer)], ends.tag, leg.message.data,
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

RankOperation::Outcome RankOperation::step(Leg& leg, const Ends& ends) {
  if (leg.stage == Leg::Stage::first) {
    const Outcome outcome = look(leg.first, ends.link);
    if (outcome != Outcome::done) return outcome;
    if (leg.message.receives && !take_head(leg, ends)) {
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

RankOperation::Outcome RankOperation::step(const Ends& ends, bool& moved) {
  for (;;) {
    bool waits = false;
    for (Leg& leg : legs_) {
      if (leg.stage == Leg::Stage::over) continue;
      const Leg::Stage before = leg.stage;
      const Outcome outcome = step(leg, ends);
      moved = moved || leg.stage != before;
      waits = waits || outcome == Outcome::waits;
      if (outcome == Outcome::waits || outcome == Outcome::done) continue;
      culprit_ = leg.message.peer;
      return outcome;
    }
    if (waits) return Outcome::waits;
    const bool was_moving = moving_;
    const Outcome end = end_phase();
    moved = moved || end == Outcome::done || moving_ != was_moving;
    if (end != Outcome::done) return end;
    if (++phase_ >= plan_.size()) return Outcome::done;
    begin_phase(ends);
  }
}

RankOperation::Outcome RankOperation::end_phase() {
  if (phase_ >= plan_.size()) return Outcome::done;
  const RankPhase& phase = plan_[phase_];
  if (!moving_ && phase.then) phase.then();
  if (phase.until == nullptr) return Outcome::done;
  moving_ = true;
  switch (phase.until->state.load(std::memory_order_acquire)) {
    case RankMove::State::under_way: return Outcome::waits;
    case RankMove::State::failed: return Outcome::not_moved;
    default: moving_ = false; return Outcome::done;
  }
}

std::size_t RankOperation::bytes_moving() const {
  std::size_t bytes = 0;
  for (const Leg& leg : legs_) {
    // Who sends has come; who is sent to may not have.
    if (leg.stage == Leg::Stage::rest && leg.message.receives) bytes += leg.message.bytes;
  }
  return bytes;
}

bool RankOperation::cancel(const Ends& ends) {
  bool all = true;
  if (moving_ && !plan_[phase_].until->over()) {
    ends.mover->abandon();
    all = false;
  }
  for (Leg& leg : legs_) {
    for (Transfer* transfer : {&leg.first, &leg.rest}) {
      if (transfer->state == Transfer::State::under_way && !ends.link.cancel(*transfer)) all = false;
    }
  }
  return all;
}

void RankOperation::abandon() {
  call().lose_memory();
  for (Leg& leg : legs_) static_cast<void>(leg.room.release());
  new std::vector<Leg>(std::move(legs_));  // the link has their addresses
}

}  // namespace weir::detail
