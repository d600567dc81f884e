// The engine's graphs: captures, changes, and launches as one command with many uses.
#include <algorithm>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

namespace {

/// Graphs of more nodes than these are compared by what each byte's last nodes were.
constexpr std::size_t most_paired = 1024;

}  // namespace

bool Engine::capturing(std::uint32_t stream) const { return streams_[stream]->capture != 0; }

void Engine::begin_capture(const Call& call, std::uint32_t place) {
  Stream& stream = *streams_[place];
  stream.capture = next_capture_++;
  stream.frontier.clear();
  captures_[stream.capture] =
      std::make_unique<Capture>(Capture{stream.capture, place, call.thread, {}, {call.file, call.line}});
}

void Engine::end_capture(const Call&, std::uint32_t place, std::uint32_t graph) {
  const std::uint32_t id = streams_[place]->capture;
  const auto found = captures_.find(id);
  if (id == 0 || found == captures_.end()) return;
  const std::unique_ptr<Capture> capture = std::move(found->second);
  captures_.erase(found);
  for (const auto& stream : streams_) {
    if (stream->capture != id) continue;
    stream->capture = 0;
    stream->frontier.clear();
  }
  if (graph == none) return;
  auto made = std::make_unique<Graph>();
  made->id = graph;
  made->version = std::make_shared<GraphVersion>(std::move(capture->nodes));
  graphs_[graph] = std::move(made);
}

/// A command of a capturing stream is a node, behind what its stream and the events that it waited for stand for.
std::uint32_t Engine::captured(const Call& call, std::uint32_t place, Op op, const char* name, std::vector<Use> uses,
                               std::uint32_t target, std::span<const std::uint32_t> gives) {
  Stream& stream = *streams_[place];
  const auto found = captures_.find(stream.capture);
  if (found == captures_.end()) return none;
  std::vector<GraphNode>& nodes = found->second->nodes;
  GraphNode node;
  node.op = op;
  node.target = target;
  node.after = stream.frontier;
  node.uses = std::move(uses);
  node.gives.assign(gives.begin(), gives.end());
  node.path = options_.command_text(call.command);
  node.name = name;
  node.file = call.file;
  node.line = call.line;
  node.command = call.command;
  node.stream = place;
  node.thread = call.thread;
  node.captured = true;
  note_in_graphs(node);
  nodes.push_back(std::move(node));
  const auto made = static_cast<std::uint32_t>(nodes.size() - 1);
  stream.frontier = {made};
  leave(call, stream);
  return made;
}

void Engine::update(const Call&, std::uint32_t graph, const std::string& path, std::span<const Use> uses, bool) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return;
  std::vector<GraphNode> nodes = found->second->version->nodes();
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].path != path) continue;
    nodes[i].uses = uses_of(nodes[i].op, {uses.begin(), uses.end()});
    found->second->overlapping.erase(i);
  }
  found->second->version = std::make_shared<GraphVersion>(std::move(nodes));
  found->second->launched = false;
}

void Engine::enable(const Call&, std::uint32_t graph, const std::string& path, bool enabled) {
  const auto found = graphs_.find(graph);
  if (found == graphs_.end()) return;
  std::vector<GraphNode> nodes = found->second->version->nodes();
  for (GraphNode& node : nodes) {
    if (node.path == path) node.enabled = enabled;
  }
  found->second->version = std::make_shared<GraphVersion>(std::move(nodes));
  found->second->launched = false;
}

void Engine::drop_graph(std::uint32_t graph) { graphs_.erase(graph); }

