// Gates hold streams until a test opens them; markers and logs tell what has run. Nothing here sleeps to get an order.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include <weir/weir.hpp>

#include "support/function_ref.hpp"
#include "support/shared_words.hpp"
#include "support/watchdog.hpp"

namespace weir_test {

struct WriteMark {
  WEIR_KERNEL void operator()(std::size_t, int* word, int value) const { store_word(word, value); }
};

/// Holds streams. Shut at first; opens for good, at the latest when destroyed, so that a failing test does not hang.
class Gate {
 public:
  Gate() : words_(make_words(3)) {}
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// A kernel that ends when the gate is open. On a device that runs inline the test ends here, skipped; so does it by the next.
  void hold(weir::StreamRef stream, weir::SourceLocation where = weir::SourceLocation::current());
  /// The same by a host function.
  void hold_by_host_call(weir::StreamRef stream, weir::SourceLocation where = weir::SourceLocation::current());
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
void mark(weir::StreamRef stream, const Marker& marker, int value = 1, std::size_t i = 0,
          weir::SourceLocation where = weir::SourceLocation::current());

/// A kernel of `elements` elements, each of which adds 1 to the marker.
void count_up(weir::StreamRef stream, const Marker& marker, std::size_t elements = 1,
              weir::SourceLocation where = weir::SourceLocation::current());

/// The order in which kernels ran.
class Log {
 public:
  explicit Log(int capacity = 1024);
  /// A kernel that appends `value`.
  void note(weir::StreamRef stream, int value, weir::SourceLocation where = weir::SourceLocation::current()) const;
  /// Appends at once: for host functions.
  void add(int value) const;
  int size() const { return load_word(words_); }
  std::vector<int> values() const;

 private:
  int capacity_;
  int* words_;
};

/// Whether something that must happen does: asks until it holds, for at most 10 s.
bool eventually(FunctionRef<bool> predicate);

/// Whether a predicate holds for as long as definite other work takes: kernels sent one after the other through a
/// non-blocking stream of the least priority (on a GPU of the greatest: streams of one priority share its work queues,
/// R182), run by the device itself and not by this thread. Work that may run, and
/// was there before, has had its turn by then.
testing::AssertionResult stays(weir::Device device, FunctionRef<bool> predicate, int rounds = 16);

/// Whether a host call returns while the gate is shut. The call is made by this thread; the gate opens after 10 s.
testing::AssertionResult returns_while_held(Gate& gate, FunctionRef<void> call);

/// Whether a host call returns only after the gate was opened, which this does. The call is made by another thread.
/// What it throws is thrown here.
testing::AssertionResult blocks_until_open(weir::Device device, Gate& gate, FunctionRef<void> call);

}  // namespace weir_test
