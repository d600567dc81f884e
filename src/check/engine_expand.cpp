// Where a finding of a launch is: the nodes of the graph whose uses made it.
#include <utility>

#include "check/state.hpp"

namespace weir::check {

std::uint32_t Engine::launch_site(const Call& call, std::uint32_t place, const Graph& graph) {
  Site made{recorded::Op::launch_graph, place, call.thread, "", {call.file, call.line}};
  made.version = graph.version;
  made.graph = graph.id;
  return add_site(std::move(made));
}

/// A launch was compared as one: which of its nodes it was.
void Engine::expand(const Hit& hit, const Site& site, std::vector<Hit>& made) const {
  const auto add = [&](std::uint32_t i) {
    const GraphNode& node = site.version->nodes()[i];
    if (site.version->does_nothing(i)) return;
    for (std::size_t n = 0; n < node.uses.size(); ++n) {
      const Use& use = node.uses[n];
      Runs bytes;
      if (use.buffer != hit.buffer || !runs_of(use, bytes)) continue;
      const Runs both = common(bytes, {{hit.begin, hit.end}});
      const auto push = [&](FindingKind kind) {
        for (const auto& [begin, end] : both) {
          Hit one = hit;
          one.kind = kind;
          one.begin = begin;
          one.end = end;
          one.node = i;
          one.first.set_use(use.access, n);
          made.push_back(one);
        }
      };
      if (hit.kind == FindingKind::use_after_free) {
        push(hit.kind);
      } else if (conflict(use.access, hit.how)) {
        kinds_of(use.access, hit.how, push);
      }
    }
  };
  if (hit.node != none || site.node != none) {
    made.push_back(hit);
    if (hit.node == none) made.back().node = site.node;
    return;
  }
  const std::size_t before = made.size();
  for (std::uint32_t i = 0; i < site.version->nodes().size(); ++i) add(i);
  if (made.size() == before) made.push_back(hit);
}

}  // namespace weir::check