/// Nodes of one launch that nothing orders: once for a pair and its bytes, whatever the launches.
void Engine::check_inside(const Call& call, std::uint32_t place, Graph& graph, std::uint32_t at) {
  const GraphVersion& version = *graph.version;
  const auto ordered = [&](std::uint32_t a, std::uint32_t b) {
    return rule(11) ? version.never_together(a, b) : a == b;
  };
  // Every pair is looked at, so that each node's own races are told, unless there are too many.
  const bool pairs = version.nodes().size() <= most_paired;
  std::map<std::uint32_t, std::vector<std::pair<Access, Runs>>> earlier;
  std::map<std::uint32_t, History> histories;
  std::map<std::uint32_t, Access> begun, ended;
  const auto access_of = [&](std::uint32_t i) {
    Access access;
    access.command = call.command;
    access.site = at;
    access.set_moment(0, i + 1);
    return access;
  };
  // An update may give a node memory that begins further down the list.
  for (std::uint32_t i = 0; i < version.nodes().size() && !version.plain(); ++i) {
    const GraphNode& node = version.nodes()[i];
    if (node.op == Op::alloc && !version.does_nothing(i)) begun.emplace(node.target, access_of(i));
  }
  for (std::uint32_t i = 0; i < version.nodes().size(); ++i) {
    const GraphNode& node = version.nodes()[i];
    if (version.does_nothing(i)) continue;
    const Second second{call, node.op, place, node.name, &version, graph.id, i};
    const Access access = access_of(i);
    std::vector<Hit> hits;
    const auto add = [&](FindingKind kind, const Access& first, std::uint32_t buffer, std::uint64_t begin,
                         std::uint64_t end, std::size_t number, recorded::Access how) {
      const auto node_of = static_cast<std::uint32_t>(first.tick - 1);
      const auto told = graph.reported.find({node_of, i, buffer});
      const auto hit = [&](std::uint64_t from, std::uint64_t to) {
        hits.push_back({kind, first, buffer, from, to, static_cast<std::uint32_t>(number), how, false, node_of, true});
      };
      if (told == graph.reported.end()) return hit(begin, end);
      for (const auto& [from, to] : without({{begin, end}}, told->second)) hit(from, to);
    };
    const auto is_before = [&](const Access& old) { return ordered(static_cast<std::uint32_t>(old.tick - 1), i); };
    const auto begun_before = [&](const Access& alloc) {
      return is_before(alloc) && !version.before(i, static_cast<std::uint32_t>(alloc.tick - 1));
    };
    if (node.op == Op::free) {
      const std::uint64_t bytes = buffers_[node.target]->fact.bytes;
      if (const auto alloc = begun.find(node.target); alloc != begun.end() && !begun_before(alloc->second)) {
        add(FindingKind::free_before_alloc, alloc->second, node.target, 0, bytes, 0, recorded::Access::out);
      }
      histories[node.target].check(Runs{{0, bytes}}, recorded::Access::out, is_before,
                                   [&](std::uint64_t begin, std::uint64_t end, const Access& first) {
                                     add(FindingKind::use_after_free, first, node.target, begin, end, 0,
                                         recorded::Access::out);
                                   });
      ended[node.target] = access;
    }
    for (std::size_t n = 0; n < node.uses.size(); ++n) {
      const Use& use = node.uses[n];
      const std::span<const Run> bytes = runs(use);
      if (const auto alloc = begun.find(use.buffer); alloc != begun.end() && !begun_before(alloc->second)) {
        for (const auto& [begin, end] : bytes) {
          add(FindingKind::use_before_alloc, alloc->second, use.buffer, begin, end, n, use.access);
        }
      }
      if (const auto free = ended.find(use.buffer); free != ended.end()) {
        for (const auto& [begin, end] : bytes) {
          add(FindingKind::use_after_free, free->second, use.buffer, begin, end, n, use.access);
        }
      }
      const auto races = [&](std::uint64_t begin, std::uint64_t end, const Access& first) {
        kinds_of(first.how(), use.access,
                 [&](FindingKind kind) { add(kind, first, use.buffer, begin, end, n, use.access); });
      };
      if (!pairs) histories[use.buffer].check(bytes, use.access, is_before, races);
      for (const auto& [first, touched] : earlier[use.buffer]) {
        if (!conflict(first.how(), use.access) || is_before(first)) continue;
        for (const auto& [begin, end] : common({bytes.begin(), bytes.end()}, touched)) races(begin, end, first);
      }
    }
    if (!hits.empty()) {
      for (const Hit& one : hits) {
        Runs& told = graph.reported[{one.node, i, one.buffer}];
        told.emplace_back(one.begin, one.end);
        normalise(told);
      }
      conclude(second, hits);
    }
    for (std::size_t n = 0; n < node.uses.size(); ++n) {
      const std::span<const Run> bytes = runs(node.uses[n]);
      Access used = access;
      used.set_use(node.uses[n].access, n);
      if (pairs) earlier[node.uses[n].buffer].emplace_back(used, Runs(bytes.begin(), bytes.end()));
      histories[node.uses[n].buffer].add(bytes, used, [&](const Access& old) {
        return rule(11) && version.before(static_cast<std::uint32_t>(old.tick - 1), i);
      });
    }
    if (node.uses.size() > 1 && !node.collective && graph.overlapping.insert(i).second)
      check_overlaps(second, node.uses);
  }
}

