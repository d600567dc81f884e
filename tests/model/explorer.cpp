// The search: replays an execution, goes on with it by the first choice, and keeps the other choices for later.
#include "explorer.hpp"

#include <cxxabi.h>
#include <csetjmp>
#include <exception>
#include <memory>

#include "places.hpp"
#include "trace.hpp"

namespace model {

namespace {

/// Why a thread does not go on.
enum class Stop { finished, waits, spins, idles, dead, failed };

class Explorer {
 public:
  Explorer(const Scenario& scenario, const Limits& limits) : scenario_(scenario), limits_(limits) {}

  Result run();

  bool running() const { return thread_ >= 0; }
  void add_construct(const void* object, std::uint64_t value, Where where);
  void add_destroy(EventId place);
  std::uint64_t add_read(EventId place, const Request& request, Where where, bool update);
  void add_write(EventId place, Kind kind, const char* name, std::memory_order order, std::uint64_t value, Where where);
  std::uint64_t add_plain_read(EventId place);
  void add_plain_write(EventId place, std::uint64_t value);
  /// About the read that was added last: whether it belongs to a store, and of which order.
  bool read_to_write() const { return graph_.events[last_].kind == Kind::update_read; }
  std::memory_order order_of_read() const { return graph_.events[last_].order; }
  /// The place that an object is, whichever thread makes it: that thread may not have run yet in this round.
  EventId place_of(const void* object);
  [[noreturn]] void stop(Stop why);
  [[noreturn]] void fail(const std::string& what);

 private:
  EventId replayed(Kind kind, EventId place);
  EventId add(Event event);
  Event event_at(Kind kind, EventId place, Where where) const;
  std::memory_order order_of(const char* name, std::memory_order order, Where where) const;
  void keep(const Graph& graph) { pending_.push_back(spare(graph)); }
  std::unique_ptr<Graph> spare(const Graph& graph);
  void check_races(EventId event, bool writes);
  void revisit_reads(EventId store);
  void place_store(EventId store);
  void execute();
  Stop run_thread(int thread);
  Stop run_body(const std::function<void()>& body);
  bool sees_newest(int thread, bool spins) const;
  void report(const std::string& what);
  std::string name_of(int thread) const;

