// Graphs of a running program, as build_graph, update_node and enable_node of a recording.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <weir/observer.hpp>
#include <weir/op.hpp>
#include <weir/recording.hpp>

#include "recording/recorder_names.hpp"

namespace weir::recorded {

class Graphs {
 public:
  /// Says what a node does: its op, uses, target and line.
  using FillIn = std::function<void(const GraphNodeInfo&, Node&, std::uint32_t device)>;

  bool knows(std::uint64_t graph) const { return graphs_.count(graph) != 0; }
  Name name(std::uint64_t graph) const;
  std::uint32_t device(std::uint64_t graph) const;
  /// Of its nodes; null if none of them is a host function.
  std::shared_ptr<const std::vector<Name>> paths_to_functions(std::uint64_t graph) const;
  /// Adds build_graph, once for each child graph and once for the graph itself.
  void build(Sink& sink, Names& names, const GraphInfo& graph, std::uint32_t device, const FillIn& fill_in);
  /// Adds enable_node, or update_node with what the node does now.
  void change(Sink& sink, std::uint64_t graph, std::uint32_t node, bool enabled, const Node& now);
  struct Memory {
    BufferId buffer;
    const void* data;
  };
  struct Gone {
    Name name;
    std::vector<Memory> memory;  ///< what it allocates and frees: its addresses are free for others now
  };
  Gone forget(std::uint64_t graph);

 private:
  struct Built {
    Name name;
    std::uint32_t device;
    std::shared_ptr<std::vector<Name>> paths;  ///< of its nodes
    bool functions;                            ///< host functions are among them
    std::vector<bool> enabled;
    std::vector<Memory> memory;
  };
  std::unordered_map<std::uint64_t, Built> graphs_;
};

}  // namespace weir::recorded
