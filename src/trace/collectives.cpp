// Collectives of timelines: which parts belong together, and when the last rank came.
#include "trace/collectives.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace weir::trace {

std::uint32_t CollectiveNumbers::of(std::string_view call, std::uint64_t communicator, std::uint64_t number, int rank,
                                    int peer) {
  const bool sends = call == "send";
  int from = -1, to = -1;
  if (sends || call == "receive") {
    std::tie(from, to) = sends ? std::pair(rank, peer) : std::pair(peer, rank);
    number = ++counts_[{communicator, from, to, sends}];
  } else if (number == 0) {
    number = ++counts_[{communicator, rank, -1, false}];
  }
  const auto next = static_cast<std::uint32_t>(numbers_.size() + 1);
  return numbers_.try_emplace({communicator, from, to, number}, next).first->second;
}

std::vector<Meeting> meetings(const Timeline& timeline) {
  std::map<std::uint32_t, Meeting> all;
  for (const CollectivePart& part : timeline.collectives) {
    const Command& command = timeline.commands[part.command];
    if (command.state != State::ran) continue;
    std::int64_t ready = command.call;
    for (const Dependency& on : timeline.dependencies_of(command)) {
      ready = std::max(ready, timeline.commands[on.command].end);
    }
    Meeting& meeting = all[part.collective];
    meeting.parts.push_back({&part, ready});
    if (ready > meeting.came()) meeting.last = meeting.parts.size() - 1;
    meeting.end = meeting.parts.size() == 1 ? command.end : std::max(meeting.end, command.end);
  }
  std::vector<Meeting> made;
  for (auto& [number, meeting] : all) made.push_back(std::move(meeting));
  return made;
}

namespace {

/// What a link moves of each byte, as NCCL's tests count.
double bus_factor(std::string_view call, std::int32_t ranks) {
  const double others = ranks > 0 ? static_cast<double>(ranks - 1) / ranks : 0;
  if (call == "all_reduce") return 2 * others;
  if (call == "all_gather" || call == "reduce_scatter" || call == "all_to_all") return others;
  if (call == "gather" || call == "scatter") return others;
  return 1;
}

/// An exchange that is being summed up.
struct Sum {
  Exchange exchange;
  std::map<std::int32_t, std::int64_t> waited_for;  ///< by rank
};

void add(Sum& sum, const Meeting& meeting, const Timeline& timeline) {
  Exchange& one = sum.exchange;
  ++one.count;
  std::uint64_t bytes = 0;
  std::int64_t waited = 0;
  for (const Meeting::Part& part : meeting.parts) {
    bytes = std::max(bytes, timeline.commands[part.part->command].bytes);
    waited += meeting.came() - part.ready;
  }
  one.bytes += bytes;
  one.ns += std::max<std::int64_t>(0, meeting.end - meeting.came());
  one.waited += waited;
  if (meeting.parts.size() > 1) sum.waited_for[meeting.parts[meeting.last].part->rank] += waited;
}

}  // namespace

void add_exchanges(const Timeline& timeline, Summary& made) {
  std::map<std::pair<std::string, std::int32_t>, Sum> sums;
  for (const Meeting& meeting : meetings(timeline)) {
    const CollectivePart& first = *meeting.parts.front().part;
    std::string name(timeline.name_of(timeline.commands[first.command]));
    if (name == "receive") name = "send";  // one transfer
    Sum& sum = sums[{name, first.ranks}];
    sum.exchange.name = name;
    sum.exchange.ranks = first.ranks;
    add(sum, meeting, timeline);
  }
  for (auto& [key, sum] : sums) {
    Exchange& one = sum.exchange;
    if (one.ns > 0) {
      const double moved = static_cast<double>(one.bytes) * bus_factor(one.name, one.ranks);
      one.bus_bytes_per_second = moved * 1e9 / static_cast<double>(one.ns);
    }
    std::int64_t most = -1;
    for (const auto& [rank, waited] : sum.waited_for) {
      if (waited > most) std::tie(most, one.latest) = std::pair(waited, rank);
    }
    made.exchanges.push_back(std::move(one));
  }
}

}  // namespace weir::trace
