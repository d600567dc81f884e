// Collectives that wait for each other in a circle, because ranks called them in different orders.
#include "core/collectives/circle.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::detail {

namespace {

bool has(const PendingLaunch& launch, const CommunicatorState& communicator) {
  return std::any_of(launch.communicators.begin(), launch.communicators.end(),
                     [&](const auto& one) { return one.get() == &communicator; });
}
bool share_one(const PendingLaunch& a, const PendingLaunch& b) {
  return std::any_of(a.communicators.begin(), a.communicators.end(), [&](const auto& one) { return has(b, *one); });
}

/// Which others each of them waits for: calls by their places in `pending`, and launches behind all calls.
std::vector<std::vector<std::size_t>> waits_of(const Pending& pending) {
  const std::vector<PendingCall>& calls = pending.calls;
  const std::vector<PendingLaunch>& launches = pending.launches;
  struct Place {
    std::uint64_t place;
    std::size_t call;
  };
  std::map<const Queue*, std::vector<Place>> queues;
  std::map<std::pair<const CommunicatorState*, std::uint64_t>, std::size_t> numbers;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (const PendingCall::Part& part : calls[i].parts) queues[part.queue].push_back({part.place, i});
    if (calls[i].call->number() != 0) numbers[{calls[i].communicator.get(), calls[i].call->number()}] = i;
  }
  for (std::size_t i = 0; i < launches.size(); ++i) {
    queues[launches[i].launch.queue].push_back({launches[i].launch.place, calls.size() + i});
  }
  std::vector<std::vector<std::size_t>> waits(calls.size() + launches.size());
  for (auto& [queue, places] : queues) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return a.place < b.place; });
    // Those of one place are one unit: each waits for those of the place before.
    std::size_t before = 0, begin = 0;
    for (std::size_t at = 0; at < places.size(); ++at) {
      if (places[at].place != places[begin].place) before = std::exchange(begin, at);
      for (std::size_t i = before; i < begin; ++i) waits[places[at].call].push_back(places[i].call);
    }
  }
  for (const auto& [key, call] : numbers) {
    const auto earlier = numbers.find({key.first, key.second - 1});
    if (earlier != numbers.end()) waits[call].push_back(earlier->second);
  }
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const std::size_t own = calls.size() + i;
    for (std::size_t call = 0; call < calls.size(); ++call) {
      if (!has(launches[i], *calls[call].communicator)) continue;
      // Read last: one that is not whole by now was not when the launch was made.
      const LocalCall& one = *calls[call].call;
      const std::uint64_t order =
          calls[call].communicator->gated ? one.order() : one.lane_number.load(std::memory_order_acquire);
      const bool later = order == 0 || order > launches[i].launch.order;
      waits[later ? call : own].push_back(later ? own : call);
    }
    for (std::size_t other = 0; other < launches.size(); ++other) {
      const bool earlier = launches[other].launch.order < launches[i].launch.order;
      if (earlier && share_one(launches[i], launches[other])) waits[own].push_back(calls.size() + other);
    }
  }
  return waits;
}

/// A circle among them; empty if there is none.
std::vector<std::size_t> find_circle(const std::vector<std::vector<std::size_t>>& waits) {
  enum class State : char { unseen, on_the_way, done };
  std::vector<State> states(waits.size(), State::unseen);
  std::vector<std::size_t> next(waits.size(), 0);
  for (std::size_t start = 0; start < waits.size(); ++start) {
    if (states[start] != State::unseen) continue;
    std::vector<std::size_t> way{start};
    states[start] = State::on_the_way;
    while (!way.empty()) {
      const std::size_t at = way.back();
      if (next[at] == waits[at].size()) {
        states[at] = State::done;
        way.pop_back();
        continue;
      }
      const std::size_t to = waits[at][next[at]++];
      if (states[to] == State::on_the_way) return {std::find(way.begin(), way.end(), to), way.end()};
      if (states[to] == State::done) continue;
      states[to] = State::on_the_way;
      way.push_back(to);
    }
  }
  return {};
}

/// Where one of them is: what it is called as the one that waits, and as what it waits for.
struct Standing {
  const Queue* queue;
  std::uint64_t place;
  std::string waits, before;
};

std::vector<Standing> standings_of(const Pending& pending, std::size_t one) {
  std::vector<Standing> all;
  if (one < pending.calls.size()) {
    const PendingCall& call = pending.calls[one];
    for (const PendingCall::Part& part : call.parts) {
      const std::string text = text_of(*call.call->offer(part.index)) + " of '" + call.communicator->name + "'";
      const std::string rank = std::to_string(call.call->ranks()[part.index]);
      all.push_back({part.queue, part.place, "rank " + rank + " calls " + text, text});
    }
    return all;
  }
  const PendingLaunch& launch = pending.launches[one - pending.calls.size()];
  const SourceLocation where = launch.launch.where;
  std::string text = "a graph with collectives of '" + launch.communicators.front()->name + "'";
  if (where) text += " [" + std::string(where.file_name()) + ":" + std::to_string(where.line()) + "]";
  all.push_back({launch.launch.queue, launch.launch.place, "the launch of " + text + " comes", text});
  return all;
}

/// "rank 1 calls send ... of 'a' behind receive ... of 'a'": what one of a circle waits for.
std::string link_of(const std::vector<Standing>& standings, const std::vector<Standing>& earlier, bool with_launch) {
  std::string text;
  for (const Standing& one : standings) {
    for (const Standing& other : earlier) {
      if (one.queue != other.queue || other.place >= one.place) continue;
      text += "\n  " + one.waits + " behind " + other.before;
    }
  }
  if (!text.empty() || !with_launch || standings.empty() || earlier.empty()) return text;
  return "\n  " + standings.front().waits + " behind " + earlier.front().before + ", in the order of the calls";
}

}  // namespace

bool fail_circle(const Pending& pending) {
  const std::vector<std::size_t> circle = find_circle(waits_of(pending));
  if (circle.empty()) return false;
  std::string text = "ranks called these in different orders, so that each waits for another:";
  std::vector<CommunicatorState*> communicators;
  const auto add = [&](CommunicatorState& one) {
    if (std::find(communicators.begin(), communicators.end(), &one) == communicators.end()) {
      communicators.push_back(&one);
    }
  };
  const std::size_t calls = pending.calls.size();
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const std::size_t one = circle[i];
    const std::size_t behind = circle[(i + 1) % circle.size()];
    text += link_of(standings_of(pending, one), standings_of(pending, behind), one >= calls || behind >= calls);
    if (one < calls) {
      add(*pending.calls[one].communicator);
    } else {
      for (const auto& communicator : pending.launches[one - calls].communicators) add(*communicator);
    }
  }
  // All know why before the first stream goes on, and comes to the next of them with a failure.
  for (CommunicatorState* communicator : communicators) {
    const LockGuard guard(communicator->mutex);
    communicator->note(Errc::collective_mismatch, text);
  }
  for (CommunicatorState* communicator : communicators) {
    const LockGuard guard(communicator->mutex);
    communicator->fail(Errc::collective_mismatch, text);
  }
  return true;
}

}  // namespace weir::detail
