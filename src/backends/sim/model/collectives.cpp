// Collectives: parts in several streams, which begin and end together.
#include <algorithm>
#include <utility>

#include "backends/sim/model/simulation.hpp"

namespace weir::sim::model {

/// A part comes to its meeting.
void Simulation::meet(std::uint32_t command) {
  Meeting& meeting = meetings_[commands_[command].meeting];
  meeting.parts.push_back(command);
  meeting.us = std::max(meeting.us, task_of(command).fixed_us);
  if (meeting.parts.size() < meeting.expected) return;
  begin(meeting);
  meetings_.erase(commands_[command].meeting);
}

void Simulation::begin(Meeting& meeting) {
  const std::uint32_t last = meeting.parts.back();
  for (const std::uint32_t part : meeting.parts) {
    Span& span = spans_[part];
    span.begin = now_;
    const bool waited = now_ > span.ready;
    span.begin_by = waited ? Cause::order : span.ready_by;
    span.holder = waited ? last : none;
    commands_[part].started = now_;
    let_go(part, Phase::started, now_);
    at(now_ + meeting.us, What::end, part);
  }
}

/// Those that some parts have come to: what all wait for will not come, for the collective has failed. Parts that come later
/// wait for nobody.
bool Simulation::give_up_meetings() {
  bool any = false;
  for (auto& [number, meeting] : meetings_) {
    any = any || !meeting.parts.empty();
    meeting.us = 0;
    meeting.expected = 0;
    if (!meeting.parts.empty()) begin(meeting);
    meeting.parts.clear();
  }
  return any;
}

/// Parts of one unit come behind what was there before the first of them, and later commands behind all of them.
void Simulation::enter_collective(std::uint32_t command, const Call& call) {
  commands_[command].meeting = call.target;
  meetings_[call.target].expected = call.parts;
  StreamState& state = streams_[call.stream];
  std::vector<Behind> others;
  if (call.unit != 0 && state.unit == call.unit) {
    others = std::exchange(state.tail, state.before_unit);
  } else {
    state.before_unit = state.tail;
  }
  enter_stream(command, call.stream);
  state.tail.insert(state.tail.end(), others.begin(), others.end());
  state.unit = call.unit;

  if (call.chain == none) return;
  if (chains_.size() <= call.chain) chains_.resize(call.chain + 1);
  Chain& chain = chains_[call.chain];
  if (call.unit == 0 || chain.unit != call.unit) chain.before = std::exchange(chain.last, {});
  chain.unit = call.unit;
  for (const std::uint32_t before : chain.before) come_behind(before, command, Phase::ended, 0, Cause::order);
  chain.last.push_back(command);
}

}  // namespace weir::sim::model
