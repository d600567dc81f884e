// Mends: the smallest order that makes a finding disappear, tried before it is told.
#include <algorithm>
#include <utility>

#include "check/state.hpp"

namespace weir::check {

/// Whether a second side that is behind this, too, races no more.
bool Engine::covered(const std::vector<Hit>& hits, const Clock& clock) const {
  return std::all_of(hits.begin(), hits.end(), [&](const Hit& hit) { return before(hit.first, clock); });
}

const std::string& Engine::in_code(std::uint32_t stream) const {
  const StreamFact& fact = streams_[stream]->fact;
  return fact.code.empty() ? fact.name : fact.code;
}

/// A name that no event has.
std::string Engine::new_event() const {
  for (;;) {
    std::string name = "mend" + std::to_string(++new_events_);
    if (std::none_of(events_.begin(), events_.end(), [&](const Event& one) { return one.name == name; })) return name;
  }
}

FindingPart<Mend> Engine::mend(const Second& second, const std::vector<Hit>& hits, bool host_second) const {
  const Hit& some = hits.front();
  if (some.inside) return mend_inside(second, hits);
  const auto cannot = [&](const Hit& hit) {
    // A guard, or memory that is gone already.
    return hit.first.host != 0 || hit.first.tick == never ||
           (hit.kind == FindingKind::use_after_free && second.op != Op::free);
  };
  if (std::any_of(hits.begin(), hits.end(), cannot)) return {};
  const Hit& latest = *std::max_element(hits.begin(), hits.end(),
                                        [](const Hit& a, const Hit& b) { return a.first.tick < b.first.tick; });
  const Site& last = sites_[latest.first.site];
  if (last.stream == none) return {};
  const Stream& first = *streams_[last.stream];
  // The thread that began a capture may not wait.
  if (host_second) {
    for (const auto& [id, capture] : captures_) {
      if (capture->thread == second.call.thread) return {};
    }
  }

  Mend made;
  made.verified = true;
  const std::string here = options_.command_text(second.call.command);
  const std::string thread = options_.thread_text(second.call.thread);
  const auto wait_here = [&](const std::string& event, const std::string& shown, const std::string& other) {
    Mend::Insert insert{
        true, here, host_second ? "synchronize" : "wait", host_second ? "" : named(second.stream), event, "", thread};
    std::string text;
    if (host_second) {
      if (!other.empty()) insert.stream = other;
      text = (shown.empty() ? in_code(last.stream) : shown) + ".synchronize();";
    } else {
      insert.other = other;
      text = in_code(second.stream) + ".wait(" + (shown.empty() ? in_code(last.stream) : shown) + ");";
    }
    made.insert.push_back(insert);
    made.code.push_back({true, second.call.file, second.call.line, text});
  };

  const Event* best = nullptr;
  for (const Event& event : events_) {
    if (!event.alive || !event.recorded || event.capture != 0 || !covered(hits, event.clock)) continue;
    const auto rank = [&](const Event& one) { return std::make_pair(one.stream != first.id, one.sequence); };
    if (best == nullptr || rank(event) < rank(*best)) best = &event;
  }
  if (best != nullptr) {
    const bool nameless = best->name.empty() || options_.keys_by_line;
    const std::string shown =
        nameless ? "<event recorded at " + std::string(best->place.file) + ":" + std::to_string(best->place.line) + ">"
                 : best->name;
    wait_here(best->name, shown, "");
    return made;
  }
  // A thread's own stream is nobody else's to wait for.
  const bool foreign = first.fact.kind == recorded::StreamKind::per_thread && last.thread != second.call.thread;
  const bool still = first.alive && first.capture == 0 && first.last_command == latest.first.command && !foreign;
  if (still && covered(hits, first.clock)) {
    wait_here("", "", first.fact.name);
    return made;
  }
  Clock record;
  record.raise(latest.first.timeline, latest.first.tick);
  if (!covered(hits, record)) return {};
  const std::string name = new_event();
  made.insert.push_back({false, options_.command_text(latest.first.command), "record", first.fact.name, name, "",
                         options_.thread_text(last.thread)});
  made.code.push_back(
      {false, last.place.file, last.place.line, "auto " + name + " = " + in_code(last.stream) + ".record();"});
  wait_here(name, name, "");
  return made;
}

/// Between nodes: an edge, or in a capture a wait between the streams that were captured.
FindingPart<Mend> Engine::mend_inside(const Second& second, const std::vector<Hit>& hits) const {
  const GraphVersion& version = *second.version;
  std::uint32_t a, b;
  if (!version.meet(hits.front().node, second.node, a, b)) return {};
  // An edge from the earlier one of a list to the later one closes no circle.
  if (a > b || version.before(b, a)) return {};
  const GraphNode& before_node = version.nodes()[a];
  const GraphNode& node = version.nodes()[b];
  Mend made;
  made.verified = true;
  if (before_node.captured && node.captured) {
    if (before_node.stream == node.stream || before_node.stream == none || node.stream == none) return {};
    const std::string here = options_.command_text(node.command);
    const std::string thread = options_.thread_text(node.thread);
    const auto wait_here = [&](const std::string& event, const std::string& other, const std::string& shown) {
      made.insert.push_back({true, here, "wait", named(node.stream), event, other, thread});
      made.code.push_back(
          {true, node.file == nullptr ? "" : node.file, node.line, in_code(node.stream) + ".wait(" + shown + ");"});
    };
    const Stream& first = *streams_[before_node.stream];
    const bool still =
        std::none_of(version.nodes().begin() + a + 1, version.nodes().begin() + b, [&](const GraphNode& other) {
          return other.parent == before_node.parent && other.stream == before_node.stream;
        });
    // A thread's own stream is nobody else's to wait for. One that is gone may have been so at the node.
    const bool foreign = first.fact.kind == recorded::StreamKind::per_thread && before_node.thread != node.thread;
    if (still && first.alive && !foreign) {
      wait_here("", named(before_node.stream), in_code(before_node.stream));
      return made;
    }
    const std::string name = new_event();
    made.insert.push_back({false, options_.command_text(before_node.command), "record", named(before_node.stream), name,
                           "", options_.thread_text(before_node.thread)});
    made.code.push_back({false, before_node.file == nullptr ? "" : before_node.file, before_node.line,
                         "auto " + name + " = " + in_code(before_node.stream) + ".record();"});
    wait_here(name, "", name);
    return made;
  }
  if (before_node.captured || node.captured || before_node.graph != node.graph) return {};
  made.edges.push_back({options_.graph_text(node.graph), node.origin, before_node.origin});
  made.code.push_back({true, node.file == nullptr ? second.call.file : node.file,
                       node.file == nullptr ? second.call.line : node.line,
                       "builder.depends(" + node.origin + ", " + before_node.origin + ");"});
  return made;
}

}  // namespace weir::check
