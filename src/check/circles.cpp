#include "check/circles.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace weir::check {

namespace {

/// Those that wait for ranks which never call are forgotten at last, and so are communicators.
constexpr std::size_t most_open = 16384;

}  // namespace

Circles::Key Circles::key_of(const CollectiveCall& call) const {
  Key key{call.launch ? 0 : call.communicator, call.from, call.to, call.number};
  if (call.from < 0) return key;
  Pair so_far;
  if (const auto of_communicator = pairs_.find(call.communicator); of_communicator != pairs_.end()) {
    const auto found = of_communicator->second.find({call.from, call.to});
    if (found != of_communicator->second.end()) so_far = found->second;
  }
  const bool sends = std::string_view(call.name) == "send";
  key.number = 1 + (sends ? so_far.sent : so_far.received);
  return key;
}

const Circles::Part* Circles::part_at(const std::optional<Place>& place) const {
  if (!place) return nullptr;
  const std::vector<Part>& parts = open_.at(parts_.at(place->first).at(place->second)).parts;
  return &*std::find_if(parts.begin(), parts.end(),
                        [&](const Part& part) { return part.timeline == place->first && part.tick == place->second; });
}

/// Of each timeline the last part that comes before is enough: it waits for the earlier ones itself.
std::vector<Circles::Wait> Circles::waits_of(const Part& part, const Key& own, const Clock& now) const {
  const Place mine{part.timeline, part.tick};
  std::vector<Wait> waits, of_others;
  for (const auto& [timeline, ticks] : parts_) {
    auto one = ticks.upper_bound(now[timeline]);
    if (one == ticks.begin()) continue;
    --one;
    const Place place{timeline, one->first};
    // What its own rank called before explains it best.
    const bool explains = part_at(place)->call.rank == part.call.rank && !(one->second == own);
    (explains ? waits : of_others).push_back({one->second, mine, place});
  }
  waits.insert(waits.end(), of_others.begin(), of_others.end());
  // Launches come between calls of other streams: what is told is each step, and not what follows from it.
  if (std::any_of(waits.begin(), waits.end(), [&](const Wait& wait) { return part_at(wait.of)->call.launch; })) {
    const std::vector<Wait> all = waits;
    std::erase_if(waits, [&](const Wait& wait) {
      return !(wait.behind == own) && std::any_of(all.begin(), all.end(), [&](const Wait& other) {
        if (other.behind == own || other.behind == wait.behind) return false;
        const std::vector<Wait>& its = open_.at(other.behind).waits;
        return std::any_of(its.begin(), its.end(), [&](const Wait& one) { return one.behind == wait.behind; });
      });
    });
  }
  if (part.call.launch) return waits;
  if (const Key earlier{own.communicator, own.from, own.to, own.number - 1}; open_.count(earlier) != 0)
    waits.push_back({earlier, std::nullopt});
  return waits;
}

/// Along what collectives wait for; `way` gets the waits.
bool Circles::reaches(const Key& from, const Key& to, std::vector<const Wait*>& way) const {
  struct Step {
    const Joint* joint;
    std::size_t next;
  };
  std::set<Key> seen{from};
  std::vector<Step> steps{{&open_.at(from), 0}};
  const std::size_t before = way.size();
  while (!steps.empty()) {
    Step& step = steps.back();
    if (step.next == step.joint->waits.size()) {
      steps.pop_back();
      if (way.size() > before) way.pop_back();
      continue;
    }
    const Wait& wait = step.joint->waits[step.next++];
    way.push_back(&wait);
    if (wait.behind == to) return true;
    if (seen.insert(wait.behind).second) {
      steps.push_back({&open_.at(wait.behind), 0});
    } else {
      way.pop_back();
    }
  }
  return false;
}

std::vector<Circles::Link> Circles::find(const Part& part, const Clock& now) const {
  const Key own = key_of(part.call);
  if (open_.count(own) == 0) return {};
  for (const Wait& first : waits_of(part, own, now)) {
    std::vector<const Wait*> way;
    // Behind another rank's part of the same one it waits for itself.
    if (!(first.behind == own) && !reaches(first.behind, own, way)) continue;
    const auto copy = [this](const std::optional<Place>& place) {
      const Part* const found = part_at(place);
      return found != nullptr ? std::optional(*found) : std::nullopt;
    };
    std::vector<Link> circle{{first.part ? std::optional(part) : std::nullopt, copy(first.of)}};
    for (const Wait* wait : way) circle.push_back({copy(wait->part), copy(wait->of)});
    return circle;
  }
  return {};
}

