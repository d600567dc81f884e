// Which node of a graph comes before which: cycles, and dependencies that follow from what nodes read and write.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph_form.hpp"

namespace weir::detail {

/// For each node of a graph, the nodes that it depends on, directly or not.
class Ancestors {
 public:
  bool has(std::uint32_t node, std::uint32_t ancestor) const;
  /// `before` and all of its ancestors become `node`'s, and those of what depends on it.
  void add(std::uint32_t node, std::uint32_t before);
  /// After a change that was not made whole: what the graph says is looked up again when it is next asked for.
  void forget() noexcept;
  /// Before add() and has(), which may follow a forget().
  void remember(const GraphForm& form);

 private:
  bool known_ = true;
  std::vector<std::vector<std::uint64_t>> sets_;
};

/// Makes a node depend on earlier nodes of its body that write what it uses, or use what it writes; not on those that it
/// comes after anyway.
void infer_dependencies(GraphForm& form, Ancestors& ancestors, std::uint32_t node);

/// A way from one node to a later one along dependencies, both included; empty if there is none.
std::vector<std::uint32_t> path_between(const GraphForm& form, std::uint32_t first, std::uint32_t last);
/// "node 3 'axpy' -> node 5 'fill' -> node 3 'axpy'"
std::string cycle_text(const GraphForm& form, const std::vector<std::uint32_t>& cycle);
std::string describe_node(const GraphForm& form, std::uint32_t node);

}  // namespace weir::detail
