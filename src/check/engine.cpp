// The engine's order: what the moments of a program's calls come after, by the edges of hazards.md, section 2.
#include "check/engine.hpp"

#include <algorithm>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

using recorded::StreamKind;

namespace {

bool is_blocking(StreamKind kind) { return kind == StreamKind::blocking || kind == StreamKind::per_thread; }

/// From more than so much pageable memory a copy returns when it is done.
constexpr std::uint64_t staged_bytes = std::uint64_t{1} << 20;

constexpr std::size_t most_that_may_give = 4096;

}  // namespace

Engine::Engine(EngineOptions options) : options_(std::move(options)) {
  sites_.emplace_back();  // what was there before
  stream_event_ = std::make_unique<Event>();
}
Engine::~Engine() = default;

/// A chain of commands, each behind the one before: a stream may go on with that of a stream that is gone and that it comes
/// behind. So clocks grow with the streams that live.
void Engine::begin_timeline(Stream& stream) {
  constexpr std::size_t most_tried = 64;
  const auto last = ended_.begin() + static_cast<std::ptrdiff_t>(std::min(most_tried, ended_.size()));
  const auto found = std::find_if(ended_.begin(), last,
                                  [&stream](const Ended& one) { return stream.clock[one.timeline] >= one.tick; });
  if (found == last) {
    stream.timeline = new_timeline();
    return;
  }
  stream.timeline = found->timeline;
  stream.tick = found->tick;
  *found = ended_.back();
  ended_.pop_back();
}

Engine::Thread& Engine::thread(const Call& call) {
  const std::size_t place = options_.host_order == HostOrder::observed ? 0 : call.thread;
  while (threads_.size() <= place) {
    threads_.push_back(std::make_unique<Thread>());
    threads_.back()->timeline = new_timeline();
  }
  return *threads_[place];
}

BufferFact& Engine::buffer_fact(std::uint32_t buffer) { return buffers_[buffer]->fact; }
StreamFact& Engine::stream_fact(std::uint32_t stream) { return streams_[stream]->fact; }

void Engine::made_stream(const Call& call, std::uint32_t stream) {
  streams_[stream]->alive = true;
  streams_[stream]->fact.file = call.file;
  streams_[stream]->fact.line = call.line;
}
void Engine::made_event(std::uint32_t event) { events_[event].alive = true; }
void Engine::drop_event(std::uint32_t event) { events_[event].alive = false; }

/// The run of a command: behind its call, its stream's earlier work, and what the rules of the legacy stream put before it.
Engine::Stream& Engine::enter(const Call& call, std::uint32_t place, bool own_only) {
  Stream& stream = *streams_[place];
  if (!rule(2)) {
    stream.clock.clear();
    stream.timeline = new_timeline();
    stream.tick = 0;
    stream.seen_thread = none;
    stream.seen_streams.clear();
  }
  Thread& host = thread(call);
  const std::uint32_t thread_place = options_.host_order == HostOrder::observed ? 0 : call.thread;
  if (rule(1) && (stream.seen_thread != thread_place || stream.seen_thread_version != host.version)) {
    stream.clock.join(host.clock);
    stream.seen_thread = thread_place;
    stream.seen_thread_version = host.version;
  }
  const bool legacy = stream.fact.kind == StreamKind::legacy;
  const auto join = [&stream](const Stream& other) {
    if (stream.seen_streams.size() <= other.id) stream.seen_streams.resize(other.id + 1);
    if (other.version == std::exchange(stream.seen_streams[other.id], other.version)) return;
    stream.clock.join(other.clock);
  };
  if (rule(3) && legacy && !own_only) {
    for (const std::uint32_t one : working_) {
      const Stream& other = *streams_[one];
      if (other.fact.device == stream.fact.device && is_blocking(other.fact.kind)) join(other);
    }
  } else if (rule(3) && is_blocking(stream.fact.kind)) {
    for (const std::uint32_t other : legacy_streams_) {
      if (streams_[other]->fact.device == stream.fact.device) join(*streams_[other]);
    }
  }
  if (stream.timeline == no_timeline) begin_timeline(stream);
  if (!std::exchange(stream.working, true)) working_.push_back(place);
  ++stream.version;
  return stream;
}

