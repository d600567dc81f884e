// Graphs of a recorded program: as captured, built and changed, one list of nodes each.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/recording.hpp>

#include "backends/sim/model/program.hpp"
#include "predict/tasks.hpp"

namespace weir::predict {

class Graphs {
 public:
  Graphs(const Recording& recording, const Tasks& tasks, sim::model::Program& program)
      : recording_(recording), tasks_(tasks), program_(program) {}

  void build(const recorded::Command& command);
  void update(const recorded::Command& command);
  void enable(const recorded::Command& command);
  /// Captured nodes come behind what their streams hold, and what these were told to wait for.
  void begin_capture(std::uint32_t stream);
  void end_capture(const recorded::Command& command);
  /// Whether the command belonged to a capture, and is done with.
  bool captured(const recorded::Command& command, std::size_t place);
  /// The graph of that name as it is now, for a launch; sim::model::none if it was never made.
  std::uint32_t current(std::uint32_t name);
  /// The node of that path in current(); sim::model::none if there is none.
  std::uint32_t node(std::uint32_t graph, std::uint32_t path) const;
  /// Whether a graph has nodes whose runs depend on values.
  bool conditional() const { return conditional_; }

 private:
  struct Built {
    sim::model::Graph nodes;
    std::vector<std::string> paths;  ///< of each node; empty for what only joins others
    std::map<std::string, std::uint32_t, std::less<>> places;
    std::set<std::uint32_t> disabled;
    std::uint32_t made = sim::model::none;  ///< the graph in the program
  };
  /// A capture: what each of its streams holds, and the events that were recorded in it.
  struct Capture {
    std::uint32_t origin;
    Built graph;
    std::map<std::uint32_t, std::vector<std::uint32_t>> tails, events;
  };

  std::uint32_t add(Built& graph, std::uint32_t task, std::vector<std::uint32_t> after, const std::string& path);
  std::uint32_t add_task(recorded::Op op, std::span<const recorded::Use> uses,
                         const std::optional<recorded::Cost>& cost);
  /// Returns the node that stands for the end of them all.
  std::uint32_t add_list(Built& graph, std::span<const recorded::Node> nodes, std::uint32_t begin,
                         const std::string& path);
  std::uint32_t add_child(Built& graph, std::uint32_t name, std::uint32_t begin, const std::string& path);
  /// To change it: a launch before the change keeps what it had.
  Built* changed(const recorded::Command& command, std::uint32_t& node);
  Capture* capture_of(std::uint32_t stream);

  const Recording& recording_;
  const Tasks& tasks_;
  sim::model::Program& program_;
  std::map<std::uint32_t, Built> graphs_;
  std::vector<Capture> captures_;
  bool conditional_ = false;
};

}  // namespace weir::predict
