// From a graph's form to its plan.
#include "backends/cpu/graphs/graph_plan.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace weir::cpu {

namespace {

using detail::FormNode;
using detail::GraphForm;

/// Control nodes and waits do not continue a chain: others run while they are in progress.
bool begins_segment(const FormNode& node) {
  return node.kind == NodeKind::conditional || node.kind == NodeKind::graph || node.kind == NodeKind::wait;
}
/// Ends of memory that nothing depends on: neither steps nor successors.
std::vector<bool> left_out(const GraphForm& form) {
  std::vector<bool> out;
  for (const FormNode& node : form.nodes) out.push_back(node.kind == NodeKind::free);
  for (const FormNode& node : form.nodes) {
    for (const std::uint32_t before : node.depends) out[before] = false;
  }
  return out;
}
bool ends_segment(const FormNode& node) { return node.kind == NodeKind::conditional || node.kind == NodeKind::graph; }

}  // namespace

Plan::Plan(const GraphForm& form) : step_of_node(form.nodes.size(), -1) {
  payloads.reserve(form.nodes.size());
  for (const FormNode& node : form.nodes) payloads.push_back(node.payload.shared());
  fuse(form);
  sort(form);
  connect(form);
  rank();
  pending = std::make_unique<std::atomic<std::uint32_t>[]>(segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) pending[i].store(segments[i].in_degree, std::memory_order_relaxed);
  remaining = std::make_unique<std::atomic<std::uint32_t>[]>(scopes.size());
  for (std::size_t i = 0; i < scopes.size(); ++i) remaining[i].store(scopes[i].segments, std::memory_order_relaxed);
}

/// Puts each node behind its only predecessor if it is that one's only successor. Nodes are visited in topological order.
void Plan::fuse(const GraphForm& form) {
  const std::size_t count = form.nodes.size();
  const std::vector<bool> out = left_out(form);
  std::vector<std::uint32_t> successor_count(count, 0);
  std::vector<std::uint32_t> waits_left(count, 0);
  std::vector<std::vector<std::uint32_t>> after(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (out[i]) continue;
    for (const std::uint32_t before : form.nodes[i].depends) {
      ++successor_count[before];
      after[before].push_back(i);
    }
    waits_left[i] = static_cast<std::uint32_t>(form.nodes[i].depends.size());
  }
  std::vector<std::uint32_t> order;
  order.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (waits_left[i] == 0 && !out[i]) order.push_back(i);
  }
  for (std::size_t at = 0; at < order.size(); ++at) {
    for (const std::uint32_t next : after[order[at]]) {
      if (--waits_left[next] == 0) order.push_back(next);
    }
  }
  segment_of_node_.assign(count, 0);
  for (const std::uint32_t i : order) {
    const FormNode& node = form.nodes[i];
    if (node.depends.size() == 1 && !begins_segment(node)) {
      const std::uint32_t before = node.depends.front();
      if (successor_count[before] == 1 && !ends_segment(form.nodes[before]) &&
          form.nodes[before].priority == node.priority) {
        segment_of_node_[i] = segment_of_node_[before];
        members_[segment_of_node_[i]].push_back(i);
        continue;
      }
    }
    segment_of_node_[i] = static_cast<std::uint32_t>(members_.size());
    members_.push_back({i});
  }
}

/// Puts the segments with the longest way to the end first: in about this order they will run, so that what they need of
/// the plan lies side by side. It stays an order in which each comes after what it depends on.
void Plan::sort(const GraphForm& form) {
  std::vector<std::uint64_t> way(members_.size(), 0);
  for (std::size_t s = members_.size(); s-- > 0;) {
    way[s] += members_[s].size() + 1;
    for (const std::uint32_t node : form.nodes[members_[s].front()].depends) {
      std::uint64_t& before = way[segment_of_node_[node]];
      before = std::max(before, way[s]);
    }
  }
  std::vector<std::uint32_t> order(members_.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return way[a] > way[b]; });
  std::vector<std::vector<std::uint32_t>> sorted;
  sorted.reserve(members_.size());
  for (const std::uint32_t s : order) {
    for (const std::uint32_t node : members_[s]) segment_of_node_[node] = static_cast<std::uint32_t>(sorted.size());
    sorted.push_back(std::move(members_[s]));
  }
  members_ = std::move(sorted);
}

