// What commands of streams come behind: CUDA's rules of order, from what was asked for.
#include "foreign/order.hpp"

#include <algorithm>
#include <utility>

namespace weir::foreign {

using trace::none;
using trace::Tie;

Order::Order(std::vector<StreamRules> streams) : rules_(std::move(streams)), states_(rules_.size()) {
  for (std::uint32_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i].legacy) contexts_[rules_[i].context].legacy = i;
  }
}

void Order::add_to(Behind& behind, std::uint32_t command, Tie tie) {
  const bool known = std::any_of(behind.begin(), behind.end(),
                                 [command](const trace::Dependency& one) { return one.command == command; });
  if (command != none && !known) behind.push_back({command, tie});
}

std::vector<trace::Dependency> Order::add(std::uint32_t place, std::uint32_t stream, const Activity& command) {
  Behind behind;
  behind_stream(place, stream, command, behind);
  if (command.kind == Activity::Kind::wait) add_to(behind, record_of(command), Tie::event);
  behind_default_streams(stream, behind);
  if (command.kind == Activity::Kind::record) {
    if (command.number != 0) records_[command.number] = place;
    last_records_[{command.context, command.object}] = place;
  }
  return behind;
}

/// The nodes of one launch are in no order of a stream among themselves; what follows comes behind the last to end.
void Order::behind_stream(std::uint32_t place, std::uint32_t stream, const Activity& command, Behind& behind) {
  State& state = states_[stream];
  const std::uint32_t graph = command.in_graph ? command.correlation : 0;
  if (graph == 0 || graph != state.graph) {
    state.before_graph = state.last;
    state.graph_ends = 0;
  }
  state.graph = graph;
  add_to(behind, graph == 0 ? state.last : state.before_graph, Tie::stream_order);
  if (graph != 0 && command.end < state.graph_ends) return;
  state.graph_ends = command.end;
  state.last = place;
}

void Order::behind_default_streams(std::uint32_t stream, Behind& behind) {
  const StreamRules& rules = rules_[stream];
  OfContext& context = contexts_[rules.context];
  if (rules.legacy) {
    for (const std::uint32_t other : context.fresh) {
      add_to(behind, states_[other].last, Tie::default_stream);
      states_[other].fresh = false;
    }
    context.fresh.clear();
    return;
  }
  if (!rules.blocking) return;
  State& state = states_[stream];
  if (context.legacy != none && states_[context.legacy].last != state.behind_legacy) {
    state.behind_legacy = states_[context.legacy].last;
    add_to(behind, state.behind_legacy, Tie::default_stream);
  }
  if (!std::exchange(state.fresh, true)) context.fresh.push_back(stream);
}

std::uint32_t Order::record_of(const Activity& wait) const {
  if (wait.number != 0) {
    const auto record = records_.find(wait.number);
    return record == records_.end() ? none : record->second;
  }
  const auto last = last_records_.find({wait.context, wait.object});
  return last == last_records_.end() ? none : last->second;
}

std::uint32_t Order::event(const Activity& activity) {
  const auto number = static_cast<std::uint32_t>(events_.size() + 1);
  return events_.try_emplace({activity.context, activity.object}, number).first->second;
}

}  // namespace weir::foreign