void Circles::over(const Clock& host) {
  for (auto one = parts_.begin(); one != parts_.end();) {
    const Timeline timeline = one->first;
    if (one->second.begin()->first > host[timeline]) {
      ++one;
      continue;
    }
    close(Key(one->second.begin()->second));
    one = parts_.lower_bound(timeline);
  }
}

std::optional<Circles::Whole> Circles::add(const Part& part, const Clock& now, const std::vector<Link>& circle) {
  const Key own = key_of(part.call);
  if (part.call.from >= 0) {
    Pair& pair = pairs_[part.call.communicator][{part.call.from, part.call.to}];
    ++(std::string_view(part.call.name) == "send" ? pair.sent : pair.received);
    if (pairs_.size() > most_open) pairs_.erase(pairs_.begin());
  }
  if (!circle.empty()) {
    std::set<Key> keys{own};
    for (const Link& link : circle) {
      if (link.behind) keys.insert(parts_.at(link.behind->timeline).at(link.behind->tick));
    }
    for (const Key& key : keys) close(key);
    return std::nullopt;
  }
  std::vector<Wait> waits = waits_of(part, own, now);
  for (const Wait& wait : waits) open_.at(wait.behind).waiting.push_back(own);
  Joint& joint = open_[own];
  if (joint.parts.empty()) {
    joint.age = ++next_age_;
    by_age_.emplace(joint.age, own);
  }
  joint.parts.push_back(part);
  joint.waits.insert(joint.waits.end(), waits.begin(), waits.end());
  joint.before.join(now);
  parts_[part.timeline].emplace(part.tick, own);
  const std::size_t expected = part.call.launch ? 1 : part.call.from < 0 ? static_cast<std::size_t>(part.call.size) : 2;
  joint.complete = joint.parts.size() >= expected;
  std::optional<Whole> whole;
  if (joint.complete) {
    // A communicator is ordered like a stream, but for its sends and receives.
    if (part.call.from < 0 && !part.call.launch) {
      Clock& last = calls_[part.call.communicator].whole;
      joint.before.join(last);
      last = joint.before;
    }
    if (!part.call.launch) whole = {joint.parts, joint.before};
    if (joint.waits.empty()) close(own);
  }
  if (open_.size() > most_open) close(by_age_.begin()->second);
  return whole;
}

Clock Circles::before_call(const CollectiveCall& call) const {
  const auto found = calls_.find(call.communicator);
  if (found == calls_.end()) return {};
  Clock before = found->second.launches;
  if (call.from >= 0) return before;
  before.join(found->second.whole);
  const auto last = found->second.ranks.find(call.rank);
  if (last != found->second.ranks.end()) {
    before.join(call.unit != 0 && call.unit == last->second.unit ? last->second.before : last->second.now);
  }
  return before;
}

Clock Circles::before_launch(std::uint64_t communicator) const {
  const auto found = calls_.find(communicator);
  return found == calls_.end() ? Clock() : found->second.all;
}

void Circles::note_call(const CollectiveCall& call, const Clock& before, const Clock& now) {
  Calls& calls = calls_[call.communicator];
  calls.all.join(now);
  if (call.from < 0) calls.ranks[call.rank] = {call.unit, before, now};
  if (calls_.size() > most_open) calls_.erase(calls_.begin());
}

void Circles::note_launch(std::uint64_t communicator, const Clock& now) {
  Calls& calls = calls_[communicator];
  calls.launches.join(now);
  calls.all.join(now);
  if (calls_.size() > most_open) calls_.erase(calls_.begin());
}

/// What is complete and waits for nothing that is open is in no circle, whatever comes; then those that wait for it may be so.
void Circles::close(const Key& key) {
  std::vector<Key> closed{key};
  while (!closed.empty()) {
    const Key one = closed.back();
    closed.pop_back();
    const auto found = open_.find(one);
    if (found == open_.end()) continue;
    const std::vector<Key> waiting = std::move(found->second.waiting);
    forget(one);
    for (const Key& other : waiting) {
      const auto its = open_.find(other);
      if (its == open_.end()) continue;
      std::erase_if(its->second.waits, [&](const Wait& wait) { return wait.behind == one; });
      if (its->second.complete && its->second.waits.empty()) closed.push_back(other);
    }
  }
}

void Circles::forget(const Key& key) {
  const auto found = open_.find(key);
  for (const Part& part : found->second.parts) {
    const auto ticks = parts_.find(part.timeline);
    ticks->second.erase(part.tick);
    if (ticks->second.empty()) parts_.erase(ticks);
  }
  by_age_.erase(found->second.age);
  open_.erase(found);
}

}  // namespace weir::check
