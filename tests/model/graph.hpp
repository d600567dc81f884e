// One execution of a scenario as a graph: what each thread did, which store each read saw, and the order of stores to each
// place. Knows which graphs the C++20 memory model allows.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace model {

/// A place in the source: std::source_location, which clang 14 has not.
struct Where {
  const char* file = "";
  const char* function = "";
  unsigned line = 0;

  static constexpr Where current(const char* file = __builtin_FILE(), const char* function = __builtin_FUNCTION(),
                                 unsigned line = __builtin_LINE()) {
    return {file, function, line};
  }
};

/// The set-up, up to four threads, and the check at the end, which is ordered after all of them.
constexpr int most_threads = 6;

using EventId = std::uint16_t;
constexpr EventId none = 0xffff;
constexpr std::size_t most_events = 1000;
constexpr std::uint16_t unplaced = 0xffff;

enum class Kind : std::uint8_t {
  construct,  ///< also the first value of its place; places are named by this event
  load,
  store,
  update_read,  ///< a read-modify-write that wrote is two events, one after the other
  update_write,
  plain_read,
  plain_write,
  destroy,
};

/// What a read must see: to write (a compare-exchange), or for its thread to go on (a wait).
enum class Condition : std::uint8_t { always, equals, differs, at_least };
bool holds(Condition condition, std::uint64_t expected, std::uint64_t value);

/// How many events of each thread lie before something.
struct Clock {
  std::array<std::uint16_t, most_threads> at{};

  bool covers(int thread, int index) const { return at[static_cast<std::size_t>(thread)] > index; }
  void join(const Clock& other) {
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = std::max(at[i], other.at[i]);
  }
  void add(int thread, int index) {
    auto& mine = at[static_cast<std::size_t>(thread)];
    mine = std::max(mine, static_cast<std::uint16_t>(index + 1));
  }
};

/// What a thread, or whoever reads from a store that releases, knows to have happened.
struct Knowledge {
  Clock happened;  ///< happens before
  Clock strong;    ///< strongly happens before: the order of seq_cst operations must agree with it

  void join(const Knowledge& other) {
    happened.join(other.happened);
    strong.join(other.strong);
  }
};

struct Event {
  Kind kind = Kind::load;
  std::uint8_t thread = 0;
  Condition condition = Condition::always;
  bool update = false;  ///< a read that writes if its condition holds
  std::memory_order order = std::memory_order_relaxed;
  std::memory_order failure_order = std::memory_order_relaxed;
  std::uint16_t index = 0;            ///< in its thread
  EventId place = none;               ///< the event that constructed it
  EventId from = none;                ///< reads: the store seen
  std::uint16_t position = unplaced;  ///< stores: in the modification order
  EventId previous = none;            ///< at the same place
  EventId last = none;                ///< constructions: the last event at this place
  std::uint64_t value = 0;            ///< read or written
  std::uint64_t expected = 0;
  Where where;
  const void* object = nullptr;  ///< constructions: what was made

  Clock causes;       ///< by program order and reads-from, itself included
  Clock happened;     ///< before this event, itself included
  Clock strong;       ///< strongly before this event
  Knowledge message;  ///< stores: for acquire reads

  bool reads() const { return kind == Kind::load || kind == Kind::update_read || kind == Kind::plain_read; }
  bool atomic_read() const { return kind == Kind::load || kind == Kind::update_read; }
  bool writes() const {
    return kind == Kind::construct || kind == Kind::store || kind == Kind::update_write || kind == Kind::plain_write;
  }
  bool plain() const { return kind == Kind::plain_read || kind == Kind::plain_write; }
  std::memory_order effective_order() const { return update && kind == Kind::load ? failure_order : order; }
  bool acquires() const {
    const auto order_now = effective_order();
    return atomic_read() && order_now != std::memory_order_relaxed && order_now != std::memory_order_release;
  }
  bool releases() const {
    return (kind == Kind::store || kind == Kind::update_write) && order != std::memory_order_relaxed &&
           order != std::memory_order_acquire && order != std::memory_order_consume;
  }
  bool sequential() const {
    return !plain() && kind != Kind::construct && kind != Kind::destroy &&
           effective_order() == std::memory_order_seq_cst;
  }
};

class Graph {
 public:
  std::vector<Event> events;  ///< in the order in which they were added
  std::array<std::vector<EventId>, most_threads> threads;

  /// Appends to the event's thread; what it reads, or where it stands among the stores, is said afterwards.
  EventId add(Event event);
  void read_from(EventId read, EventId store);
  /// Puts a store right behind another one.
  void place_after(EventId store, EventId before);

  bool happened_before(EventId first, EventId second) const {
    const Event& e = events[first];
    return first != second && events[second].happened.covers(e.thread, e.index);
  }
  bool causes(EventId first, EventId second) const {
    const Event& e = events[first];
    return first != second && events[second].causes.covers(e.thread, e.index);
  }
  /// The first position in the modification order that the event may read from, or be placed behind.
  std::uint16_t floor(EventId event) const;
  EventId newest_store(EventId place) const;
  /// The read-modify-write that stands right behind this store because it read it; none if there is none.
  EventId updated_by(EventId store) const;
  /// Whether there is a total order of the seq_cst operations that agrees with everything else.
  bool sequential_order_exists() const;
  /// What was added until `last`, and what is among the causes of `store`, the store itself last, not yet in its place.
  /// `read` sees the store. The result is `into`; returns the store's name there.
  EventId revisit(EventId read, EventId store, Graph& into) const;
  /// Whether each event that the revisit takes away, and the read itself, was added as the newest: of all graphs from which
  /// the same revisit is possible this is true in one.
  bool added_as_newest(EventId read, EventId store) const;

 private:
  Knowledge before(const Event& event) const;
  Clock causes_before(const Event& event) const;
  Knowledge after(EventId event) const;
  void learn(EventId event);
  bool was_newest(EventId event, EventId store) const;
};

/// The thread of the set-up; and that of the check at the end.
constexpr int setup_thread = 0;
constexpr int end_thread = most_threads - 1;

}  // namespace model
