// Host threads of a random program, their objects and their waits, as calls of the library.
#include "execute.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "bodies.hpp"
#include "kernels.hpp"
#include "machine.hpp"
#include "support/between_looks.hpp"
#include "watchdog.hpp"

namespace weir::stress {

namespace {

/// Waits until the flag is set, or for as long as the limit says.
struct Gate {
  const std::atomic<bool>* open;
  std::chrono::milliseconds limit;
  void operator()(std::size_t) const {
    const auto end = std::chrono::steady_clock::now() + limit;
    for (int looks = 0; !open->load() && std::chrono::steady_clock::now() < end; ++looks)
      weir_test::between_looks(looks);
  }
};
struct Open {
  std::atomic<bool>* gate;
  void operator()(std::size_t) const { gate->store(true); }
};

thread_local bool repeating = false;
struct Repeating {
  Repeating() { repeating = true; }
  ~Repeating() { repeating = false; }
};

}  // namespace

std::string_view tested_backend() {
  static const char* const wanted = std::getenv("WEIR_TEST_BACKEND");
  return wanted != nullptr && *wanted != '\0' ? wanted : "cpu";
}

std::size_t question_to_probe(const Program& program) {
  std::size_t last = program.commands.size();
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    const Kind kind = program.commands[i].kind;
    if (kind == Kind::fail_kernel || kind == Kind::fail_host || program.threads > 1) return program.commands.size();
    if (kind == Kind::query_stream) last = i;
  }
  return last;
}

bool repeats_refused_calls() { return repeating; }

Outcome execute(const Program& program, const std::optional<Hold>& hold) {
  const Watchdog watchdog([&] { return "seed " + std::to_string(program.seed) + "\n" + to_text(program); });
  return Machine(program, hold).run();
}

Machine::Machine(const Program& program, const std::optional<Hold>& hold)
    : program_(program),
      hold_(hold),
      devices_(devices(tested_backend())),
      refs_(program.streams.size()),
      made_(program.streams.size()),
      events_(program.events.size()),
      pools_(program.pools.size()),
      arrays_(program.arrays.size()),
      graphs_(program.graphs.size()),
      signals_(program.commands.size()),
      started_(program.threads),
      ended_(program.threads),
      probed_(question_to_probe(program)),
      parts_(index(program.threads)) {
  for (std::size_t g = 0; g < program.graphs.size(); ++g) {
    for (const Command& inner : program.graphs[g].body) {
      if (inner.number < 0) continue;
      names_of_nodes_[&inner] = "g" + std::to_string(g) + "." + std::to_string(inner.number);
    }
  }
  for (std::size_t s = 0; s < program.streams.size(); ++s) {
    const StreamDecl& decl = program.streams[s];
    if (decl.kind == StreamKind::legacy) refs_[s] = legacy_stream(devices_[index(decl.device)]);
    if (decl.kind == StreamKind::own) refs_[s] = get_stream(devices_[index(decl.device)]);
  }
}

Outcome Machine::run() {
  Outcome outcome;
  if (program_.threads == 1) {
    run_thread(0);
  } else {
    std::vector<std::thread> threads;
    for (int t = 0; t < program_.threads; ++t) threads.emplace_back([this, t] { run_thread(t); });
    for (std::thread& thread : threads) thread.join();
  }
  for (Outcome& part : parts_) {
    outcome.read.merge(part.read);
    outcome.answers.merge(part.answers);
    outcome.thrown.merge(part.thrown);
  }
  finish(outcome);
  outcome.complaints = complaints_;
  return outcome;
}

void Machine::run_thread(int thread) {
  for (std::size_t s = 0; s < program_.streams.size(); ++s) {
    const StreamDecl& decl = program_.streams[s];
    const Device device = devices_[index(decl.device)];
    if (decl.kind == StreamKind::per_thread && decl.thread == thread) refs_[s] = per_thread_stream(device);
    if (decl.kind == StreamKind::own && get_stream(device) != refs_[s]) {
      complain("a new host thread's current stream is not the device's own");
    }
  }
  // Streams of a thread may be used by the others, from the start and to the end.
  started_.arrive_and_wait();
  Scopes scopes;
  for (std::size_t i = 0; i < program_.commands.size(); ++i) {
    if (program_.commands[i].thread == thread) run_command(i, scopes, parts_[index(thread)]);
  }
  while (!scopes.empty()) scopes.pop_back();
  for (std::size_t s = 0; s < program_.streams.size(); ++s) {
    if (program_.streams[s].kind == StreamKind::own) set_stream(refs_[s]);
  }
  ended_.arrive_and_wait();
}

