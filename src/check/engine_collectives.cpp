// The engine's collectives: they order the streams of their ranks, and may wait for each other in a circle.
#include "check/state.hpp"

namespace weir::check {

namespace {

std::string described(const Circles::Part& part) {
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
    text += " rank " + std::to_string(link.part->call.rank) + " has " + described(*link.part) + " behind " +
            described(*link.behind) + ";";
  }
  text.back() = '.';
  return text + " Call them in the same order on all ranks, or in a weir::CollectiveGroup";
}

}  // namespace

Circles::Part Engine::part_of(const Call& call, std::uint32_t place, const CollectiveCall& made) const {
  Circles::Part part{made, place, streams_[place]->timeline, streams_[place]->tick,
                     side_of({call, Op::external, place, made.name}, 0, recorded::Access::in, false, true)};
  part.side.op = "collective";
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
  if (made.unit != 0 && made.unit == stream.unit) return stream.before_unit;
  Clock before = stream.clock;
  if (added) before.lower(stream.timeline, stream.before_work);  // without its own uses
  return before;
}

void Engine::try_collective(const Call& call, std::uint32_t place, const CollectiveCall& made) {
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
  Circles::Part part = part_of(call, place, made);
  const std::vector<Circles::Link> circle = find_circle(part, before);
  part.tick = ++stream.tick;
  stream.clock.raise(stream.timeline, stream.tick);
  const auto whole = circles_.add(part, before, circle);
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
