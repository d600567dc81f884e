// Graphs as the checker knows them: nodes with their uses, and which comes before which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <weir/recording.hpp>

#include "check/history.hpp"
#include "check/regions.hpp"

namespace weir::check {

inline constexpr std::uint32_t none = recorded::none;

struct GraphNode {
  recorded::Op op = recorded::Op::empty;
  std::uint32_t parent = none;  ///< the child graph or conditional node that it lies in
  std::uint32_t body = 0;       ///< of a conditional node
  std::uint32_t target = none;  ///< event or buffer
  bool enabled = true;
  std::vector<std::uint32_t> after;  ///< of the same list
  std::vector<recorded::Use> uses;   ///< with the access that each means
  std::vector<std::uint32_t> gives;  ///< hand-offs, of a host function
  std::string path;
  const char* name = "";
  const char* file = nullptr;  ///< null: as the launch
  std::uint32_t line = 0;
  std::uint64_t command = 0;  ///< of a captured node
  std::uint32_t stream = none;
  std::uint32_t thread = 0;
  bool captured = false;
  bool collective = false;
  std::uint64_t communicator = 0;  ///< of which a launch is a call of all ranks
  const char* communicator_name = "";
  std::uint32_t graph = none;  ///< that it was built in, and what it is called there
  std::string origin;
};

/// What all nodes of a graph do to one buffer, for launches that race with nothing.
struct Footprint {
  struct Part {
    Runs runs;
    recorded::Access access;
  };
  std::uint32_t buffer;
  bool raw = false;    ///< some node uses it through a raw view
  bool whole = false;  ///< some node does not
  std::vector<Part> parts;
};

/// A communicator whose collectives are nodes.
struct Called {
  std::uint64_t communicator;
  std::string name;
};

/// A graph between two changes. Nodes stand behind those that they come after, and what a node holds right behind it.
class GraphVersion {
 public:
  explicit GraphVersion(std::vector<GraphNode> nodes);

  const std::vector<GraphNode>& nodes() const { return nodes_; }
  const std::vector<Footprint>& footprint() const { return footprint_; }
  /// Nodes that record events, wait for them, allocate, free or give: such graphs are looked at node by node.
  bool plain() const { return plain_; }
  bool touches_all() const { return complete_; }
  /// A launch is a call of all ranks of these.
  const std::vector<Called>& called() const { return called_; }
  /// Whether some node was given the memory itself, not only a raw view: then an array stays as long as the graph.
  bool keeps(std::uint32_t buffer) const;

  /// Whether a is before b, or the two never both run, or one holds the other.
  bool never_together(std::uint32_t a, std::uint32_t b) const;
  /// Whether all of a is before all of b.
  bool before(std::uint32_t a, std::uint32_t b) const;
  /// Whether b lies in a, a child graph or conditional node, at any depth.
  bool holds(std::uint32_t a, std::uint32_t b) const;
  /// The nodes of one list that a and b are, or lie in; false if there are none.
  bool meet(std::uint32_t a, std::uint32_t b, std::uint32_t& in_list_a, std::uint32_t& in_list_b) const;
  /// A disabled node, or one in it, does nothing.
  bool does_nothing(std::uint32_t node) const { return idle_[node]; }

 private:
  bool reaches(std::uint32_t a, std::uint32_t b) const;

  std::vector<GraphNode> nodes_;
  std::vector<std::uint32_t> depth_;
  std::vector<std::uint32_t> place_;                ///< in its list
  std::vector<std::vector<std::uint64_t>> behind_;  ///< for each node, a bit for each earlier one of its list
  std::vector<bool> idle_;
  std::vector<Footprint> footprint_;
  std::vector<Called> called_;
  bool plain_ = true;
  bool complete_ = true;  ///< all regions could be compared
};

/// Nodes of another graph below `parent`, the last of `nodes`.
void copy_into(std::vector<GraphNode>& nodes, const GraphVersion& child);

/// The uses of a command with the accesses that the sides of copies and fills have, and the shapes that they share.
std::vector<recorded::Use> uses_of(recorded::Op op, std::vector<recorded::Use> uses);

}  // namespace weir::check
