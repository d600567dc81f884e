// The rules of the memory model, each where an event is added: coherence, synchronisation, the order of seq_cst operations.
#include "graph.hpp"

#include <bitset>

namespace model {

bool holds(Condition condition, std::uint64_t expected, std::uint64_t value) {
  switch (condition) {
    case Condition::always: return true;
    case Condition::equals: return value == expected;
    case Condition::differs: return value != expected;
    case Condition::at_least: return value >= expected;
  }
  return false;
}

EventId Graph::add(Event event) {
  const auto id = static_cast<EventId>(events.size());
  auto& thread = threads[event.thread];
  event.index = static_cast<std::uint16_t>(thread.size());
  if (event.kind == Kind::construct) {
    event.place = event.last = id;
    event.position = 0;
  } else {
    event.previous = events[event.place].last;
    events[event.place].last = id;
  }
  events.push_back(event);
  thread.push_back(id);
  learn(id);
  return id;
}

/// What is known after an event of the same thread.
Knowledge Graph::after(EventId id) const {
  const Event& event = events[id];
  Knowledge known{event.happened, event.strong};
  known.strong.add(event.thread, event.index);
  EventId read = id;
  if (event.kind == Kind::update_write) read = threads[event.thread][event.index - 1u];
  // What an acquire read learns lies strongly before what follows it, not before itself.
  if (events[read].acquires() && events[read].from != none) known.strong.join(events[events[read].from].message.strong);
  return known;
}

Knowledge Graph::before(const Event& event) const {
  if (event.index != 0) return after(threads[event.thread][event.index - 1u]);
  Knowledge known;
  for (int thread = 0; thread < most_threads; ++thread) {
    const auto& theirs = threads[static_cast<std::size_t>(thread)];
    const bool earlier = event.thread == end_thread || thread == setup_thread;
    if (earlier && thread != event.thread && !theirs.empty()) known.join(after(theirs.back()));
  }
  return known;
}

Clock Graph::causes_before(const Event& event) const {
  if (event.index != 0) return events[threads[event.thread][event.index - 1u]].causes;
  Clock known;
  for (int thread = 0; thread < most_threads; ++thread) {
    const auto& theirs = threads[static_cast<std::size_t>(thread)];
    const bool earlier = event.thread == end_thread || thread == setup_thread;
    if (earlier && thread != event.thread && !theirs.empty()) known.join(events[theirs.back()].causes);
  }
  return known;
}

void Graph::learn(EventId id) {
  Event& event = events[id];
  const Knowledge known = before(event);
  event.happened = known.happened;
  event.strong = known.strong;
  event.causes = causes_before(event);
  event.happened.add(event.thread, event.index);
  event.causes.add(event.thread, event.index);
  const Event* read = nullptr;
  if (event.kind == Kind::update_write) {
    read = &events[threads[event.thread][event.index - 1u]];
    event.strong = read->strong;  // one operation with its read
  }
  event.message = {};
  if (event.releases()) event.message = {event.happened, event.strong};
  if (read != nullptr) event.message.join(events[read->from].message);  // release sequences go on
}

void Graph::read_from(EventId id, EventId store) {
  Event& read = events[id];
  const Event& source = events[store];
  read.from = store;
  read.value = source.value;
  if (read.kind != Kind::plain_read) {
    const bool writes = read.update && holds(read.condition, read.expected, read.value);
    read.kind = writes ? Kind::update_read : Kind::load;
  }
  learn(id);
  if (read.kind == Kind::plain_read) return;
  read.causes.join(source.causes);
  if (read.acquires()) read.happened.join(source.message.happened);
}

void Graph::place_after(EventId store, EventId before) {
  Event& event = events[store];
  const std::uint16_t position = events[before].position;
  for (EventId id = events[event.place].last; id != none; id = events[id].previous) {
    Event& other = events[id];
    if (other.writes() && other.position != unplaced && other.position > position) ++other.position;
  }
  event.position = static_cast<std::uint16_t>(position + 1);
}

std::uint16_t Graph::floor(EventId event) const {
  std::uint16_t least = 0;
  for (EventId id = events[events[event].place].last; id != none; id = events[id].previous) {
    if (!happened_before(id, event)) continue;
    const Event& other = events[id];
    if (other.writes() && other.position != unplaced) least = std::max(least, other.position);
    if (other.reads() && other.from != none) least = std::max(least, events[other.from].position);
  }
  return least;
}

EventId Graph::newest_store(EventId place) const {
  EventId newest = none;
  for (EventId id = events[place].last; id != none; id = events[id].previous) {
    const Event& event = events[id];
    if (event.writes() && event.position != unplaced && (newest == none || event.position > events[newest].position))
      newest = id;
  }
  return newest;
}

EventId Graph::updated_by(EventId store) const {
  for (EventId id = events[events[store].place].last; id != none; id = events[id].previous) {
    const Event& event = events[id];
    if (event.kind == Kind::update_write && event.position != unplaced &&
        events[threads[event.thread][event.index - 1u]].from == store)
      return id;
  }
  return none;
}

bool Graph::sequential_order_exists() const {
  using Set = std::bitset<most_events>;
  struct Node {
    EventId id;
    std::uint32_t key;  ///< stores at twice their position, reads right behind what they read
  };
  static thread_local std::vector<Node> nodes;
  static thread_local std::vector<Set> before;
  nodes.clear();
  for (std::size_t i = 0; i < events.size(); ++i) {
    const Event& event = events[i];
    if (!event.sequential() || event.thread == setup_thread) continue;
    if (event.writes() && event.position == unplaced) continue;
    const std::uint32_t key = event.writes() ? 2u * event.position : 2u * events[event.from].position + 1u;
    nodes.push_back({static_cast<EventId>(i), key});
  }
  before.assign(nodes.size(), Set{});
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Event& one = events[nodes[i].id];
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      const Event& other = events[nodes[j].id];
      if (other.strong.covers(one.thread, one.index) || (one.place == other.place && nodes[i].key < nodes[j].key))
        before[j].set(i);
    }
  }
  Set left;
  for (std::size_t i = 0; i < nodes.size(); ++i) left.set(i);
  for (bool progress = true; progress && left.any();) {
    progress = false;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!left.test(i) || (before[i] & left).any()) continue;
      left.reset(i);
      progress = true;
    }
  }
  return left.none();
}