void Machine::complain(const std::string& text) {
  const std::lock_guard lock(mutex_);
  complaints_.push_back(text);
}

template <class F>
void Machine::guarded(std::size_t number, Outcome& outcome, F&& f) {
  const auto what = [&] {
    return number < program_.commands.size() ? to_text(program_, program_.commands[number]) : std::string("at the end");
  };
  try {
    f();
  } catch (const Error& error) {
    try {
      if (error.cause()) std::rethrow_exception(error.cause());
      complain(what() + ": " + error.what());
    } catch (const PlannedFailure& failure) {
      outcome.thrown[number] = failure.salt;
    } catch (const std::exception&) {
      complain(what() + ": " + error.what());
    }
  } catch (const std::exception& error) {
    complain(what() + ": " + error.what());
  }
}

void Machine::run_command(std::size_t number, Scopes& scopes, Outcome& outcome) {
  const Command& c = program_.commands[number];
  if (c.sabotaged) return;
  guarded(number, outcome, [&] {
    const bool held = hold_ && hold_->command == number;
    const bool lets_go = hold_ && hold_->until == number;
    if (held) launch(stream(c), 1, host_only(Gate{&held_command_may_go_, hold_->limit}));
    dispatch(number, c, scopes, outcome);
    if (!lets_go) return;
    if (runs_in_stream(c.kind)) {
      launch(stream(c), 1, host_only(Open{&held_command_may_go_}));
    } else {
      held_command_may_go_ = true;
    }
  });
}

void Machine::dispatch(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome) {
  if (c.kind == Kind::make_graph) return capture_graph(number, c, scopes, outcome);
  for (;;) {
    try {
      const Repeating again;
      return call(number, c, scopes, outcome);
    } catch (const Error& error) {
      if (error.errc() != Errc::hazard) throw;
    }
  }
}

void Machine::call(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome) {
  if (work(number, c, outcome)) return;
  switch (c.kind) {
    case Kind::query_stream:
    case Kind::query_event:
    case Kind::elapsed: return ask(number, c, outcome);
    case Kind::sync_stream:
    case Kind::sync_event:
    case Kind::sync_device:
    case Kind::sync_all: return synchronize(c);
    case Kind::record:
    case Kind::wait_event:
    case Kind::wait_stream:
    case Kind::enter:
    case Kind::leave:
    case Kind::set_current:
    case Kind::signal:
    case Kind::await: return order(c, scopes);
    case Kind::replay: return graphs_[index(c.graph)].launch(stream(c));
    case Kind::update_graph: return update_graph(c);
    case Kind::drop_graph: graphs_[index(c.graph)] = Graph(); return;
    default: return objects(c);
  }
}

EventRef Machine::event(int e) const {
  if (const auto* plain = std::get_if<Event>(&events_[index(e)])) return *plain;
  if (const auto* timed = std::get_if<TimedEvent>(&events_[index(e)])) return *timed;
  return {};
}

void Machine::order(const Command& c, Scopes& scopes) {
  switch (c.kind) {
    case Kind::record:
      if (!c.fresh) return stream(c).record(event(c.event));
      if (program_.events[index(c.event)].timed) {
        events_[index(c.event)] = stream(c).record_timed();
      } else {
        events_[index(c.event)] = stream(c).record();
      }
      return;
    case Kind::wait_event: return stream(c).wait(event(c.event));
    case Kind::wait_stream: return stream(c).wait(refs_[index(c.other)]);
    case Kind::enter: scopes.push_back(std::make_unique<ScopedStream>(stream(c))); return;
    case Kind::leave:
      if (!scopes.empty()) scopes.pop_back();  // its beginning may have failed, which was said then
      return;
    case Kind::set_current: return set_stream(stream(c));
    case Kind::signal: signals_[index(c.number)] = true; return signals_[index(c.number)].notify_all();
    default: return signals_[index(c.number)].wait(false);
  }
}