/// A refused command has never been in its stream, which then comes behind nothing that the command alone came behind.
void Engine::remember(std::uint32_t place) {
  if (!tried_) tried_ = std::make_unique<Tried>();
  if (std::exchange(tried_->stream, place) == place) return;
  const Stream& stream = *streams_[place];
  tried_->clock = stream.clock;
  tried_->seen_thread = stream.seen_thread;
  tried_->seen_thread_version = stream.seen_thread_version;
  tried_->seen_streams = stream.seen_streams;
}
void Engine::end_attempt(bool refused) {
  const std::uint32_t place = tried_ ? std::exchange(tried_->stream, none) : none;
  if (place == none || !refused) return;
  Stream& stream = *streams_[place];
  stream.clock = tried_->clock;
  stream.seen_thread = tried_->seen_thread;
  stream.seen_thread_version = tried_->seen_thread_version;
  stream.seen_streams = tried_->seen_streams;
}

/// Once it was looked at: it is the last one of its stream.
void Engine::leave(const Call& call, Stream& stream) {
  stream.last_command = call.command;
  ++stream.commands;
  last_command_ = std::max(last_command_, call.command);
}

void Engine::learn(Thread& host, const Clock& clock) {
  host.clock.join(clock);
  ++host.version;
  host.synchronized = true;
}
void Engine::learn_stream(Thread& host, std::uint32_t place) {
  const Stream& stream = *streams_[place];
  learn(host, stream.clock);
  if (stream.fact.kind != StreamKind::legacy || !rule(3)) return;
  for (const std::uint32_t one : working_) {
    const Stream& other = *streams_[one];
    if (other.fact.device == stream.fact.device && is_blocking(other.fact.kind)) learn(host, other.clock);
  }
}

template <class Which>
void Engine::learn_all(Thread& host, const Which& which) {
  for (const std::uint32_t one : working_) {
    if (which(*streams_[one])) learn(host, streams_[one]->clock);
  }
  std::erase_if(working_, [this](std::uint32_t one) { return over(*streams_[one]); });
}

Tick Engine::host_tick(Thread& host) {
  host.clock.raise(host.timeline, ++host.tick);
  ++host.version;
  return host.tick;
}

std::uint32_t Engine::site(const Call& call, Op op, std::uint32_t stream, const char* name) {
  const auto mix = [](std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
  };
  std::uint64_t hash = mix(call.line, reinterpret_cast<std::uintptr_t>(call.file));
  hash = mix(hash, reinterpret_cast<std::uintptr_t>(name));
  hash = mix(hash, static_cast<std::uint64_t>(op) << 56 ^ std::uint64_t{stream} << 24 ^ call.thread);
  const auto is_it = [&](std::uint32_t place) {
    const Site& old = sites_[place];
    return old.op == op && old.stream == stream && old.thread == call.thread && old.name == name &&
           old.place.file == call.file && old.place.line == call.line;
  };
  // Loops come by the same places again.
  std::uint32_t& recent = recent_sites_[hash >> 32 & (recent_sites_.size() - 1)];
  if (recent != 0 && recent < sites_.size() && sites_[recent].version == nullptr && is_it(recent)) return recent;
  for (;; ++hash) {
    const auto place = free_sites_.empty() ? static_cast<std::uint32_t>(sites_.size()) : free_sites_.back();
    const auto [found, added] = site_table_.try_emplace(hash, place);
    recent = found->second;
    if (!added) {
      if (is_it(found->second)) return found->second;
      continue;
    }
    Site made{op, stream, call.thread, name, {call.file, call.line}};
    if (free_sites_.empty()) {
      sites_.push_back(std::move(made));
    } else {
      sites_[place] = std::move(made);
      free_sites_.pop_back();
    }
    return place;
  }
}

