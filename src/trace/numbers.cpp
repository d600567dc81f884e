// The numbers of a timeline: how long what was busy, what overlapped, and the chain of commands that it took.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "trace/bounds.hpp"
#include "trace/collectives.hpp"
#include "trace/intervals.hpp"

namespace weir::trace {

namespace {

using LaneOfDevice = std::pair<std::uint32_t, Lane>;

std::map<LaneOfDevice, std::vector<Interval>> work_of_lanes(const Timeline& timeline) {
  std::map<LaneOfDevice, std::vector<Interval>> lanes;
  for (const Command& command : timeline.commands) {
    if (!is_work(command)) continue;
    lanes[{timeline.streams[command.stream].device, command.lane}].push_back({command.begin, command.end});
  }
  for (auto& [lane, intervals] : lanes) intervals = joined(std::move(intervals));
  return lanes;
}

bool moves_bytes(Lane lane) { return lane >= Lane::copy_in && lane <= Lane::fill; }

double per_second(std::uint64_t bytes, std::int64_t ns) {
  return ns > 0 ? static_cast<double>(bytes) * 1e9 / static_cast<double>(ns) : 0;
}

/// A claim that a copy has disproved is none.
void set_best_of_device(const Timeline& timeline, Engine& engine) {
  if (timeline.best_rates.size() <= engine.device) return;
  const BestRates& known = timeline.best_rates[engine.device];
  const std::uint64_t rate = engine.lane == Lane::copy_in    ? known.copy_in
                             : engine.lane == Lane::copy_out ? known.copy_out
                                                             : 0;
  constexpr double clocks = 1.02;  // that differ a little make a copy look faster than it was
  const double fastest = std::max(engine.bytes_per_second, engine.best_bytes_per_second);
  if (rate == 0 || fastest > clocks * static_cast<double>(rate)) return;
  engine.device_bytes_per_second = static_cast<double>(rate);
  engine.source = known.source;
}

void add_engines(const Timeline& timeline, Summary& made) {
  const auto lanes = work_of_lanes(timeline);
  std::map<LaneOfDevice, std::size_t> places;
  for (const auto& [lane, intervals] : lanes) {
    places.emplace(lane, made.engines.size());
    made.engines.push_back({lane.first, lane.second, 0, 0, length(intervals), 0, 0});
  }
  for (const Command& command : timeline.commands) {
    if (!is_work(command)) continue;
    Engine& engine = made.engines[places.at({timeline.streams[command.stream].device, command.lane})];
    ++engine.commands;
    engine.bytes += command.bytes;
    constexpr std::int64_t least = 1000;  // below, clocks count for more than copies
    if (moves_bytes(command.lane) && command.end - command.begin >= least) {
      engine.best_bytes_per_second =
          std::max(engine.best_bytes_per_second, per_second(command.bytes, command.end - command.begin));
    }
  }
  for (Engine& engine : made.engines) {
    if (moves_bytes(engine.lane)) engine.bytes_per_second = per_second(engine.bytes, engine.busy);
    set_best_of_device(timeline, engine);
  }
  for (auto a = lanes.begin(); a != lanes.end(); ++a) {
    for (auto b = std::next(a); b != lanes.end() && b->first.first == a->first.first; ++b) {
      made.overlaps.push_back({a->first.first, a->first.second, b->first.second, common(a->second, b->second)});
    }
  }
}

void add_concurrency(const Timeline& timeline, Interval whole, Summary& made) {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const Command& command : timeline.commands) {
    if (!is_work(command) || command.begin == command.end) continue;
    changes.emplace_back(command.begin, 1);
    changes.emplace_back(command.end, -1);
  }
  std::sort(changes.begin(), changes.end());
  if (changes.empty() || changes.back().first < whole.end) changes.emplace_back(whole.end, 1);
  std::int64_t since = whole.begin;
  std::size_t running = 0;
  for (const auto& [moment, change] : changes) {
    if (made.concurrency.size() <= running) made.concurrency.resize(running + 1);
    made.concurrency[running] += moment - since;
    since = moment;
    running = change > 0 ? running + 1 : running - 1;
  }
  made.idle = made.concurrency.empty() ? 0 : made.concurrency[0];
}

/// Of each part of a collective that waited for another rank's: that part, and when it came.
std::map<std::uint32_t, std::pair<std::uint32_t, std::int64_t>> awaited_parts(const Timeline& timeline) {
  std::map<std::uint32_t, std::pair<std::uint32_t, std::int64_t>> awaited;
  for (const Meeting& meeting : meetings(timeline)) {
    const std::uint32_t last = meeting.parts[meeting.last].part->command;
    for (const Meeting::Part& one : meeting.parts) {
      const Command& command = timeline.commands[one.part->command];
      const bool waited = command.begin < meeting.came() && meeting.came() < command.end;
      if (waited && one.part->command != last) awaited[one.part->command] = {last, meeting.came()};
    }
  }
  return awaited;
}

/// Back from what ended last, each time to what ended last of those that had to end before. A collective's part goes on behind
/// what the last rank did before.
void add_critical_path(const Timeline& timeline, Summary& made) {
  std::uint32_t at = none;
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    const bool later =
        is_work(timeline.commands[i]) && (at == none || timeline.commands[i].end > timeline.commands[at].end);
    if (later) at = i;
  }
  Bounds bounds(timeline);
  const auto awaited = awaited_parts(timeline);
  std::int64_t until = at == none ? 0 : timeline.commands[at].end;
  while (at != none) {
    const Command& command = timeline.commands[at];
    if (is_work(command)) made.critical_path.push_back(at);
    const auto part = awaited.find(at);
    const std::int64_t since = part == awaited.end() ? command.begin : part->second.second;
    made.critical += std::max<std::int64_t>(0, std::min(command.end, until) - since);
    until = since;
    at = bounds.latest(part == awaited.end() ? at : part->second.first).bound.command;
  }
  std::reverse(made.critical_path.begin(), made.critical_path.end());
}

double median_between_calls(const Timeline& timeline) {
  std::map<std::uint32_t, std::int64_t> last;  // by thread
  std::vector<std::int64_t> between;
  for (const Command& command : timeline.commands) {
    if (command.call < 0) continue;
    const auto [at, is_first] = last.try_emplace(command.thread, command.call);
    if (!is_first) between.push_back(command.call - std::exchange(at->second, command.call));
  }
  if (between.empty()) return 0;
  const auto middle = between.begin() + static_cast<std::ptrdiff_t>(between.size() / 2);
  std::nth_element(between.begin(), middle, between.end());
  return static_cast<double>(*middle);
}

}  // namespace

Summary summarize(const Timeline& timeline) {
  Summary made;
  made.commands = timeline.commands.size();
  std::optional<Interval> whole;
  for (const Command& command : timeline.commands) {
    if (!is_work(command)) continue;
    ++made.ran;
    const std::int64_t begin = command.call < 0 ? command.begin : std::min(command.call, command.begin);
    if (!whole) whole = Interval{begin, command.end};
    whole->begin = std::min(whole->begin, begin);
    whole->end = std::max(whole->end, command.end);
  }
  for (const HostWait& wait : timeline.waits) made.host_waited += wait.end - wait.begin;
  made.submission = median_between_calls(timeline);
  if (!whole) return made;
  made.makespan = whole->end - whole->begin;
  add_engines(timeline, made);
  add_concurrency(timeline, *whole, made);
  add_critical_path(timeline, made);
  add_exchanges(timeline, made);
  return made;
}

}  // namespace weir::trace