  const Scenario& scenario_;
  const Limits& limits_;
  Graph graph_;
  Graph revisited_;
  std::vector<std::unique_ptr<Graph>> pending_;
  std::vector<std::unique_ptr<Graph>> spare_;
  Places places_;
  std::array<std::size_t, most_threads> cursor_{};
  int thread_ = -1;
  std::array<Stop, most_threads> ends_{};
  EventId last_ = none;
  std::jmp_buf leave_;
  Stop stopped_ = Stop::finished;
  Result result_;
};

Explorer* explorer = nullptr;

// Exceptions on their way belong to the thread that threw; the explorer leaves threads in the middle.
struct Exceptions {
  std::array<unsigned char, 2 * sizeof(void*)> bytes{};
  static Exceptions take() {
    Exceptions now;
    std::memcpy(now.bytes.data(), static_cast<void*>(abi::__cxa_get_globals()), now.bytes.size());
    return now;
  }
  void put() const { std::memcpy(static_cast<void*>(abi::__cxa_get_globals()), bytes.data(), bytes.size()); }
};

std::unique_ptr<Graph> Explorer::spare(const Graph& graph) {
  std::unique_ptr<Graph> copy;
  if (spare_.empty()) {
    copy = std::make_unique<Graph>();
  } else {
    copy = std::move(spare_.back());
    spare_.pop_back();
  }
  *copy = graph;
  return copy;
}

std::string Explorer::name_of(int thread) const {
  if (thread == setup_thread) return "set-up";
  if (thread == end_thread) return "end";
  return scenario_.threads[static_cast<std::size_t>(thread - 1)].name;
}

void Explorer::stop(Stop why) {
  stopped_ = why;
  std::longjmp(leave_, 1);
}

void Explorer::report(const std::string& what) {
  result_.failed = true;
  std::vector<std::string> names;
  for (int thread = 0; thread < most_threads; ++thread) {
    const bool used =
        thread == setup_thread || thread == end_thread || static_cast<std::size_t>(thread) <= scenario_.threads.size();
    names.push_back(used ? name_of(thread) : "");
  }
  result_.what = what + "\n" + describe(graph_, names);
}

void Explorer::fail(const std::string& what) {
  report(what);
  stop(Stop::failed);
}

std::memory_order Explorer::order_of(const char* name, std::memory_order order, Where where) const {
  if (!limits_.weaken) return order;
  return limits_.weaken({name, where, order});
}

Event Explorer::event_at(Kind kind, EventId place, Where where) const {
  Event event;
  event.kind = kind;
  event.thread = static_cast<std::uint8_t>(thread_);
  event.place = place;
  event.where = where;
  return event;
}

/// The next event of the running thread, if the graph has it already.
EventId Explorer::replayed(Kind kind, EventId place) {
  auto& at = cursor_[static_cast<std::size_t>(thread_)];
  const auto& events = graph_.threads[static_cast<std::size_t>(thread_)];
  if (at >= events.size()) return none;
  const EventId id = events[at++];
  const Event& event = graph_.events[id];
  const bool same_kind = event.kind == kind || (event.atomic_read() && kind == Kind::load);
  if (!same_kind || (kind != Kind::construct && event.place != place))
    fail("the scenario does not do the same when it is run again (something shared is no Atomic or Plain?)");
  return last_ = id;
}

EventId Explorer::add(Event event) {
  if (graph_.events.size() >= most_events) fail("the scenario is too long");
  ++cursor_[static_cast<std::size_t>(thread_)];
  return last_ = graph_.add(event);
}

void Explorer::add_construct(const void* object, std::uint64_t value, Where where) {
  EventId id = replayed(Kind::construct, none);
  if (id == none) {
    Event event = event_at(Kind::construct, none, where);
    event.value = value;
    event.object = object;
    id = add(event);
  }
  places_.put(object, id);
}

EventId Explorer::place_of(const void* object) {
  const EventId place = places_.of(object);
  if (place == none) fail("use of an object that nobody made, or not during the scenario");
  return place;
}

void Explorer::add_destroy(EventId place) {
  if (replayed(Kind::destroy, place) != none) return;
  check_races(add(event_at(Kind::destroy, place, {})), true);
}

/// What another thread did with the same place must lie before this; and nothing comes after its end.
void Explorer::check_races(EventId id, bool writes) {
  const Event& event = graph_.events[id];
  for (EventId other = graph_.events[event.place].last; other != none; other = graph_.events[other].previous) {
    const Event& theirs = graph_.events[other];
    if (other == id) continue;
    const bool atomics = !event.plain() && !theirs.plain() && event.kind != Kind::destroy &&
                         theirs.kind != Kind::destroy && theirs.kind != Kind::construct;
    const bool reads = !writes && !theirs.writes() && theirs.kind != Kind::destroy;
    if (theirs.kind == Kind::destroy && graph_.happened_before(other, id))
      fail("use of an object that is gone: " + describe_place(graph_.events[event.place].where));
    if (atomics || reads || graph_.happened_before(other, id)) continue;
    fail("data race between " + name_of(theirs.thread) + " and " + name_of(event.thread) + " on what was made at " +
         describe_place(graph_.events[event.place].where));
  }
}

std::uint64_t Explorer::add_read(EventId place, const Request& request, Where where, bool update) {
  EventId id = replayed(Kind::load, place);
  if (id == none) {
    Event event = event_at(Kind::load, place, where);
    event.update = update;
    event.order = order_of(request.name, request.order, where);
    event.failure_order = request.failure_order;
    event.condition = request.condition;
    event.expected = request.expected;
    id = add(event);
    check_races(id, update);
    const std::uint16_t least = graph_.floor(id);
    const EventId newest = graph_.newest_store(place);
    for (EventId store = graph_.events[place].last; store != none; store = graph_.events[store].previous) {
      const Event& source = graph_.events[store];
      if (store == newest || !source.writes() || source.position == unplaced || source.position < least) continue;
      // A thread that waits looks again: what it could have seen before is part of another execution.
      if (request.waits && !holds(request.condition, request.expected, source.value)) continue;
      graph_.read_from(id, store);
      if (!graph_.events[id].sequential() || graph_.sequential_order_exists()) keep(graph_);
    }
    graph_.read_from(id, newest);
  }
  if (request.waits && !holds(request.condition, request.expected, graph_.events[id].value))
    stop(request.idle ? Stop::idles : Stop::waits);
  return graph_.events[id].value;
}

void Explorer::add_write(EventId place, Kind kind, const char* name, std::memory_order order, std::uint64_t value,
                         Where where) {
  if (const EventId known = replayed(kind, place); known != none) {
    if (graph_.events[known].value != value)
      fail("the scenario does not write the same when it is run again (something shared is no Atomic or Plain?)");
    return;
  }
  Event event = event_at(kind, place, where);
  event.order = kind == Kind::store ? order_of(name, order, where) : order;
  event.value = value;
  const EventId id = add(event);
  check_races(id, true);
  revisit_reads(id);
  place_store(id);
}

/// Reads that were there before, and do not lead to this store, could have seen it.
void Explorer::revisit_reads(EventId store) {
  const EventId place = graph_.events[store].place;
  for (EventId read = graph_.events[place].last; read != none; read = graph_.events[read].previous) {
    if (!graph_.events[read].atomic_read() || graph_.causes(read, store) || !graph_.added_as_newest(read, store))
      continue;
    const EventId name = graph_.revisit(read, store, revisited_);
    const Event& added = revisited_.events[name];
    const std::uint16_t least = revisited_.floor(name);
    const std::uint16_t seen_least = revisited_.floor(read);  // what stands before keeps its name
    const Graph unplaced_graph = revisited_;
    const EventId only = added.kind == Kind::update_write
                             ? revisited_.events[revisited_.threads[added.thread][added.index - 1u]].from
                             : none;
    for (EventId before = unplaced_graph.events[added.place].last; before != none;
         before = unplaced_graph.events[before].previous) {
      const Event& behind = unplaced_graph.events[before];
      if (!behind.writes() || behind.position == unplaced || behind.position < std::max(least, seen_least)) continue;
      if (only != none && before != only) continue;
      if (unplaced_graph.updated_by(before) != none) continue;
      revisited_ = unplaced_graph;
      revisited_.place_after(name, before);
      if (revisited_.sequential_order_exists()) keep(revisited_);
    }
  }
}

void Explorer::place_store(EventId store) {
  const Event& event = graph_.events[store];
  const EventId place = event.place;
  if (event.kind == Kind::update_write) {
    const EventId before = graph_.events[graph_.threads[event.thread][event.index - 1u]].from;
    if (graph_.updated_by(before) != none) stop(Stop::dead);
    const bool last = before == graph_.newest_store(place);
    graph_.place_after(store, before);
    if (!last && graph_.events[store].sequential() && !graph_.sequential_order_exists()) stop(Stop::dead);
    return;
  }
  const std::uint16_t least = graph_.floor(store);
  const EventId newest = graph_.newest_store(place);
  for (EventId before = graph_.events[place].last; before != none; before = graph_.events[before].previous) {
    const Event& behind = graph_.events[before];
    if (before == newest || !behind.writes() || behind.position == unplaced || behind.position < least) continue;
    if (graph_.updated_by(before) != none) continue;
    std::unique_ptr<Graph> other = spare(graph_);
    other->place_after(store, before);
    if (!event.sequential() || other->sequential_order_exists()) {
      pending_.push_back(std::move(other));
    } else {
      spare_.push_back(std::move(other));
    }
  }
  graph_.place_after(store, newest);
}

std::uint64_t Explorer::add_plain_read(EventId place) {
  EventId id = replayed(Kind::plain_read, place);
  if (id == none) {
    id = add(event_at(Kind::plain_read, place, {}));
    check_races(id, false);
    graph_.read_from(id, graph_.newest_store(place));
  }
  return graph_.events[id].value;
}

void Explorer::add_plain_write(EventId place, std::uint64_t value) {
  if (replayed(Kind::plain_write, place) != none) return;
  Event event = event_at(Kind::plain_write, place, {});
  event.value = value;
  const EventId id = add(event);
  check_races(id, true);
  graph_.place_after(id, graph_.newest_store(place));
}

Stop Explorer::run_body(const std::function<void()>& body) {
  const Exceptions before = Exceptions::take();
  if (setjmp(leave_) != 0) {  // NOLINT: threads are left where they wait; nothing on their stacks may own anything
    before.put();
    return stopped_;
  }
  try {
    body();
  } catch (const std::exception& e) {
    fail(std::string("an exception left a thread: ") + e.what());
  }
  return Stop::finished;
}

#if defined(__SANITIZE_ADDRESS__)
#define WEIR_LEAKS_ARE_CHECKED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEIR_LEAKS_ARE_CHECKED 1
#endif
#endif

#if defined(WEIR_LEAKS_ARE_CHECKED)
// The exception on its way in a thread that is left is lost.
extern "C" void __lsan_disable();
extern "C" void __lsan_enable();
#else
void __lsan_disable() {}
void __lsan_enable() {}
#endif

Stop Explorer::run_thread(int thread) {
  thread_ = thread;
  const std::function<void()>& body = thread == setup_thread ? scenario_.set_up
                                      : thread == end_thread
                                          ? scenario_.at_end
                                          : scenario_.threads[static_cast<std::size_t>(thread - 1)].body;
  __lsan_disable();
  const Stop why = body ? run_body(body) : Stop::finished;
  __lsan_enable();
  thread_ = -1;
  return why;
}

/// Whether what a waiting thread has seen in its last look is still so. A look of a thread that spins is what it read since
/// it wrote last.
bool Explorer::sees_newest(int thread, bool spins) const {
  const auto& events = graph_.threads[static_cast<std::size_t>(thread)];
  for (std::size_t i = events.size(); i-- > 0;) {
    const Event& event = graph_.events[events[i]];
    if (event.kind == Kind::store) return true;
    if (event.kind == Kind::update_write) return graph_.newest_store(event.place) == events[i];
    if (event.kind != Kind::load) continue;
    if (graph_.newest_store(event.place) != event.from) return false;
    if (!spins) return true;
  }
  return true;
}

void Explorer::execute() {
  cursor_.fill(0);
  places_.clear();
  for (std::size_t id = 0; id < graph_.events.size(); ++id) {
    if (graph_.events[id].kind == Kind::construct) places_.put(graph_.events[id].object, static_cast<EventId>(id));
  }
  if (scenario_.tear_down) scenario_.tear_down();
  if (run_thread(setup_thread) != Stop::finished) return;
  std::string waiting;
  bool newest = true;
  for (int thread = 1; thread <= static_cast<int>(scenario_.threads.size()); ++thread) {
    const Stop why = run_thread(thread);
    if (why == Stop::dead || why == Stop::failed) return;
    ends_[static_cast<std::size_t>(thread)] = why;
    if (why == Stop::waits || why == Stop::spins) waiting += (waiting.empty() ? "" : ", ") + name_of(thread);
  }
  for (int thread = 1; thread <= static_cast<int>(scenario_.threads.size()); ++thread) {
    const Stop why = ends_[static_cast<std::size_t>(thread)];
    if (why != Stop::finished) newest = newest && sees_newest(thread, why == Stop::spins);
  }
  if (!newest) {
    ++result_.waiting;
    return;
  }
  if (!waiting.empty()) {
    report("nobody will ever write what these wait for: " + waiting);
    return;
  }
  if (run_thread(end_thread) != Stop::finished) return;
  ++result_.executions;
  if (limits_.observe) limits_.observe(graph_);
}

Result Explorer::run() {
  pending_.push_back(spare(Graph{}));
  while (!pending_.empty() && !result_.failed) {
    if (result_.executions + result_.waiting >= limits_.most_executions) return result_;
    std::unique_ptr<Graph> next = std::move(pending_.back());
    pending_.pop_back();
    std::swap(graph_, *next);
    spare_.push_back(std::move(next));
    execute();
  }
  if (scenario_.tear_down) scenario_.tear_down();
  result_.complete = !result_.failed;
  return result_;
}

}  // namespace

Result explore(const Scenario& scenario, const Limits& limits) {
  Explorer one(scenario, limits);
  explorer = &one;
  const Result result = one.run();
  explorer = nullptr;
  return result;
}

void check(bool right, const char* sentence, Where where) {
  if (!right) explorer->fail(std::string("not so: ") + sentence + " (" + describe_place(where) + ")");
}

void assume(bool interesting) {
  if (!interesting) explorer->stop(Stop::dead);
}

void spin() { explorer->stop(Stop::spins); }

void construct(const void* object, std::uint64_t value, Where where) {
  if (explorer != nullptr && explorer->running()) explorer->add_construct(object, value, where);
}

void destroy(const void* object) noexcept {
  if (explorer != nullptr && explorer->running()) explorer->add_destroy(explorer->place_of(object));
}

std::uint64_t read(const void* object, const Request& request, Where where) {
  return explorer->add_read(explorer->place_of(object), request, where, false);
}

void write(const void* object, const char* name, std::memory_order order, std::uint64_t value, Where where) {
  explorer->add_write(explorer->place_of(object), Kind::store, name, order, value, where);
}

bool update(const void* object, const Request& request, std::uint64_t& value,
            std::uint64_t (*next)(std::uint64_t, std::uint64_t), std::uint64_t operand, Where where) {
  const EventId place = explorer->place_of(object);
  value = explorer->add_read(place, request, where, true);
  if (!explorer->read_to_write()) return false;
  explorer->add_write(place, Kind::update_write, request.name, explorer->order_of_read(), next(value, operand), where);
  return true;
}

std::uint64_t plain_read(const void* object) { return explorer->add_plain_read(explorer->place_of(object)); }
void plain_write(const void* object, std::uint64_t value) {
  explorer->add_plain_write(explorer->place_of(object), value);
}

}  // namespace model
