// The closure's graphs: their nodes as intervals between moments.
#include <algorithm>
#include <utility>

#include "reference.hpp"

namespace check_test {

using weir::recorded::none;
using weir::recorded::Op;
using weir::recorded::Owner;
using Access = weir::recorded::Access;

namespace {

bool reads(Access access) { return access != Access::out; }
bool writes(Access access) { return access != Access::in; }

}  // namespace

std::vector<Reference::Node> Reference::copied(const std::vector<Node>& list, const std::string& path) const {
  std::vector<Node> made = list;
  for (Node& node : made) {
    node.path = path + node.path;
    for (auto& body : node.bodies) body = copied(body, path);
  }
  return made;
}

std::vector<Reference::Node> Reference::nodes(std::span<const weir::recorded::Node> list, const std::string& path) {
  std::vector<Node> made;
  for (const weir::recorded::Node& one : list) {
    Node node{one.op, path + recording_->text(one.name), one.target, true, one.uses, one.after, {}, false};
    for (std::size_t i = 0; i < one.bodies.size(); ++i) {
      node.bodies.push_back(nodes(one.bodies[i], node.path + "[" + std::to_string(i) + "]/"));
    }
    if (one.op == Op::graph) {
      node.child = true;
      const auto child = graphs_.find(one.target);
      if (child != graphs_.end()) node.bodies.push_back(copied(*child->second.nodes, node.path + "/"));
    }
    made.push_back(std::move(node));
  }
  return made;
}

/// The nodes of one list between a begin and their ends; each is an interval.
void Reference::run_nodes(std::size_t place, const std::vector<Node>& list, Moment begin, Moments& ends,
                          std::vector<std::pair<const void*, std::size_t>> bodies, Graph& graph, std::vector<Use>& uses,
                          std::vector<std::pair<std::uint32_t, Moment>>& records) {
  std::vector<Moment> done;
  for (const Node& node : list) {
    Moments after = {begin};
    for (const std::uint32_t before_it : node.after) after.push_back(done[before_it]);
    if (node.op == Op::wait && node.enabled) {
      for (const Moment record : events_[node.target].record) after.push_back(record);
    }
    const Moment at = moment(after);
    Moments inside = {at};
    if (node.op == Op::record && node.enabled) records.emplace_back(node.target, at);
    if (node.enabled) {
      for (const auto& declared : node.uses) {
        const bool array = recording_->buffers()[declared.buffer].owner == Owner::array && !declared.raw;
        uses.push_back(
            {place, node.path, declared.buffer, declared.access, bytes(declared), at, at, array, bodies, place});
      }
      for (std::size_t i = 0; i < node.bodies.size(); ++i) {
        auto within = bodies;
        if (!node.child) within.emplace_back(&node, i);
        run_nodes(place, node.bodies[i], at, inside, within, graph, uses, records);
      }
    }
    done.push_back(moment(inside));
    ends.push_back(done.back());
  }
}

void Reference::launch(std::size_t place, std::uint32_t stream, std::uint32_t name) {
  Graph& graph = graphs_.at(name);
  if (streams_[stream].capture != 0) {
    auto& captured = captures_[streams_[stream].capture];
    Node node{Op::graph, recording_->id(place), none, true, {}, streams_[stream].frontier, {}, true};
    node.bodies.push_back(copied(*graph.nodes, node.path + "/"));
    captured.push_back(std::move(node));
    streams_[stream].frontier = {static_cast<std::uint32_t>(captured.size() - 1)};
    return;
  }
  Moments after = {run(place, stream), graph.end};
  const Moment begin = moment(after);
  std::vector<Use> made;
  Moments ends = {begin};
  std::vector<std::pair<std::uint32_t, Moment>> records;
  run_nodes(place, *graph.nodes, begin, ends, {}, graph, made, records);
  const Moment end = moment(ends);
  for (const Use& one : made) use(one);
  decltype(graph.raced) told;
  for (std::size_t j = 0; j < made.size(); ++j) {
    for (std::size_t i = 0; i < j; ++i) {
      const Use &first = made[i], &second = made[j];
      if (first.buffer != second.buffer || first.node == second.node || before(first.end, second.begin)) continue;
      bool together = true;
      for (const auto& a : first.bodies) {
        for (const auto& b : second.bodies) together = together && (a.first != b.first || a.second == b.second);
      }
      const bool commute = first.access == Access::accumulate && second.access == Access::accumulate;
      Bits common = first.bytes.with(second.bytes);
      const auto key = std::make_tuple(first.node, second.node, first.buffer);
      // Once; what an update brings in is new.
      if (const auto before = graph.raced.find(key); before != graph.raced.end()) common.remove(before->second);
      if (!together || commute || !common.any() || (!writes(first.access) && !writes(second.access))) continue;
      told[key].add(common);
      if (writes(first.access) && reads(second.access))
        add(second, place, first.node, first.buffer, "read_after_write", common);
      if (writes(first.access) && writes(second.access))
        add(second, place, first.node, first.buffer, "write_after_write", common);
      if (reads(first.access) && writes(second.access))
        add(second, place, first.node, first.buffer, "write_after_read", common);
    }
  }
  for (const auto& [key, bytes] : told) graph.raced[key].add(bytes);
  for (const Use& one : made) {
    uses_.push_back(one);
    if (one.bytes.any()) using_moments_.insert(one.begin);
    if (one.kept) memory_[one.buffer].launches.push_back(end);
  }
  for (const auto& [event, at] : records) {
    events_[event].record = {at};
    events_[event].capture = 0;
  }
  graph.end = end;
  streams_[stream].last = end;
}

}  // namespace check_test
