// The engine's collectives: they order the streams of their ranks, and may wait for each other in a circle.
#include "check/state.hpp"

namespace weir::check {

namespace {

std::string described(const Circles::Part& part) {
  if (part.call.launch) {
    return "the launch of a graph with collectives of '" + part.call.of + "' at " + part.side.file + ":" +
           std::to_string(part.side.line);
  }
  std::string text = std::string(part.call.name) + " of '" + part.call.of + "'";
  if (part.call.from >= 0) {
    const bool sends = part.call.rank == part.call.from;
    text += sends ? ", to " + std::to_string(part.call.to) : ", from " + std::to_string(part.call.from);
  }
  return text + " at " + part.side.file + ":" + std::to_string(part.side.line);
}

std::string described(const std::vector<Circles::Link>& circle) {
  std::string text = "each of these waits for another one, so none of them ends:";
  for (const Circles::Link& link : circle) {
    if (!link.part) continue;
    text += link.part->call.launch ? " " + described(*link.part) + " comes"
                                   : " rank " + std::to_string(link.part->call.rank) + " has " + described(*link.part);
    text += " behind " + described(*link.behind) + ";";
  }
  text.back() = '.';
  return text + " Call them in the same order on all ranks, or in a weir::CollectiveGroup";
}

}  // namespace

Circles::Part Engine::part_of(const Call& call, std::uint32_t place, const CollectiveCall& made) const {
  Circles::Part part{made, place, streams_[place]->timeline, streams_[place]->tick,
                     side_of({call, made.launch ? Op::launch_graph : Op::external, place, made.name}, 0,
                             recorded::Access::in, false, true)};
  if (!made.launch) part.side.op = "collective";
  return part;
}

std::vector<Circles::Link> Engine::find_circle(const Circles::Part& part, const Clock& before) {
  std::vector<Circles::Link> circle = circles_.find(part, before);
  if (circle.empty()) return circle;
  Finding made;
  made.kind = FindingKind::deadlock;
  made.second = part.side;
  for (const Circles::Link& link : circle) {
    if (!link.behind) continue;
    made.first = link.behind->side;
    break;
  }
  made.why = described(circle);
  report(std::move(made));
  return circle;
}

/// What the part comes behind: parts of one group come behind what was there before the group.
Clock Engine::before_part(const Stream& stream, const CollectiveCall& made, bool added) const {
  if (made.unit != 0 && made.unit == stream.unit) {
    Clock before = stream.before_unit;
    before.join(circles_.before_call(made));
    return before;
  }
  Clock before = stream.clock;
  if (added) before.lower(stream.timeline, stream.before_work);  // without its own uses
  return before;
}

void Engine::begin_collective(const Call& call, std::uint32_t place, const CollectiveCall& made, bool tried) {
  if (streams_[place]->capture != 0) return;
  if (tried) remember(place);
  enter(call, place).clock.join(circles_.before_call(made));
}

void Engine::begin_launch(Clock& clock, const GraphVersion& version) const {
  for (const Called& one : version.called()) clock.join(circles_.before_launch(one.communicator));
}

/// A launch of a graph with collectives is a call of all ranks, behind those before. It closes no circle: nothing waits for it yet.
void Engine::end_launch(const Call& call, Stream& stream, const GraphVersion& version, const Clock& before) {
  if (version.called().empty()) return;
  circles_.over(thread(call).clock);
  const CollectiveCall made{.number = ++launches_, .rank = -1, .of = version.called().front().name, .launch = true};
  Circles::Part part = part_of(call, stream.id, made);
  part.tick = ++stream.tick;
  stream.clock.raise(stream.timeline, stream.tick);
  ++stream.version;
  circles_.add(part, before, {});
  for (const Called& one : version.called()) circles_.note_launch(one.communicator, stream.clock);
}

void Engine::try_collective(const Call& call, std::uint32_t place, const CollectiveCall& made) {
  if (made.size == 0) return;
  remember(place);
  const Stream& stream = enter(call, place);
  circles_.over(thread(call).clock);
  find_circle(part_of(call, place, made), before_part(stream, made, false));
}

void Engine::collective(const Call& call, std::uint32_t place, const CollectiveCall& made) {
  Stream& stream = *streams_[place];
  if (stream.capture != 0) return;
  const Clock before = before_part(stream, made, true);
  circles_.over(thread(call).clock);
  stream.unit = made.unit;
  if (made.unit != 0) stream.before_unit = before;
  // It is never whole here, and its circles are seen by nobody: what is known is that this rank's calls follow each other.
  if (made.size == 0) return circles_.note_call(made, before, stream.clock);
  Circles::Part part = part_of(call, place, made);
  const std::vector<Circles::Link> circle = find_circle(part, before);
  part.tick = ++stream.tick;
  stream.clock.raise(stream.timeline, stream.tick);
  const auto whole = circles_.add(part, before, circle);
  circles_.note_call(made, before, stream.clock);
  if (!whole) return;
  // What the ranks' streams are given from here on comes behind it; what others were given meanwhile is no part of it.
  for (const Circles::Part& one : whole->parts) {
    Stream& its = *streams_[one.stream];
    if (its.timeline != one.timeline) continue;  // it is gone
    its.clock.join(whole->before);
    ++its.version;
  }
}

}  // namespace weir::check
