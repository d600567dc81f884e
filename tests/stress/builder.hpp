// Builds a program command by command, and inserts the waits that each command needs, of a kind that chance picks.
#pragma once

#include <vector>

#include "order.hpp"
#include "program.hpp"
#include "random.hpp"

namespace weir::stress {

/// What kind of programs to make.
struct Theme {
  int threads = 1;
  int devices = 1;
  std::size_t min_commands = 5;
  std::size_t max_commands = 45;  ///< before the waits are inserted
  unsigned allocations = 8;       ///< percent of commands that make or end arrays
  bool failures = false;
  bool defaults = true;  ///< legacy and per-thread streams too
  bool graphs = false;
  bool conditionals = false;  ///< conditional nodes in them
  bool updates = true;        ///< of graphs, between their replays
};

class Builder {
 public:
  Builder(const Theme& theme, std::uint64_t seed);
  /// For the body of a graph in this program: all waits are those of streams.
  Builder(const Theme& theme, std::uint64_t seed, const Program& program);

  /// Appends the command, after all waits that it needs.
  void put(Command command);

  int add_stream(StreamDecl decl);
  int add_event(EventDecl decl);
  int add_array(ArrayDecl decl);
  int add_pool(PoolDecl decl);
  int add_graph(GraphDecl decl);
  int legacy(int device) const { return 2 * device; }
  int per_thread(int thread, int device) const { return 2 * theme_.devices + thread * theme_.devices + device; }
  const StreamDecl& stream(int s) const { return program_.streams[static_cast<std::size_t>(s)]; }
  const ArrayDecl& array(int a) const { return program_.arrays[static_cast<std::size_t>(a)]; }

  /// Records an event on a stream: an old one, or a new one.
  int record(int thread, int stream);

  /// Whether the host may wait for a whole device: not while other threads capture, and not where the order of failures
  /// would matter.
  bool may_wait_for_all() const { return !theme_.failures && !(theme_.graphs && theme_.threads > 1); }

  Theme theme_;
  bool captured_ = false;
  Random random_;
  Program program_;
  Order order_;
  std::vector<int> streams_, events_, pools_, arrays_, graphs_;  ///< those alive, without the default streams

 private:
  void close(const Gap& gap, const Command& command);
  void handshake(const Gap& gap, int to);
  void wait_on_host(std::size_t earlier, int thread);
  void wait_in_stream(std::size_t earlier, const Command& command);
  bool exists(int stream) const;
  std::vector<int> covering_events(std::size_t earlier, int thread) const;
  void note_lives(const Command& command);

  int handshakes_ = 0;
};

}  // namespace weir::stress
