// The parts of the generator: which command comes next, with which objects.
#pragma once

#include <array>
#include <optional>

#include "builder.hpp"

namespace weir::stress {

class Generator : public Builder {
 public:
  Generator(const Theme& theme, std::uint64_t seed);
  /// For the body of a graph, captured by one thread on some streams.
  Generator(Generator& outer, int thread, const std::vector<int>& streams);
  Program run();

 private:
  using Shape = std::array<std::size_t, 4>;

  void next();
  // objects
  void make_stream();
  void drop_stream();
  void make_array();
  void make_array(Memory memory, const Shape& shape, int rank);
  void clone_array();
  void end_array();
  void make_or_end_pool();
  void define(int array);
  // work
  void kernel();
  void algorithm();
  void blocks();
  void fill();
  void copy();
  void upload();
  void read_back();
  void host_function();
  void host_work();
  void failure();
  // graphs
  void next_of_graphs();
  void make_graph();
  void replay_graph();
  void update_graph();
  void drop_graph();
  void next_in_body();
  void join_capture(int stream);
  void join_back(int origin);
  /// Some commands of a body are inside a conditional node that runs them never, once or several times.
  void control(Command& command);
  /// Ends most of what the body made: the program lets go of it or, perhaps, frees it in the order of a stream.
  void end_scratch(bool in_streams);
  void child();
  bool used_by_graphs(int array) const;
  GraphDecl body(int origin);
  // order
  void order_noise();
  void ask();
  void scope();

  int thread() { return static_cast<int>(random_.below(static_cast<std::size_t>(theme_.threads))); }
  int device();
  Command command(Kind kind);
  /// Sets a stream of `device`, or the device's current one.
  void choose_stream(Command& command, int device, bool may_be_implicit);
  int rank_of(int array_id) const { return array(array_id).rank; }
  bool reachable(int array_id, int device) const;
  std::optional<int> choose_array(int device, int rank);
  std::optional<int> choose_host_array(int rank);
  /// One of them, mostly one that the thread whose turn it is made.
  std::optional<int> favourite(const std::vector<int>& arrays);
  int any_array() { return *favourite(arrays_); }
  Operand part(int array_id, unsigned percent_whole = 65);
  /// For what will be written without being read: seldom all, so that what was there before still matters.
  Operand part_to_write(int array_id) { return part(array_id, 15); }
  /// A part of the array with this shape, if it has one.
  std::optional<Operand> part_of_shape(int array_id, const Shape& shape, int rank);
  std::uint32_t delay();

  bool failed_ = false;
  int turn_ = 0;                               ///< the host thread that most commands come from at present
  std::vector<std::pair<int, Shape>> shapes_;  ///< rank and sizes that this program's arrays have
  std::vector<int> joined_;                    ///< streams of the capture
  std::vector<int> home_;                      ///< of each array: the stream that it was made on
};

}  // namespace weir::stress