/// What a command touches; of a copy whether the host takes the source at the call, and whether the call waits.
struct Engine::Sides {
  std::vector<Use> made;
  std::span<const Use> uses;
  bool taken = false;
  bool waits = false;
};

Engine::Sides Engine::sides_of(Op op, std::span<const Use> given) const {
  Sides sides;
  sides.uses = given;
  if (op != Op::copy && op != Op::fill) return sides;
  sides.made = uses_of(op, {given.begin(), given.end()});
  sides.uses = sides.made;
  const bool to_pageable = buffers_[given[0].buffer]->fact.kind == MemoryKind::pageable;
  const bool from_pageable = op == Op::copy && buffers_[given[1].buffer]->fact.kind == MemoryKind::pageable;
  const bool large = given[0].total() > staged_bytes;
  sides.waits = to_pageable || (from_pageable && large);
  sides.taken = from_pageable && !to_pageable && !large;
  return sides;
}

void Engine::check_work(const Second& second, const Sides& sides) {
  const Clock& host = thread(second.call).clock;
  const Clock& now = streams_[second.stream]->clock;
  hits_.clear();
  for (std::size_t i = 0; i < sides.uses.size(); ++i) {
    const bool by_host = sides.taken && i == 1;
    check_use(sides.uses[i], i, by_host ? host : now, by_host);
  }
  if (!hits_.empty()) conclude(second, hits_);
}

void Engine::try_work(const Call& call, std::uint32_t place, Op op, const char* name, std::span<const Use> given) {
  if ((op == Op::copy || op == Op::fill) && given[0].total() == 0) return;
  const Sides sides = sides_of(op, given);
  remember(place);
  enter(call, place);
  check_work({call, op, place, name}, sides);
}

void Engine::work(const Call& call, std::uint32_t place, Op op, const char* name, std::span<const Use> given,
                  std::span<const std::uint32_t> gives) {
  if (streams_[place]->capture != 0) {
    captured(call, place, op, name, uses_of(op, {given.begin(), given.end()}), none, gives);
    return;
  }
  if ((op == Op::copy || op == Op::fill) && given[0].total() == 0) return;  // nothing is enqueued
  const Sides sides = sides_of(op, given);
  const std::span<const Use> uses = sides.uses;
  Thread& host = thread(call);
  Stream& stream = enter(call, place);
  stream.before_work = stream.tick;
  const Second second{call, op, place, name};
  check_work(second, sides);
  check_contents(second, uses);
  if (uses.size() > 1) check_overlaps(second, uses);

  Access made;
  made.command = call.command;
  made.site = site(call, op, place, name);
  if (!uses.empty()) {
    made.set_moment(stream.timeline, ++stream.tick);
    stream.clock.raise(stream.timeline, stream.tick);
  }
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const Use& use = uses[i];
    Buffer& buffer = *buffers_[use.buffer];
    if (!use.raw && buffer.fact.owner == recorded::Owner::array) {
      if (buffer.users.size() <= place / 64) buffer.users.resize(place / 64 + 1);
      buffer.users[place / 64] |= std::uint64_t{1} << place % 64;
    }
    if (sides.taken && i == 1) {
      Access by_host = made;
      by_host.host = 1;
      by_host.set_moment(host.timeline, host_tick(host));
      add_use(use, i, by_host, host.clock);
    } else {
      add_use(use, i, made, stream.clock);
    }
  }
  for (const std::uint32_t one : gives) hand_offs_[one].join(stream.clock);
  if (options_.gives_later && op == Op::host_function) {
    may_give_[call.command] = stream.clock;
    if (may_give_.size() > most_that_may_give) may_give_.erase(may_give_.begin());
  }
  if (sides.waits && rule(9)) learn(host, stream.clock);
  leave(call, stream);
}

Engine::Event& Engine::event_at(std::uint32_t which) { return which == none ? *stream_event_ : events_[which]; }

