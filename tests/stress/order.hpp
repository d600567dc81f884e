// The oracle of happens-before: what a list of commands orders, by the rules that the library promises.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program.hpp"

namespace weir::stress {

/// A set of moments. Each command has two: its call on the host (2 i), and its run in the stream (2 i + 1).
class Moments {
 public:
  bool has(std::size_t moment) const {
    return moment / 64 < words_.size() && (words_[moment / 64] >> (moment % 64) & 1) != 0;
  }
  void add(std::size_t moment) {
    if (moment / 64 >= words_.size()) words_.resize(moment / 64 + 1);
    words_[moment / 64] |= std::uint64_t{1} << (moment % 64);
  }
  void add(const Moments& others) {
    if (others.words_.size() > words_.size()) words_.resize(others.words_.size());
    for (std::size_t w = 0; w < others.words_.size(); ++w) words_[w] |= others.words_[w];
  }

 private:
  std::vector<std::uint64_t> words_;
};

/// An order that a new command needs and does not have.
struct Gap {
  std::size_t command;  ///< the earlier one
  bool after_run;       ///< its run must be over; else its call
  bool before_call;     ///< before the new command's call; else before its run
};

/// Grows with the program: append() each command after it was pushed.
class Order {
 public:
  /// `program` may grow while this is used. `captured`: it is the body of a graph, whose child graphs may overlap.
  explicit Order(const Program& program, bool captured = false);

  /// The first order that `command` lacks if it comes next.
  std::optional<Gap> gap(const Command& command) const;
  /// Takes program.commands[n] where n were taken before.
  void append();

  bool called_before(std::size_t command, int thread) const { return host_[index(thread)].has(2 * command); }
  bool run_before(std::size_t command, int thread) const { return host_[index(thread)].has(2 * command + 1); }
  /// Whether everything that `thread` may know to be in `stream` is over for it.
  bool idle(int stream, int thread) const;
  /// The record that a wait for `event` by `thread` takes now; none if never recorded.
  std::optional<std::size_t> last_record(int event, int thread) const;
  /// Whether `earlier`'s run is over before `later`'s run.
  bool ordered(std::size_t earlier, std::size_t later) const;
  /// The current stream of a device for a host thread.
  int current(int thread, int device) const { return current_[index(thread)][index(device)]; }
  bool in_scope(int thread) const { return !scopes_[index(thread)].empty(); }
  /// Whether some thread has `stream` as a current stream or will have it again.
  bool is_current(int stream) const;

 private:
  struct Scope {
    int device;
    int previous;
  };
  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  std::vector<Use> uses_now(const Command& command) const;
  Moments before_call(const Command& command) const;
  Moments before_run(const Command& command, std::size_t self, const Moments& call) const;
  void add_stream(Moments& set, int stream, bool as_barrier, const Moments& called) const;
  Moments waited(const Command& command, const Moments& call) const;
  void change_current(const Command& command);

  const Program& program_;
  const bool captured_;
  std::vector<Moments> call_, run_;
  std::vector<std::vector<Access>> accesses_;
  std::vector<std::vector<Use>> uses_;
  std::vector<Moments> host_;
  std::vector<std::vector<int>> current_;
  std::vector<std::vector<Scope>> scopes_;
};

/// Whether a command of `a` and one of `b` are ordered by the streams alone: one stream, or legacy against blocking.
bool streams_ordered(const Program& program, int a, int b);

}  // namespace weir::stress
