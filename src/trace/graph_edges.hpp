// What nodes of a graph come behind, of those that take time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "trace/session.hpp"

namespace weir::trace {

/// Of one graph. Records, waits and what else takes no time are replaced by what they come behind.
class GraphEdges {
 public:
  explicit GraphEdges(const std::vector<KnownNode>& nodes) : nodes_(nodes) {}

  /// By number, in order.
  const std::vector<std::uint32_t>& of(std::uint32_t node) {
    const auto found = known_.find(node);
    if (found != known_.end()) return found->second;
    std::vector<std::uint32_t> made;
    std::vector<bool> seen(nodes_.size());
    std::vector<std::uint32_t> left = nodes_[node].depends;
    while (!left.empty()) {
      const std::uint32_t on = left.back();
      left.pop_back();
      if (on >= nodes_.size() || seen[on]) continue;
      seen[on] = true;
      const bool takes_none = nodes_[on].lane == Lane::order || nodes_[on].lane == Lane::memory;
      if (takes_none) {
        left.insert(left.end(), nodes_[on].depends.begin(), nodes_[on].depends.end());
      } else {
        made.push_back(on);
      }
    }
    std::sort(made.begin(), made.end());
    return known_.emplace(node, std::move(made)).first->second;
  }

 private:
  const std::vector<KnownNode>& nodes_;
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> known_;
};

}  // namespace weir::trace