void Plan::connect(const GraphForm& form) {
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> scope_of;
  scopes.push_back({});
  scope_of[{-1, 0}] = 0;
  segments.resize(members_.size());
  steps.reserve(form.nodes.size());
  for (std::uint32_t s = 0; s < members_.size(); ++s) {
    Segment& segment = segments[s];
    segment.first_step = static_cast<std::uint32_t>(steps.size());
    for (const std::uint32_t node : members_[s]) {
      const FormNode& one = form.nodes[node];
      if (ends_segment(one)) {
        segment.control = static_cast<std::int32_t>(conditions.size());
        segment.bodies = static_cast<std::uint32_t>(scopes.size());
        conditions.push_back(one.condition);
        if (one.kind == NodeKind::graph) conditions.back().value = nullptr;
        const std::uint32_t bodies = one.kind == NodeKind::graph ? 1 : one.condition.bodies;
        for (std::uint32_t b = 0; b < bodies; ++b) {
          scope_of[{static_cast<std::int32_t>(node), b}] = static_cast<std::uint32_t>(scopes.size());
          scopes.push_back({});
          scopes.back().parent = static_cast<std::int32_t>(s);
        }
        continue;
      }
      if (one.kind == NodeKind::record) records.push_back(node);
      if (one.kind == NodeKind::wait) waits.push_back(node);
      step_of_node[node] = static_cast<std::int32_t>(steps.size());
      steps.emplace_back();
      set_step(node, one);
    }
    segment.steps = static_cast<std::uint32_t>(steps.size()) - segment.first_step;
  }
  std::vector<std::vector<std::uint32_t>> after(segments.size());
  for (std::uint32_t s = 0; s < members_.size(); ++s) {
    const FormNode& first = form.nodes[members_[s].front()];
    segments[s].scope = scope_of.at({first.parent, first.parent < 0 ? 0 : first.branch});
    ++scopes[segments[s].scope].segments;
    segments[s].urgency = static_cast<std::uint64_t>(64 - first.priority) << 48;
    most_urgent = std::min(most_urgent, first.priority);
    std::vector<std::uint32_t> before;
    for (const std::uint32_t node : first.depends) before.push_back(segment_of_node_[node]);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    segments[s].in_degree = static_cast<std::uint32_t>(before.size());
    for (const std::uint32_t b : before) after[b].push_back(s);
  }
  for (std::uint32_t s = 0; s < segments.size(); ++s) {
    segments[s].first_successor = static_cast<std::uint32_t>(successors.size());
    segments[s].successors = static_cast<std::uint32_t>(after[s].size());
    successors.insert(successors.end(), after[s].begin(), after[s].end());
  }
}

/// Among equals, segments with the longest way to the end go first. Segments are in topological order.
void Plan::rank() {
  constexpr std::uint64_t most = (std::uint64_t{1} << 48) - 1;
  std::vector<std::uint64_t> way(segments.size(), 0);
  for (std::size_t s = segments.size(); s-- > 0;) {
    Segment& segment = segments[s];
    for (std::uint32_t i = 0; i < segment.successors; ++i) {
      way[s] = std::max(way[s], way[successors[segment.first_successor + i]]);
    }
    way[s] += segment.steps + 1;
    segment.urgency |= std::min(way[s], most);
  }
  std::vector<std::vector<std::uint32_t>> begin(scopes.size());
  for (std::uint32_t s = 0; s < segments.size(); ++s) {
    if (segments[s].in_degree == 0) begin[segments[s].scope].push_back(s);
  }
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    // The most urgent last: it is what a thread goes on with.
    std::stable_sort(begin[i].begin(), begin[i].end(),
                     [&](std::uint32_t a, std::uint32_t b) { return segments[a].urgency < segments[b].urgency; });
    scopes[i].first_root = static_cast<std::uint32_t>(roots.size());
    scopes[i].roots = static_cast<std::uint32_t>(begin[i].size());
    roots.insert(roots.end(), begin[i].begin(), begin[i].end());
  }
}

void Plan::set_step(std::size_t node, const FormNode& form) {
  Step& step = steps[static_cast<std::size_t>(step_of_node[node])];
  step = Step{};
  step.node = static_cast<std::uint32_t>(node);
  payloads[node] = form.payload.shared();
  step.payload = form.payload.get();
  if (!form.enabled || step.payload == nullptr) return;
  const Op& op = step.payload->op();
  switch (form.kind) {
    case NodeKind::launch: {
      const auto& launch = std::get<Launch>(op);
      step.closure = launch.closure;
      step.run = launch.kernel->run;
      if (launch.extent.count() == 0) return;
      step.kind = launch.kernel->rank == 0                            ? Step::Kind::blocks
                  : launch.kernel->rank == 1 && launch.extent[0] == 1 ? Step::Kind::single
                                                                      : Step::Kind::launch;
      return;
    }
    case NodeKind::copy: step.kind = Step::Kind::copy; return;
    case NodeKind::fill: step.kind = Step::Kind::fill; return;
    case NodeKind::host_call:
    case NodeKind::external: step.kind = Step::Kind::call; return;
    case NodeKind::record: step.kind = Step::Kind::record; return;
    case NodeKind::wait: step.kind = Step::Kind::wait; return;
    case NodeKind::alloc:
    case NodeKind::free:
    case NodeKind::graph:
    case NodeKind::conditional:
    case NodeKind::empty: return;
  }
}

}  // namespace weir::cpu