void Engine::record(const Call& call, std::uint32_t place, std::uint32_t which, bool node, bool external) {
  Event& event = event_at(which);
  Stream& stream = *streams_[place];
  if (stream.capture != 0) {
    if (node) captured(call, place, Op::record, "", {}, which);
    if (!external) {
      event.capture = stream.capture;
      event.frontier = stream.frontier;
    }
    leave(call, stream);
    return;
  }
  enter(call, place);
  event.capture = 0;
  event.recorded = true;
  event.stream_before = event.stream;
  event.stream = place;
  event.launch = no_command;
  event.place_before = std::exchange(event.place, {call.file, call.line});
  event.sequence = ++records_;
  event.clock = stream.clock;
  leave(call, stream);
}

/// A wait for the last record of an event, once that it is known not to be a capture's.
void Engine::order_behind(const Call& call, std::uint32_t place, std::uint32_t which, bool hints) {
  const Event& event = event_at(which);
  Stream& stream = enter(call, place);
  const bool legacy = stream.fact.kind == StreamKind::legacy;
  Stream::Waited waited{event.stream,        which,       {call.file, call.line}, !event.recorded,
                        event.stream_before, event.place, event.place_before,     event.launch,
                        event.generation};
  if (stream.waits.size() >= 64) stream.waits.erase(stream.waits.begin());
  std::erase_if(stream.waits,
                [&](const Stream::Waited& one) { return one.other == waited.other && one.event == waited.event; });
  stream.waits.push_back(waited);
  if (!event.recorded) {
    if (hints && options_.hints) hint(FindingKind::empty_wait, call, place, Op::wait, "the event was never recorded");
    leave(call, stream);
    return;
  }
  if (hints && options_.hints && !legacy) {
    const bool useless = stream.clock.covers(event.clock);
    hint(FindingKind::redundant_wait, call, place, Op::wait,
         useless ? named(place) + " is behind all that it waits for already" : std::string());
  }
  if (rule(5)) stream.clock.join(event.clock);
  leave(call, stream);
}

void Engine::wait(const Call& call, std::uint32_t place, std::uint32_t which, bool node) {
  const Event& event = event_at(which);
  Stream& stream = *streams_[place];
  if (stream.capture != 0 && (node || event.capture == 0)) {
    captured(call, place, Op::wait, "", {}, which);
    return;
  }
  if (event.capture != 0 && captures_.count(event.capture) != 0) {
    if (stream.capture == 0) {
      stream.capture = event.capture;
      stream.frontier.clear();
    }
    for (const std::uint32_t one : event.frontier) {
      if (std::find(stream.frontier.begin(), stream.frontier.end(), one) == stream.frontier.end()) {
        stream.frontier.push_back(one);
      }
    }
    leave(call, stream);
    return;
  }
  order_behind(call, place, which, true);
}

void Engine::wait_stream(const Call& call, std::uint32_t place, std::uint32_t other, bool scoped) {
  if (!rule(6)) return;
  // A record, and a wait for it.
  record(call, other, none);
  if (stream_event_->capture != 0) {
    wait(call, place, none);
  } else {
    order_behind(call, place, none, !scoped);
  }
}

/// More would not be read.
void Engine::note_wait(const Call& call, HostWait wait) {
  constexpr std::size_t most_waits = 16;
  std::vector<HostWait>& waits = thread(call).waits;
  if (waits.size() == most_waits) waits.erase(waits.begin());
  wait.place = {call.file, call.line};
  wait.last_command = std::max(last_command_, call.command);
  waits.push_back(wait);
}

