// Bodies of graphs, as updates change them. A child graph is a copy: it stays as it was when it was captured.
#include "bodies.hpp"

#include <algorithm>

namespace weir::stress {

bool can_update(Kind kind) { return kind == Kind::set || kind == Kind::bump || kind == Kind::map; }

const Command* updated(const Program& program, const Command& update) {
  const std::vector<Command>& body = graph_of(program, update).body;
  const auto found = std::find_if(body.begin(), body.end(),
                                  [&](const Command& c) { return can_update(c.kind) && c.number == update.number; });
  return found != body.end() ? &*found : nullptr;
}

void Bodies::apply(const Command& c) {
  if (c.kind == Kind::make_graph) capture(c);
  if (c.kind == Kind::update_graph) update(c);
}

void Bodies::capture(const Command& c) {
  Body made;
  for (const Command& inner : graph_of(program_, c).body) {
    if (inner.kind != Kind::replay) {
      made.push_back({inner});
      continue;
    }
    for (Step step : *now(inner.graph)) {
      step.command.number = -1;  // nobody updates it there
      made.push_back(std::move(step));
    }
  }
  bodies_[static_cast<std::size_t>(c.graph)] = std::make_shared<const Body>(std::move(made));
}

void Bodies::update(const Command& c) {
  Body changed = *now(c.graph);
  for (Step& step : changed) {
    if (!can_update(step.command.kind) || step.command.number != c.number) continue;
    if (c.change == Change::kernel) step.command.salt = c.salt;
    if (c.change == Change::kernel) step.command.delay = c.delay;
    if (c.change == Change::disable) step.enabled = false;
    if (c.change == Change::enable) step.enabled = true;
  }
  bodies_[static_cast<std::size_t>(c.graph)] = std::make_shared<const Body>(std::move(changed));
}

}  // namespace weir::stress
