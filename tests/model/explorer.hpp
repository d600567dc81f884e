// Runs a scenario of a few threads through every execution that the C++20 memory model allows, one at a time.
//
// Each execution is a graph (graph.hpp). A read that is added tries every store that it may see, a store every place in the
// modification order; and it goes back to each read that was added before and could have seen it. With the rule that says
// from which graph it may go back, every graph is tried once (Kokologiannakis, Marmanis, Gladstein and Vafeiadis, "Truly
// stateless, optimal dynamic partial order reduction", 2022). Threads need not take turns for that: each runs by itself,
// and the graph tells it what it reads.
//
// What it does not try: executions with reads that see stores of their own future ("out of thin air" and load buffering),
// which no test needs that has no relaxed store behind a relaxed load; compare_exchange_weak that fails for no reason; a
// spin loop that goes round twice: a thread that spins stays where it is, and is tried again with each newer store.
//
// What threads share is Atomic or Plain and lies in the scenario's state: a thread that waits is left, its stack is gone.
// A piece of memory is one object's during an execution: std::optional is emplaced and reset once.
#pragma once

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph.hpp"

namespace model {

struct Operation {
  const char* name;  ///< "load", "store", "exchange", "fetch_or", ...
  Where where;       ///< with the function that contains it
  std::memory_order order;
};

struct Thread {
  std::string name;
  std::function<void()> body;
};

struct Scenario {
  std::function<void()> tear_down;  ///< takes the shared state of the execution before away
  std::function<void()> set_up;
  std::vector<Thread> threads;
  std::function<void()> at_end;  ///< when all threads have finished: what must be true then
};

struct Limits {
  std::uint64_t most_executions = 3'000'000;
  /// Asked at each operation for the order to use: to plant defects.
  std::function<std::memory_order(const Operation&)> weaken;
  /// Given each execution that came to its end.
  std::function<void(const Graph&)> observe;
};

struct Result {
  bool failed = false;
  bool complete = false;  ///< everything was tried
  std::string what;       ///< what failed, with the execution that led there
  std::uint64_t executions = 0;
  std::uint64_t waiting = 0;  ///< executions in which a thread waits for a store that others see: part of another one
};

Result explore(const Scenario& scenario, const Limits& limits = {});

/// The same with a state that is made anew for each execution.
template <class State>
struct Role {
  std::string name;
  std::function<void(State&)> body;
};
template <class State>
Result explore(const std::vector<Role<State>>& roles, const std::function<void(State&)>& at_end,
               const Limits& limits = {}, const std::function<void(State&)>& set_up = {}) {
  std::optional<State> state;
  Scenario scenario;
  scenario.tear_down = [&] { state.reset(); };
  scenario.set_up = [&] {
    state.emplace();
    if (set_up) set_up(*state);
  };
  for (const Role<State>& role : roles) scenario.threads.push_back({role.name, [&] { role.body(*state); }});
  if (at_end) scenario.at_end = [&] { at_end(*state); };
  return explore(scenario, limits);
}

// For threads of a scenario.

/// Fails the scenario if this is not so.
void check(bool right, const char* sentence, Where where = Where::current());
/// Executions in which this is not so are of no interest.
void assume(bool interesting);

// What Atomic and Plain are made of.

struct Request {
  const char* name;
  std::memory_order order;
  std::memory_order failure_order = std::memory_order_relaxed;
  Condition condition = Condition::always;
  std::uint64_t expected = 0;
  bool waits = false;  ///< the thread goes on only if the condition holds
  bool idle = false;   ///< and may wait so at the end
};
void construct(const void* object, std::uint64_t value, Where where);
void destroy(const void* object) noexcept;
std::uint64_t read(const void* object, const Request& request, Where where);
void write(const void* object, const char* name, std::memory_order order, std::uint64_t value, Where where);
/// True if it wrote; `value` is what it read. `next` makes what it writes.
bool update(const void* object, const Request& request, std::uint64_t& value,
            std::uint64_t (*next)(std::uint64_t, std::uint64_t), std::uint64_t operand, Where where);
std::uint64_t plain_read(const void* object);
void plain_write(const void* object, std::uint64_t value);
/// The thread spins: it stays here, in this execution.
void spin();

template <class T>
std::uint64_t to_word(T value) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T from_word(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

/// A std::atomic whose operations are the explorer's.
template <class T>
class Atomic {
  using Order = std::memory_order;
  static constexpr Order sequential = std::memory_order_seq_cst;

 public:
  using value_type = T;

  Atomic(T value = T{}, Where where = Where::current())  // NOLINT: as std::atomic
  {
    construct(this, to_word(value), where);
  }
  ~Atomic() { destroy(this); }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(Order order = sequential, Where where = Where::current()) const {
    return from_word<T>(read(this, {"load", order}, where));
  }
  void store(T value, Order order = sequential, Where where = Where::current()) {
    write(this, "store", order, to_word(value), where);
  }
  T exchange(T value, Order order = sequential, Where where = Where::current()) {
    return change("exchange", value, order, where, [](T, T operand) { return operand; });
  }
  T fetch_add(T value, Order order = sequential, Where where = Where::current()) {
    return change("fetch_add", value, order, where, [](T old, T operand) { return static_cast<T>(old + operand); });
  }
  T fetch_sub(T value, Order order = sequential, Where where = Where::current()) {
    return change("fetch_sub", value, order, where, [](T old, T operand) { return static_cast<T>(old - operand); });
  }
  T fetch_or(T value, Order order = sequential, Where where = Where::current()) {
    return change("fetch_or", value, order, where, [](T old, T operand) { return static_cast<T>(old | operand); });
  }
  T fetch_and(T value, Order order = sequential, Where where = Where::current()) {
    return change("fetch_and", value, order, where, [](T old, T operand) { return static_cast<T>(old & operand); });
  }
  bool compare_exchange_strong(T& expected, T desired, Order success, Order failure, Where where = Where::current()) {
    std::uint64_t value = 0;
    const Request request{"compare_exchange", success, failure, Condition::equals, to_word(expected)};
    const bool written = update(
        this, request, value, [](std::uint64_t, std::uint64_t next) { return next; }, to_word(desired), where);
    if (!written) expected = from_word<T>(value);
    return written;
  }
  bool compare_exchange_strong(T& expected, T desired, Order order = sequential, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, for_failure(order), where);
  }
  bool compare_exchange_weak(T& expected, T desired, Order success, Order failure, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, success, failure, where);
  }
  bool compare_exchange_weak(T& expected, T desired, Order order = sequential, Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, for_failure(order), where);
  }

  // What std::atomic has not.

  /// Goes on when the value is another one. `idle`: the scenario may end instead.
  T await_other(T old, Order order = sequential, bool idle = false, Where where = Where::current()) const {
    return from_word<T>(read(this, {"await", order, order, Condition::differs, to_word(old), true, idle}, where));
  }
  T await_at_least(T least, Order order = sequential, Where where = Where::current()) const {
    return from_word<T>(read(this, {"await", order, order, Condition::at_least, to_word(least), true}, where));
  }
  /// Changes the value once it is `expected`, or, with another condition, once that holds.
  template <class Next>
  T await_update(Condition condition, T expected, Next, Order order = sequential, bool idle = false,
                 Where where = Where::current()) {
    std::uint64_t value = 0;
    update(
        this, {"await", order, order, condition, to_word(expected), true, idle}, value,
        [](std::uint64_t old, std::uint64_t) { return to_word(Next{}(from_word<T>(old))); }, 0, where);
    return from_word<T>(value);
  }

 private:
  static constexpr Order for_failure(Order order) {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    if (order == std::memory_order_release) return std::memory_order_relaxed;
    return order;
  }
  template <class Next>
  T change(const char* name, T operand, Order order, Where where, Next) {
    std::uint64_t value = 0;
    update(
        this, {name, order}, value,
        [](std::uint64_t old, std::uint64_t by) { return to_word(Next{}(from_word<T>(old), from_word<T>(by))); },
        to_word(operand), where);
    return from_word<T>(value);
  }
};

/// A variable that is no atomic: two threads that use it without an order between them are reported.
template <class T>
class Plain {
 public:
  Plain(T value = T{}, Where where = Where::current())  // NOLINT: as a T
  {
    construct(this, to_word(value), where);
  }
  ~Plain() { destroy(this); }
  Plain(const Plain& other) : Plain(static_cast<T>(other)) {}
  Plain& operator=(const Plain& other) { return *this = static_cast<T>(other); }

  operator T() const {  // NOLINT: as a T
    return from_word<T>(plain_read(this));
  }
  Plain& operator=(T value) {
    plain_write(this, to_word(value));
    return *this;
  }
  T operator->() const { return *this; }
  T operator++() { return *this = static_cast<T>(static_cast<T>(*this) + 1), static_cast<T>(*this); }
  T operator+=(T by) { return *this = static_cast<T>(static_cast<T>(*this) + by), static_cast<T>(*this); }

 private:
};

}  // namespace model