void Machine::synchronize(const Command& c) {
  const bool by_member = c.salt % 2 == 0;
  switch (c.kind) {
    case Kind::sync_stream: return by_member ? stream(c).synchronize() : synchronize_stream(stream(c));
    case Kind::sync_event: return by_member ? event(c.event).synchronize() : synchronize_event(event(c.event));
    case Kind::sync_device: {
      const Device device = devices_[index(c.device)];
      return by_member ? device.synchronize() : synchronize_device(device);
    }
    default: return weir::synchronize();
  }
}

void Machine::objects(const Command& c) {
  switch (c.kind) {
    case Kind::make_stream: {
      const StreamDecl& decl = program_.streams[index(c.stream)];
      const StreamOptions options{.priority = decl.priority, .blocking = decl.kind == StreamKind::blocking};
      made_[index(c.stream)] = std::make_unique<Stream>(devices_[index(decl.device)], options);
      refs_[index(c.stream)] = *made_[index(c.stream)];
      return;
    }
    case Kind::drop_stream: return made_[index(c.stream)].reset();
    case Kind::make_event: {
      const EventDecl& decl = program_.events[index(c.event)];
      if (decl.timed) {
        events_[index(c.event)].emplace<TimedEvent>(devices_[index(decl.device)]);
      } else {
        events_[index(c.event)].emplace<Event>(devices_[index(decl.device)]);
      }
      return;
    }
    case Kind::drop_event: events_[index(c.event)] = std::monostate{}; return;
    case Kind::make_pool: {
      const PoolDecl& decl = program_.pools[index(c.pool)];
      const PoolOptions options{.release_threshold = decl.release_threshold};
      pools_[index(c.pool)] = std::make_unique<Pool>(devices_[index(decl.device)], options);
      return;
    }
    case Kind::drop_pool: return pools_[index(c.pool)].reset();
    case Kind::trim_pool: return pools_[index(c.pool)]->trim();
    default: return;
  }
}

void Machine::update_graph(const Command& c) {
  Graph& graph = graphs_[index(c.graph)];
  const Command& captured = *updated(program_, c);
  const Node node = graph.find(names_of_nodes_.at(&captured));
  if (c.change == Change::disable) return graph.disable(node);
  if (c.change == Change::enable) return graph.enable(node);
  Command changed = captured;
  changed.salt = c.salt;
  changed.delay = c.delay;
  update_kernel(graph, node, changed);
}

namespace {

struct CountDown {
  WEIR_KERNEL void operator()(std::size_t, View<std::int32_t> left) const { left(0) -= 1; }
};

}  // namespace

/// Inside a conditional node, which each replay decides anew.
void Machine::capture_controlled(const Command& c, const Array<std::int32_t>& condition, Outcome& outcome) {
  const auto turns = static_cast<std::int32_t>(c.turns);
  const auto once = [&] { work(0, c, outcome); };
  const auto nothing = [] {};
  switch (c.control) {
    case Control::if_: fill(stream(c), condition, turns); return capture_if(stream(c), condition, once);
    case Control::if_else:
      fill(stream(c), condition, 1 - turns);
      return capture_if(stream(c), condition, nothing, once);
    case Control::switch_:
      fill(stream(c), condition, 2 * turns);
      return capture_switch(stream(c), condition, nothing, nothing, once);
    default:
      fill(stream(c), condition, turns);
      return capture_while(stream(c), condition, [&] {
        once();
        launch(stream(c), 1, CountDown{}, inout(condition));
      });
  }
}