bool Graph::was_newest(EventId id, EventId store) const {
  const Event& event = events[id];
  if (event.plain() || event.kind == Kind::construct || event.kind == Kind::destroy) return true;  // never a choice
  const auto stays = [&](EventId other) { return other <= id || causes(other, store); };
  const EventId seen = event.writes() ? id : event.from;
  if (!stays(seen)) return false;
  for (EventId other = events[event.place].last; other != none; other = events[other].previous) {
    if (other == store || !stays(other)) continue;
    const Event& theirs = events[other];
    if (theirs.atomic_read() && theirs.from == id) return false;
    if (theirs.writes() && theirs.position != unplaced && theirs.position > events[seen].position) return false;
  }
  return true;
}

bool Graph::added_as_newest(EventId read, EventId store) const {
  for (EventId id = read; id < events.size(); ++id) {
    if (id == store || (id != read && causes(id, store))) continue;
    if (!was_newest(id, store)) return false;
  }
  return true;
}

EventId Graph::revisit(EventId read, EventId store, Graph& into) const {
  static thread_local std::vector<EventId> renamed;
  renamed.assign(events.size(), none);
  into.events.clear();
  for (auto& thread : into.threads) thread.clear();
  const auto take = [&](EventId id) {
    Event event = events[id];
    const auto name = static_cast<EventId>(into.events.size());
    renamed[id] = name;
    event.place = renamed[event.place];
    if (event.kind == Kind::construct) {
      event.last = name;
    } else {
      event.previous = into.events[event.place].last;
      into.events[event.place].last = name;
    }
    into.events.push_back(event);
    into.threads[event.thread].push_back(name);
  };
  for (EventId id = 0; id < events.size(); ++id) {
    if (id != store && (id <= read || causes(id, store))) take(id);
  }
  take(store);
  for (Event& event : into.events) {
    if (event.from != none) event.from = renamed[event.from];
  }
  const EventId name = renamed[store];
  into.events[name].position = unplaced;
  into.read_from(renamed[read], name);
  return name;
}

}  // namespace model