void Engine::synchronize_stream(const Call& call, std::uint32_t stream, bool asked) {
  note_wait(call, {.stream = stream});
  if (rule(asked ? 8 : 7)) learn_stream(thread(call), stream);
}
void Engine::synchronize_event(const Call& call, std::uint32_t event, bool asked) {
  if (events_[event].recorded) note_wait(call, {.stream = events_[event].stream, .recorded = events_[event].place});
  if (rule(asked ? 8 : 7) && events_[event].recorded) learn(thread(call), events_[event].clock);
}
void Engine::synchronize_device(const Call& call, std::uint32_t device) {
  note_wait(call, {.device = device});
  if (!rule(7)) return;
  learn_all(thread(call), [device](const Stream& stream) { return stream.fact.device == device; });
}
void Engine::synchronize_all(const Call& call) {
  note_wait(call, {});
  if (!rule(7)) return;
  learn_all(thread(call), [](const Stream&) { return true; });
}

void Engine::not_done(const Call& call, std::uint32_t stream, std::uint32_t event) {
  const std::uint32_t asked = stream != none ? stream : events_[event].stream;
  if (asked == none) return;
  streams_[asked]->asked_in_vain = true;
  streams_[asked]->not_done = {call.file, call.line};
  streams_[asked]->not_done_behind = std::max(last_command_, call.command);
}

void Engine::host_access(const Call& call, Op op, std::span<const Use> given) {
  Thread& host = thread(call);
  std::vector<Use> uses(given.begin(), given.end());
  for (Use& use : uses) use.access = op == Op::host_write ? recorded::Access::out : recorded::Access::in;
  hits_.clear();
  for (std::size_t i = 0; i < uses.size(); ++i) check_use(uses[i], i, host.clock, true);
  if (!hits_.empty()) conclude({call, op, none, ""}, hits_);
  Access made;
  made.command = call.command;
  made.host = 1;
  made.set_moment(host.timeline, host_tick(host));
  made.site = site(call, op, none, "");
  for (std::size_t i = 0; i < uses.size(); ++i) add_use(uses[i], i, made, host.clock);
}

void Engine::try_open(const Call& call, const Use& use) {
  hits_.clear();
  check_use(use, 0, thread(call).clock, true);
  if (!hits_.empty()) conclude({call, Op::host_open, none, ""}, hits_);
}

void Engine::open(const Call& call, std::uint32_t scope, const Use& use) {
  Thread& host = thread(call);
  try_open(call, use);
  const std::span<const Run> bytes = runs(use);
  if (bytes.empty()) return;
  Scope made{use, {}, {bytes.begin(), bytes.end()}};
  made.access.command = call.command;
  made.access.set_use(use.access, 0);
  made.access.host = 1;
  made.access.set_moment(host.timeline, never);
  made.access.site = site(call, Op::host_open, none, "");
  buffers_[use.buffer]->guards.push_back(scope);
  scopes_[scope] = std::move(made);
}

void Engine::close(const Call& call, std::uint32_t scope) {
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return;
  Thread& host = thread(call);
  Scope closed = std::move(found->second);
  scopes_.erase(found);
  std::erase(buffers_[closed.use.buffer]->guards, scope);
  const bool elsewhere = closed.access.timeline != host.timeline;
  closed.access.set_moment(host.timeline, host_tick(host));
  if (elsewhere) {
    // Nothing says that this thread is behind the one that opened it.
    buffers_[closed.use.buffer]->history.add_beside(closed.runs, closed.access);
  } else {
    add_use(closed.use, 0, closed.access, host.clock);
  }
}

void Engine::give(const Call& call, std::uint32_t hand_off) { hand_offs_[hand_off].join(thread(call).clock); }
void Engine::take(const Call& call, std::uint32_t hand_off) {
  const auto found = hand_offs_.find(hand_off);
  if (rule(13) && found != hand_offs_.end()) learn(thread(call), found->second);
}

void Engine::gave(std::uint64_t command, std::uint32_t hand_off) {
  Clock& clock = hand_offs_[hand_off];
  if (const auto found = may_give_.find(command); found != may_give_.end()) return clock.join(found->second);
  // Forgotten: nothing may be reported that it might have ordered.
  for (const auto& stream : streams_) clock.join(stream->clock);
}

}  // namespace weir::check