void Engine::launch_graph(const Call& call, std::uint32_t place, std::uint32_t which) {
  const auto found = graphs_.find(which);
  if (found == graphs_.end()) return;
  Graph& graph = *found->second;
  if (streams_[place]->capture != 0) {
    const std::uint32_t parent = captured(call, place, Op::graph, "", {});
    if (parent != none) copy_into(captures_.at(streams_[place]->capture)->nodes, *graph.version);
    return;
  }
  collect_sites();
  Stream& stream = enter(call, place);
  if (rule(10)) stream.clock.join(graph.end);
  const std::shared_ptr<const GraphVersion> version = graph.version;
  begin_launch(stream.clock, *version);
  const Clock before = version->called().empty() ? Clock() : stream.clock;
  launch_whole(call, stream, graph, launch_site(call, place, graph));
  end_launch(call, stream, *version, before);
  leave(call, stream);
}

/// Whether a launch of a plain graph has to be looked at node by node; others always have.
bool Engine::may_race(const GraphVersion& version, const Clock& now) const {
  if (!version.plain()) return true;
  bool found = false;
  for (const Footprint& one : version.footprint()) {
    const Buffer& buffer = *buffers_[one.buffer];
    if (buffer.is_freed || !buffer.guards.empty() || (buffer.alloc.tick != 0 && !before(buffer.alloc, now)))
      return true;
    for (const Footprint::Part& part : one.parts) {
      buffer.history.check(
          part.runs, part.access, [&](const Access& access) { return before(access, now); },
          [&](std::uint64_t, std::uint64_t, const Access&) { found = true; });
    }
    if (found) return true;
  }
  return false;
}

/// What a node is behind beside the launch's begin: the events that the `waits` before it wait for.
Clock Engine::clock_of(const GraphVersion& version, std::span<const std::uint32_t> waits, std::uint32_t node,
                       const Clock& begin) const {
  Clock clock = begin;
  for (const std::uint32_t wait : waits) {
    if (rule(12) && version.before(wait, node)) clock.join(events_[version.nodes()[wait].target].clock);
  }
  return clock;
}

/// What the nodes of a launch race with outside of it. Memory that the graph allocates begins with the launch.
void Engine::check_nodes(const Call& call, std::uint32_t place, const Graph& graph, std::uint32_t at,
                         const Clock& begin) {
  const GraphVersion& version = *graph.version;
  std::vector<std::uint32_t> own, waits;
  for (std::uint32_t i = 0; i < version.nodes().size() && !version.plain(); ++i) {
    const GraphNode& node = version.nodes()[i];
    if (version.does_nothing(i)) continue;
    if (node.op == Op::alloc) own.push_back(node.target);
    if (node.op == Op::wait) waits.push_back(i);
  }
  std::sort(own.begin(), own.end());
  const auto is_own = [&](std::uint32_t buffer) { return std::binary_search(own.begin(), own.end(), buffer); };
  for (std::uint32_t i = 0; i < version.nodes().size(); ++i) {
    if (version.does_nothing(i)) continue;
    const GraphNode& node = version.nodes()[i];
    const Second second{call, node.op, place, node.name, &version, graph.id, i};
    const Clock behind = waits.empty() ? Clock() : clock_of(version, waits, i, begin);
    const Clock& now = waits.empty() ? begin : behind;
    hits_.clear();
    for (std::size_t n = 0; n < node.uses.size(); ++n) {
      if (is_own(node.uses[n].buffer) && buffers_[node.uses[n].buffer]->launch != at) continue;
      check_use(node.uses[n], n, now, false, at, version.keeps(node.uses[n].buffer));
    }
    if (!hits_.empty()) {
      std::vector<Hit> hits;
      hits.swap(hits_);
      conclude(second, hits);
    }
    if (node.op == Op::free && !is_own(node.target)) check_free(second, node.target, now);
  }
}

