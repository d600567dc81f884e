// Collectives that wait for each other in a circle, because ranks called them in different orders.
#include "core/collectives/circle.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace weir::detail {

namespace {

/// Which calls each call waits for, by their places in `calls`.
std::vector<std::vector<std::size_t>> waits_of(const std::vector<PendingCall>& calls) {
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
  std::vector<std::vector<std::size_t>> waits(calls.size());
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

/// "rank 1 calls send ... of 'a' behind receive ... of 'a'": what one call of a circle waits for.
std::string link_of(const PendingCall& call, const PendingCall& earlier) {
  std::string text;
  for (const PendingCall::Part& part : call.parts) {
    for (const PendingCall::Part& other : earlier.parts) {
      if (part.queue != other.queue || other.place >= part.place) continue;
      text += "\n  rank " + std::to_string(call.call->ranks()[part.index]) + " calls " +
              text_of(*call.call->offer(part.index)) + " of '" + call.communicator->name + "' behind " +
              text_of(*earlier.call->offer(other.index)) + " of '" + earlier.communicator->name + "'";
    }
  }
  return text;
}

}  // namespace

bool fail_circle(const std::vector<PendingCall>& calls) {
  const std::vector<std::size_t> circle = find_circle(waits_of(calls));
  if (circle.empty()) return false;
  std::string text = "ranks called these in different orders, so that each waits for another:";
  std::vector<CommunicatorState*> communicators;
  for (std::size_t i = 0; i < circle.size(); ++i) {
    const PendingCall& call = calls[circle[i]];
    text += link_of(call, calls[circle[(i + 1) % circle.size()]]);
    if (std::find(communicators.begin(), communicators.end(), call.communicator.get()) == communicators.end()) {
      communicators.push_back(call.communicator.get());
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
