// Inserts waits: for each order that a command lacks, one of the ways to get it.
#include "builder.hpp"

#include <algorithm>

namespace weir::stress {

namespace {

Program declared(const Theme& theme, std::uint64_t seed) {
  Program program;
  program.seed = seed;
  program.devices = theme.devices;
  program.threads = theme.threads;
  program.streams_in_turn = theme.failures && theme.threads > 1;
  program.defaults_in_turn = program.streams_in_turn && theme.defaults;
  for (int d = 0; d < theme.devices; ++d) {
    program.streams.push_back({StreamKind::legacy, d, 0, 0});
    program.streams.push_back({StreamKind::own, d, 0, 0});
  }
  for (int t = 0; t < theme.threads; ++t) {
    for (int d = 0; d < theme.devices; ++d) program.streams.push_back({StreamKind::per_thread, d, t, 0});
  }
  return program;
}

Command make(Kind kind, int thread, int stream = -1) {
  Command c;
  c.kind = kind;
  c.thread = thread;
  c.stream = stream;
  return c;
}

template <class T>
int add(std::vector<T>& all, const T& one) {
  all.push_back(one);
  return static_cast<int>(all.size()) - 1;
}

}  // namespace

Builder::Builder(const Theme& theme, std::uint64_t seed)
    : theme_(theme), random_(seed), program_(declared(theme, seed)), order_(program_) {}

Builder::Builder(const Theme& theme, std::uint64_t seed, const Program& program)
    : theme_(theme), captured_(true), random_(seed), program_(program), order_(program_, true) {
  program_.commands.clear();
}

int Builder::add_stream(StreamDecl decl) { return add(program_.streams, decl); }
int Builder::add_event(EventDecl decl) { return add(program_.events, decl); }
int Builder::add_array(ArrayDecl decl) { return add(program_.arrays, decl); }
int Builder::add_pool(PoolDecl decl) { return add(program_.pools, decl); }
int Builder::add_graph(GraphDecl decl) { return add(program_.graphs, std::move(decl)); }

void Builder::put(Command command) {
  while (const auto gap = order_.gap(command)) close(*gap, command);
  note_lives(command);
  program_.commands.push_back(std::move(command));
  order_.append();
}

void Builder::note_lives(const Command& c) {
  switch (c.kind) {
    case Kind::make_stream: streams_.push_back(c.stream); break;
    case Kind::drop_stream: std::erase(streams_, c.stream); break;
    case Kind::make_event: events_.push_back(c.event); break;
    case Kind::drop_event: std::erase(events_, c.event); break;
    case Kind::make_pool: pools_.push_back(c.pool); break;
    case Kind::drop_pool: std::erase(pools_, c.pool); break;
    case Kind::make_graph: graphs_.push_back(c.graph); break;
    case Kind::drop_graph: std::erase(graphs_, c.graph); break;
    case Kind::make_host:
    case Kind::make_array:
    case Kind::clone_array: arrays_.push_back(c.out.array); break;
    case Kind::drop_array:
    case Kind::free_array: std::erase(arrays_, c.out.array); break;
    case Kind::record:
      if (c.fresh) events_.push_back(c.event);
      break;
    default: break;
  }
}

void Builder::close(const Gap& gap, const Command& command) {
  if (!order_.called_before(gap.command, command.thread)) {
    handshake(gap, command.thread);
  } else if (gap.before_call) {
    wait_on_host(gap.command, command.thread);
  } else {
    wait_in_stream(gap.command, command);
  }
}

bool Builder::exists(int stream) const {
  return this->stream(stream).kind >= StreamKind::legacy || std::count(streams_.begin(), streams_.end(), stream) > 0;
}

int Builder::record(int thread, int stream) {
  const int device = this->stream(stream).device;
  std::vector<int> known;
  for (const int e : events_) {
    const EventDecl& decl = program_.events[static_cast<std::size_t>(e)];
    if (decl.device == device && (decl.thread == thread || random_.percent(8))) known.push_back(e);
  }
  Command c = make(Kind::record, thread, stream);
  if (!known.empty() && random_.percent(55)) {
    c.event = random_.pick(known);
  } else {
    c.event = add_event({device, random_.percent(35), thread});
    c.fresh = random_.percent(50);
    if (!c.fresh) {
      Command event = make(Kind::make_event, thread);
      event.event = c.event;
      put(event);
    }
  }
  const int event = c.event;
  put(std::move(c));
  return event;
}

/// The other thread tells this one, after its call, perhaps with an event to wait for.
void Builder::handshake(const Gap& gap, int to) {
  const Command& earlier = program_.commands[gap.command];
  const int from = earlier.thread;
  if (gap.after_run && random_.percent(40) && exists(earlier.stream)) record(from, earlier.stream);
  Command tell = make(Kind::signal, from);
  tell.number = handshakes_++;
  Command hear = make(Kind::await, to);
  hear.number = tell.number;
  put(tell);
  put(hear);
}

std::vector<int> Builder::covering_events(std::size_t earlier, int thread) const {
  std::vector<int> found;
  for (const int e : events_) {
    const auto record = order_.last_record(e, thread);
    if (!record || !order_.ordered(earlier, *record)) continue;
    Command wait = make(Kind::sync_event, thread);
    wait.event = e;
    if (!order_.gap(wait)) found.push_back(e);
  }
  return found;
}

void Builder::wait_on_host(std::size_t earlier, int thread) {
  const int stream = program_.commands[earlier].stream;
  const std::vector<int> covering = covering_events(earlier, thread);
  Command c = make(Kind::sync_all, thread);
  const bool alive = exists(stream);
  switch (random_.weighted({alive ? 45u : 0u, alive ? 20u : 0u, covering.empty() ? 0u : 30u,
                            may_wait_for_all() ? 7u : 0u, may_wait_for_all() ? 3u : 0u})) {
    case 0:
      c.kind = Kind::sync_stream;
      c.stream = stream;
      break;
    case 1:
      c.kind = Kind::sync_event;
      c.event = record(thread, stream);
      break;
    case 2:
      c.kind = Kind::sync_event;
      c.event = random_.pick(covering);
      break;
    case 3:
      c.kind = Kind::sync_device;
      c.device = this->stream(stream).device;
      break;
    default: break;
  }
  put(c);
}

void Builder::wait_in_stream(std::size_t earlier, const Command& command) {
  const int from = program_.commands[earlier].stream;
  const StreamDecl& source = stream(from);
  const int thread = command.thread;
  const std::vector<int> covering = covering_events(earlier, thread);
  const bool alive = exists(from);
  const bool scope = !captured_ && !command.implicit && command.kind != Kind::enter &&
                     order_.current(thread, stream(command.stream).device) == from;
  const bool by_legacy =
      !captured_ && theme_.defaults && (source.kind == StreamKind::blocking || source.kind == StreamKind::per_thread);
  Command c = make(Kind::wait_event, thread, command.stream);
  switch (random_.weighted({alive ? 45u : 0u, covering.empty() ? 0u : 40u, alive ? 20u : 0u, scope ? 30u : 0u,
                            by_legacy ? 5u : 0u, captured_ ? 0u : 8u})) {
    case 0: c.event = record(thread, from); break;
    case 1: c.event = random_.pick(covering); break;
    case 2:
      c.kind = Kind::wait_stream;
      c.other = from;
      break;
    case 3:
      c.kind = Kind::enter;
      c.other = from;
      break;
    case 4:
      c.kind = Kind::wait_stream;
      c.other = legacy(source.device);
      break;
    default: wait_on_host(earlier, thread); return;
  }
  put(c);
}

}  // namespace weir::stress