void Engine::try_launch(const Call& call, std::uint32_t place, std::uint32_t which) {
  const auto found = graphs_.find(which);
  if (found == graphs_.end() || streams_[place]->capture != 0) return;
  Graph& graph = *found->second;
  remember(place);
  Clock begin = enter(call, place).clock;
  if (rule(10)) begin.join(graph.end);
  begin_launch(begin, *graph.version);
  const std::uint32_t at = launch_site(call, place, graph);
  if (may_race(*graph.version, begin)) check_nodes(call, place, graph, at, begin);
  if (!graph.launched) {
    const auto reported = graph.reported;
    const auto overlapping = graph.overlapping;
    check_inside(call, place, graph, at);
    graph.reported = reported;
    graph.overlapping = overlapping;
  }
  give_site_back(at);
}

void Engine::launch_whole(const Call& call, Stream& stream, Graph& graph, std::uint32_t at) {
  const std::shared_ptr<const GraphVersion> keep = graph.version;
  const GraphVersion& version = *keep;
  const auto count = static_cast<std::uint32_t>(version.nodes().size());
  const auto each = [&](const auto& call_node) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!version.does_nothing(i)) call_node(i, version.nodes()[i]);
    }
  };
  std::vector<std::uint32_t> waits, records;
  const Clock begin = version.plain() ? Clock() : stream.clock;
  if (!version.plain()) {
    each([&](std::uint32_t i, const GraphNode& node) {
      if (node.op == Op::wait) waits.push_back(i);
      if (node.op == Op::record || !node.gives.empty()) records.push_back(i);
      if (node.op == Op::alloc) {
        Buffer& buffer = *buffers_[node.target];
        buffer.launch = at;
        buffer.is_freed = false;
        buffer.history.clear();
        buffer.written.clear();
        buffer.all_written = buffer.fact.kind != MemoryKind::device || buffer.fact.bytes == 0;
      }
    });
  }

  bool contents = !version.plain();
  for (const Footprint& one : version.footprint()) contents = contents || !buffers_[one.buffer]->all_written;
  if (!version.touches_all()) skip("graph " + options_.graph_text(graph.id), "some regions have too many rows");
  if (may_race(version, stream.clock)) check_nodes(call, stream.id, graph, at, stream.clock);
  if (!graph.launched) {
    check_inside(call, stream.id, graph, at);
    graph.launched = true;
  }
  if (contents) {
    each([&](std::uint32_t i, const GraphNode& node) {
      const Second second{call, node.op, stream.id, node.name, &version, graph.id, i};
      check_contents(second, node.uses);
      for (const Use& use : node.uses) {
        if (!writes(use.access) || buffers_[use.buffer]->all_written) continue;
        wrote(*buffers_[use.buffer], runs(use));
      }
    });
  }

  // From here on it is one of the accesses that others are compared with.
  Access made;
  made.command = call.command;
  made.site = at;
  made.set_moment(stream.timeline, stream.tick);
  ++graph.launches;
  const auto is_used = [](const GraphNode& node) {
    return !node.uses.empty() || node.op == Op::alloc || node.op == Op::free;
  };
  const auto is_behind = [&](std::uint32_t node, std::uint32_t record) {
    return version.holds(node, record) || version.before(node, record);
  };
  // Of those that come behind nothing no order of this launch follows.
  std::vector<bool> behind_uses(records.size()), behind_all(records.size(), true);
  std::vector<std::vector<bool>> stands_for(records.size(), behind_all);  ///< the first for all uses of the second
  bool uses_any = !version.footprint().empty();
  if (!version.plain()) {
    each([&](std::uint32_t i, const GraphNode& node) {
      if (!is_used(node)) return;
      uses_any = true;
      for (std::size_t r = 0; r < records.size(); ++r) {
        const bool behind = is_behind(i, records[r]);
        behind_uses[r] = behind_uses[r] || behind;
        behind_all[r] = behind_all[r] && behind;
        for (std::size_t other = 0; !behind && other < records.size(); ++other)
          stands_for[r][other] = stands_for[r][other] && !is_behind(i, records[other]);
      }
    });
  }
  if (uses_any) {
    made.set_moment(stream.timeline, ++stream.tick);
    stream.clock.raise(stream.timeline, stream.tick);
  }
  for (const std::uint32_t wait : waits) {
    if (rule(12)) stream.clock.join(events_[version.nodes()[wait].target].clock);
  }
  while (graph.record_timelines.size() < records.size()) graph.record_timelines.push_back(new_timeline());
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (behind_uses[r]) stream.clock.raise(graph.record_timelines[r], graph.launches);
  }

  if (version.plain()) {
    for (const Footprint& one : version.footprint()) {
      Buffer& buffer = *buffers_[one.buffer];
      made.kept = one.whole && buffer.fact.owner == recorded::Owner::array ? 1 : 0;
      for (const Footprint::Part& part : one.parts) {
        made.set_use(part.access, 0xffff);
        buffer.history.add(part.runs, made, [&](const Access& old) { return before(old, stream.clock); });
      }
      if (made.kept == 0) continue;
      if (!buffer.keepers) buffer.keepers = std::make_unique<Clock>();
      buffer.keepers->join(stream.clock);
    }
  } else {
    each([&](std::uint32_t i, const GraphNode& node) {
      Access used = made;
      Site own = sites_[at];
      own.node = i;
      for (std::size_t r = 0; r < records.size(); ++r) {
        // What a conditional node reads is read before its bodies run.
        if (is_behind(i, records[r])) own.also_before.emplace_back(graph.record_timelines[r], graph.launches);
      }
      used.site = add_site(std::move(own));
      first_launch_ = std::min(first_launch_, used.site);
      if (node.op == Op::alloc) {
        buffers_[node.target]->alloc = used;
        buffers_[node.target]->place = {node.file == nullptr ? call.file : node.file,
                                        node.file == nullptr ? call.line : node.line};
      }
      if (node.op == Op::free) {
        buffers_[node.target]->is_freed = true;
        buffers_[node.target]->freed = used;
        buffers_[node.target]->freed.tick = never;
      }
      const Clock clock = clock_of(version, waits, i, begin);
      for (std::size_t n = 0; n < node.uses.size(); ++n) {
        Buffer& buffer = *buffers_[node.uses[n].buffer];
        used.kept = version.keeps(buffer.id) && buffer.fact.owner == recorded::Owner::array ? 1 : 0;
        const std::span<const Run> bytes = runs(node.uses[n]);
        if (bytes.empty()) continue;
        used.set_use(node.uses[n].access, n);
        // Of one launch nothing hides another, for events may stand for one and not for the other.
        buffer.history.add(bytes, used, [&](const Access& old) { return old.tick != used.tick && before(old, clock); });
        if (used.kept != 0) {
          if (!buffer.keepers) buffer.keepers = std::make_unique<Clock>();
          buffer.keepers->join(stream.clock);
        }
      }
    });
    for (std::size_t r = 0; r < records.size(); ++r) {
      Clock clock = clock_of(version, waits, records[r], begin);
      for (std::size_t other = 0; other < records.size(); ++other) {
        if (behind_uses[other] && stands_for[r][other]) clock.raise(graph.record_timelines[other], graph.launches);
      }
      if (behind_uses[r] && behind_all[r]) clock.raise(stream.timeline, stream.tick);
      const GraphNode& node = version.nodes()[records[r]];
      for (const std::uint32_t one : node.gives) hand_offs_[one].join(clock);
      if (node.op != Op::record || !rule(12)) continue;
      Event& event = events_[node.target];
      event.capture = 0;
      event.recorded = true;
      event.stream_before = event.stream;
      event.stream = stream.id;
      event.launch = call.command;
      event.place_before = std::exchange(event.place, {call.file, call.line});
      event.sequence = ++records_;
      event.clock = std::move(clock);
    }
  }
  graph.end = stream.clock;
}

}  // namespace weir::check
