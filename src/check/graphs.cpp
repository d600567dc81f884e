// Graphs as the checker knows them.
#include "check/graphs.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::check {

using recorded::Op;

GraphVersion::GraphVersion(std::vector<GraphNode> nodes) : nodes_(std::move(nodes)) {
  const std::size_t count = nodes_.size();
  depth_.resize(count);
  place_.resize(count);
  behind_.resize(count);
  idle_.resize(count);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> lists;
  for (std::uint32_t i = 0; i < count; ++i) {
    const GraphNode& node = nodes_[i];
    depth_[i] = node.parent == none ? 0 : depth_[node.parent] + 1;
    place_[i] = lists[{node.parent, node.body}]++;
    idle_[i] = !node.enabled || (node.parent != none && idle_[node.parent]);
    std::vector<std::uint64_t>& behind = behind_[i];
    behind.resize(place_[i] / 64 + 1);
    for (const std::uint32_t before : node.after) {
      const std::vector<std::uint64_t>& more = behind_[before];
      for (std::size_t w = 0; w < more.size(); ++w) behind[w] |= more[w];
      behind[place_[before] / 64] |= std::uint64_t{1} << place_[before] % 64;
    }
    if (node.op == Op::record || node.op == Op::wait || node.op == Op::alloc || node.op == Op::free ||
        !node.gives.empty()) {
      plain_ = false;
    }
  }
  // By buffer and access, so that a replay of many nodes is as cheap as what they touch.
  std::map<std::pair<std::uint32_t, recorded::Access>, Runs> parts;
  std::map<std::uint32_t, std::pair<bool, bool>> raw;
  Runs runs;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (idle_[i]) continue;
    const auto is_called = [&](const Called& one) { return one.communicator == nodes_[i].communicator; };
    if (nodes_[i].communicator != 0 && std::none_of(called_.begin(), called_.end(), is_called))
      called_.push_back({nodes_[i].communicator, nodes_[i].communicator_name});
    for (const recorded::Use& use : nodes_[i].uses) {
      if (!runs_of(use, runs)) {
        complete_ = false;
        continue;
      }
      const recorded::Access how = use.access == recorded::Access::inout ? recorded::Access::out : use.access;
      Runs& part = parts[{use.buffer, how}];
      part.insert(part.end(), runs.begin(), runs.end());
      (use.raw ? raw[use.buffer].first : raw[use.buffer].second) = true;
    }
  }
  for (auto& [what, all] : parts) {
    normalise(all);
    if (footprint_.empty() || footprint_.back().buffer != what.first) {
      footprint_.push_back({what.first, raw[what.first].first, raw[what.first].second, {}});
    }
    footprint_.back().parts.push_back({std::move(all), what.second});
  }
  // What is read, written and accumulated at once conflicts with everything.
  for (Footprint& one : footprint_) {
    for (std::size_t i = 0; i < one.parts.size(); ++i) {
      for (std::size_t j = i + 1; j < one.parts.size(); ++j) {
        Runs both = common(one.parts[i].runs, one.parts[j].runs);
        if (both.empty()) continue;
        const auto out = std::find_if(one.parts.begin(), one.parts.end(),
                                      [](const Footprint::Part& part) { return part.access == recorded::Access::out; });
        if (out == one.parts.end()) {
          one.parts.push_back({std::move(both), recorded::Access::out});
        } else {
          out->runs.insert(out->runs.end(), both.begin(), both.end());
          normalise(out->runs);
        }
      }
    }
    // Writers last: they stand for the readers of the same bytes.
    std::stable_sort(one.parts.begin(), one.parts.end(), [](const Footprint::Part& a, const Footprint::Part& b) {
      return (a.access == recorded::Access::out) < (b.access == recorded::Access::out);
    });
  }
}

bool GraphVersion::keeps(std::uint32_t buffer) const {
  return std::any_of(footprint_.begin(), footprint_.end(),
                     [buffer](const Footprint& one) { return one.buffer == buffer && one.whole; });
}

bool GraphVersion::meet(std::uint32_t a, std::uint32_t b, std::uint32_t& in_list_a, std::uint32_t& in_list_b) const {
  while (depth_[a] > depth_[b]) a = nodes_[a].parent;
  while (depth_[b] > depth_[a]) b = nodes_[b].parent;
  while (a != b && nodes_[a].parent != nodes_[b].parent) {
    a = nodes_[a].parent;
    b = nodes_[b].parent;
  }
  in_list_a = a;
  in_list_b = b;
  return a != b && nodes_[a].body == nodes_[b].body;
}

bool GraphVersion::reaches(std::uint32_t a, std::uint32_t b) const {
  return place_[a] / 64 < behind_[b].size() && (behind_[b][place_[a] / 64] >> place_[a] % 64 & 1) != 0;
}

bool GraphVersion::before(std::uint32_t a, std::uint32_t b) const {
  std::uint32_t x, y;
  return meet(a, b, x, y) && reaches(x, y);
}

bool GraphVersion::holds(std::uint32_t a, std::uint32_t b) const {
  while (depth_[b] > depth_[a]) b = nodes_[b].parent;
  return a == b;
}

bool GraphVersion::never_together(std::uint32_t a, std::uint32_t b) const {
  std::uint32_t x, y;
  return !meet(a, b, x, y) || reaches(x, y) || reaches(y, x);
}

void copy_into(std::vector<GraphNode>& nodes, const GraphVersion& child) {
  const auto parent = static_cast<std::uint32_t>(nodes.size() - 1);
  const std::string prefix = nodes[parent].path + "/";
  for (const GraphNode& one : child.nodes()) {
    GraphNode node = one;
    node.parent = one.parent == none ? parent : one.parent + parent + 1;
    for (std::uint32_t& before : node.after) before += parent + 1;
    node.path = prefix + one.path;
    nodes.push_back(std::move(node));
  }
}

std::vector<recorded::Use> uses_of(Op op, std::vector<recorded::Use> uses) {
  if (op != Op::copy && op != Op::fill) return uses;
  if (!uses.empty()) uses[0].access = recorded::Access::out;
  if (uses.size() > 1) uses[1].access = recorded::Access::in;
  return uses;
}

}  // namespace weir::check