void Machine::capture_graph(std::size_t number, const Command& c, Scopes& scopes, Outcome& outcome) {
  std::vector<Array<std::int32_t>> conditions;
  for (const Command& inner : graph_of(program_, c).body) {
    if (inner.control == Control::none) continue;
    const Stream elsewhere(device_of(inner), {.blocking = false});
    conditions.push_back(zeros<std::int32_t>(elsewhere, 1));
    elsewhere.synchronize();
  }
  const auto body = [&] {
    auto condition = conditions.begin();
    for (const Command& inner : graph_of(program_, c).body) {
      if (inner.control == Control::none) {
        dispatch(number, inner, scopes, outcome);
      } else {
        capture_controlled(inner, *condition++, outcome);
      }
    }
  };
  Graph& graph = graphs_[index(c.graph)];
  // A scope makes its stream the current one, and ends that; the program's own changes stay.
  const auto changes_current = [](const Command& inner) {
    return inner.kind == Kind::enter || inner.kind == Kind::leave || inner.kind == Kind::set_current;
  };
  const auto& commands = graph_of(program_, c).body;
  const bool by_calls = std::any_of(commands.begin(), commands.end(), changes_current);
  const auto with_own_current = [&, current = get_stream(stream(c).device()), device = default_device()] {
    set_stream(current);
    set_default_device(device);
    body();
  };
  if (by_calls || c.salt % 3 == 0) {
    capture_begin(stream(c));
    body();
    graph = capture_end(stream(c));
  } else if (c.salt % 3 == 1) {
    ScopedCapture scope(stream(c));
    with_own_current();
    graph = scope.finish();
  } else {
    graph = capture(stream(c), with_own_current);
  }
  if (is_capturing(stream(c))) complain("a stream captures on");
}

/// A stream that says it is done has run what was put on it: looked for with a command more, which is slow.
void Machine::ask_behind_a_probe(const Command& c) {
  const auto put = [&](auto note) {
    host_call(stream(c), [note, delay = c.salt % 20'000, token = token_] {
      spin(delay);
      note();
    });
  };
  if (false_yes(put, [&] { return stream(c).done(); })) complain("a stream is done, and its last command has not run");
}

void Machine::ask(std::size_t number, const Command& c, Outcome& outcome) {
  if (c.kind == Kind::query_stream) {
    outcome.answers[number] = stream(c).done();
    if (number == probed_) ask_behind_a_probe(c);
  }
  if (c.kind == Kind::query_event) outcome.answers[number] = event(c.event).done();
  if (c.kind != Kind::elapsed) return;
  const Milliseconds time =
      elapsed(std::get<TimedEvent>(events_[index(c.event)]), std::get<TimedEvent>(events_[index(c.event2)]));
  if (c.event == c.event2 && time.count() != 0) complain("time passes between an event and itself");
}

/// Everything that is left: failures not yet thrown, values not yet read, host functions not yet destroyed.
void Machine::finish(Outcome& outcome) {
  const std::size_t end_of_program = program_.commands.size();
  for (bool failed = true; failed;) {
    guarded(end_of_program, outcome, [] { weir::synchronize(); });
    const auto failure = outcome.thrown.extract(end_of_program);
    failed = !failure.empty();
    if (failed) outcome.left.push_back(failure.mapped());
  }
  std::sort(outcome.left.begin(), outcome.left.end());
  guarded(end_of_program, outcome, [&] {
    outcome.arrays.resize(arrays_.size());
    for (std::size_t a = 0; a < arrays_.size(); ++a) {
      if (arrays_[a].storage() == nullptr) continue;
      if (arrays_[a].kind() == MemoryKind::device) {
        outcome.arrays[a] = arrays_[a].to_host();
      } else {
        outcome.arrays[a].assign(arrays_[a].begin(), arrays_[a].end());
      }
    }
  });
  // The ends of arrays may wait in streams that the next program finds again.
  graphs_.clear();
  arrays_.clear();
  guarded(end_of_program, outcome, [] { weir::synchronize(); });
  if (outcome.thrown.erase(end_of_program) > 0) complain("a synchronisation of all devices missed a failure");
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  for (int looks = 0; token_.use_count() > 1 && std::chrono::steady_clock::now() < end; ++looks)
    weir_test::between_looks(looks);
  if (token_.use_count() > 1) complain("a host function was never destroyed");
}

}  // namespace weir::stress
