// Gates hold streams until a test opens them; markers and logs tell what has run. Nothing here sleeps to get an order.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "support/shared_words.hpp"
#include "support/watchdog.hpp"

namespace weir_test {

struct HoldUntilOpen {
  WEIR_KERNEL void operator()(std::size_t, int* opened, int* begun, int* given_up) const {
    add_to_word(begun, 1);
    if (!wait_for_word(opened)) store_word(given_up, 1);
  }
};
struct WriteMark {
  WEIR_KERNEL void operator()(std::size_t, int* word, int value) const { store_word(word, value); }
};
struct CountUp {
  WEIR_KERNEL void operator()(std::size_t, int* count) const { add_to_word(count, 1); }
};
struct AppendToLog {
  WEIR_KERNEL void operator()(std::size_t, int* count, int* entries, int capacity, int value) const {
    const int place = add_to_word(count, 1);
    if (place < capacity) store_word(entries + place, value);
  }
};

/// Holds streams. Shut at first; opens for good, at the latest when destroyed, so that a failing test does not hang.
class Gate {
 public:
  Gate() : words_(make_words(3)) {}
  ~Gate() {
    open();
    EXPECT_EQ(load_word(words_ + 2), 0) << "a held kernel waited 20 s for its gate and gave up";
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// A kernel that ends when the gate is open.
  void hold(weir::StreamRef stream, weir::SourceLocation where = weir::SourceLocation::current()) {
    weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "hold"}, HoldUntilOpen{}, words_,
                 words_ + 1, words_ + 2);
  }
  /// The same by a host function.
  void hold_by_host_call(weir::StreamRef stream, weir::SourceLocation where = weir::SourceLocation::current()) {
    weir::host_call(weir::StreamArg(stream, where), [words = words_] {
      add_to_word(words + 1, 1);
      if (!wait_for_word(words)) store_word(words + 2, 1);
    });
  }
  void open() { store_word(words_, 1); }
  bool is_open() const { return load_word(words_) != 0; }
  /// How many holding kernels and host functions have begun.
  int begun() const { return load_word(words_ + 1); }

 private:
  int* words_;
};

/// Integers that kernels write; 0 at first.
class Marker {
 public:
  explicit Marker(std::size_t count = 1) : words_(make_words(count)) {}
  int value(std::size_t i = 0) const { return load_word(words_ + i); }
  void set(int value, std::size_t i = 0) { store_word(words_ + i, value); }
  /// For kernels and host functions: use with load_word, store_word, add_to_word.
  int* word(std::size_t i = 0) const { return words_ + i; }

 private:
  int* words_;
};

/// A kernel that writes `value` into the marker.
inline void mark(weir::StreamRef stream, const Marker& marker, int value = 1, std::size_t i = 0,
                 weir::SourceLocation where = weir::SourceLocation::current()) {
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "mark"}, WriteMark{}, marker.word(i),
               value);
}

/// A kernel of `elements` elements, each of which adds 1 to the marker.
inline void count_up(weir::StreamRef stream, const Marker& marker, std::size_t elements = 1,
                     weir::SourceLocation where = weir::SourceLocation::current()) {
  weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = elements, .name = "count up"}, CountUp{},
               marker.word());
}

/// The order in which kernels ran.
class Log {
 public:
  explicit Log(int capacity = 1024) : capacity_(capacity), words_(make_words(static_cast<std::size_t>(capacity) + 1)) {}
  /// A kernel that appends `value`.
  void note(weir::StreamRef stream, int value, weir::SourceLocation where = weir::SourceLocation::current()) const {
    weir::launch(weir::StreamArg(stream, where), weir::Extent{.size = 1, .name = "note"}, AppendToLog{}, words_,
                 words_ + 1, capacity_, value);
  }
  /// Appends at once: for host functions.
  void add(int value) const { AppendToLog{}(0, words_, words_ + 1, capacity_, value); }
  int size() const { return load_word(words_); }
  std::vector<int> values() const {
    std::vector<int> all;
    for (int i = 0; i < size() && i < capacity_; ++i) all.push_back(load_word(words_ + 1 + i));
    return all;
  }

 private:
  int capacity_;
  int* words_;
};

/// Whether something that must happen does: asks until it holds, for at most 10 s.
template <class Predicate>
bool eventually(Predicate&& predicate) {
  const auto limit = std::chrono::steady_clock::now() + liveness_limit;
  for (int turn = 0; !predicate(); ++turn) {
    if (std::chrono::steady_clock::now() > limit) return predicate();
    if (turn < 100) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return true;
}

/// Whether a predicate holds for as long as definite other work takes: kernels sent one after the other through a
/// non-blocking stream of the least priority (on a GPU of the greatest: streams of one priority share its work queues,
/// R182), run by the device itself and not by this thread. Work that may run, and
/// was there before, has had its turn by then.
template <class Predicate>
testing::AssertionResult stays(weir::Device device, Predicate&& predicate, int rounds = 16) {
  const weir::PriorityRange priorities = device.properties().stream_priorities;
  weir::Stream probe(device, {.priority = device.backend() == "cpu" ? priorities.least : priorities.greatest,
                              .blocking = false,
                              .name = "probe"});
  Marker trips;
  for (int round = 1; round <= rounds; ++round) {
    if (!predicate()) return testing::AssertionFailure() << "it changed before round trip " << round;
    mark(probe, trips, round);
    if (!eventually([&] { return trips.value() == round; })) {
      return testing::AssertionFailure() << "an independent stream did not run";
    }
  }
  if (!predicate()) return testing::AssertionFailure() << "it changed in the meantime";
  return testing::AssertionSuccess();
}

/// Whether a host call returns while the gate is shut. The call is made by this thread; the gate opens after 10 s.
template <class Call>
testing::AssertionResult returns_while_held(Gate& gate, Call&& call) {
  if (gate.is_open()) return testing::AssertionFailure() << "the gate was open before the call";
  {
    const Alarm alarm(liveness_limit, [&gate] { gate.open(); });
    call();
  }
  if (gate.is_open()) return testing::AssertionFailure() << "the call did not return until the gate was opened";
  return testing::AssertionSuccess();
}

/// Whether a host call returns only after the gate was opened, which this does. The call is made by another thread.
/// What it throws is thrown here.
template <class Call>
testing::AssertionResult blocks_until_open(weir::Device device, Gate& gate, Call&& call) {
  if (gate.is_open()) return testing::AssertionFailure() << "the gate was open before the call";
  std::atomic<bool> entered{false};
  std::atomic<bool> returned{false};
  std::exception_ptr thrown;
  std::thread caller([&] {
    entered = true;
    try {
      call();
    } catch (...) {
      thrown = std::current_exception();
    }
    returned = true;
  });
  const bool started = eventually([&] { return entered.load(); });
  testing::AssertionResult held = stays(device, [&] { return !returned.load(); });
  gate.open();
  const bool ended = eventually([&] { return returned.load(); });
  caller.join();  // a call that never returns meets the watchdog here
  if (thrown) std::rethrow_exception(thrown);
  if (!held) return testing::AssertionFailure() << "the call did not wait for the gate: " << held.message();
  if (!started || !ended) return testing::AssertionFailure() << "the call returned late after the gate was opened";
  return held;
}

}  // namespace weir_test
