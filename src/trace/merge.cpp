// Timelines of several processes as one, on one clock.
#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <weir/error.hpp>

#include "trace/collectives.hpp"

namespace weir::trace {

namespace {

/// A communicator, said so that another process says the same: its number in all of them; where that is not known, as of files
/// that do not have it, how many were used before; and where one process has all its ranks, that process's and nobody else's.
struct CommonCommunicator {
  std::uint64_t shared;
  std::uint32_t ordinal;
  std::size_t owner;  ///< 1 more than the timeline; 0: several have it

  auto operator<=>(const CommonCommunicator&) const = default;
};
/// Which collective a part is of, likewise: the call, for sends their ranks, and its number there. Where that is not known, how many
/// such there were before.
using Common = std::tuple<CommonCommunicator, std::string_view, int, int, std::uint64_t>;

/// Those of one process alone.
std::set<std::uint32_t> whole_communicators(const Timeline& timeline) {
  std::map<std::uint32_t, std::set<std::int32_t>> ranks;
  for (const CollectivePart& part : timeline.collectives) ranks[part.communicator].insert(part.rank);
  std::set<std::uint32_t> made;
  for (const CollectivePart& part : timeline.collectives) {
    const auto here = static_cast<std::int32_t>(ranks[part.communicator].size());
    if (part.shared == 0 && here == part.ranks) made.insert(part.communicator);
  }
  return made;
}

std::vector<std::pair<Common, const CollectivePart*>> common_names(const Timeline& timeline, std::size_t which) {
  const std::set<std::uint32_t> whole = whole_communicators(timeline);
  std::vector<std::pair<Common, const CollectivePart*>> made;
  std::map<std::tuple<std::uint32_t, int, int, int>, std::uint64_t> counts;
  for (const CollectivePart& part : timeline.collectives) {
    const std::string_view call = timeline.name_of(timeline.commands[part.command]);
    const bool sends = call == "send", receives = call == "receive";
    const int from = sends ? part.rank : receives ? part.peer : -1;
    const int to = sends ? part.peer : receives ? part.rank : -1;
    const std::uint64_t count = ++counts[{part.communicator, part.rank, from, to}];
    const std::size_t owner = whole.contains(part.communicator) ? which + 1 : 0;
    const CommonCommunicator communicator =
        part.shared != 0 ? CommonCommunicator{part.shared, 0, 0} : CommonCommunicator{0, part.communicator, owner};
    const std::uint64_t number = part.number != 0 ? part.number : count;
    made.emplace_back(Common{communicator, receives ? "send" : call, from, to, number}, &part);
  }
  return made;
}

/// How far a timeline's clock must move so that collectives end when those of `first` do: the median of all.
std::optional<std::int64_t> shift_by_collectives(const Timeline& first, const Timeline& other) {
  std::map<Common, std::int64_t> ends;
  for (const auto& [name, part] : common_names(first, 0)) {
    const Command& command = first.commands[part->command];
    if (command.state == State::ran) ends.insert_or_assign(name, command.end);
  }
  std::vector<std::int64_t> shifts;
  for (const auto& [name, part] : common_names(other, 1)) {
    const Command& command = other.commands[part->command];
    const auto end = ends.find(name);
    if (end != ends.end() && command.state == State::ran) shifts.push_back(end->second - command.end);
  }
  if (shifts.empty()) return std::nullopt;
  const auto middle = shifts.begin() + static_cast<std::ptrdiff_t>(shifts.size() / 2);
  std::nth_element(shifts.begin(), middle, shifts.end());
  return *middle;
}

class Merger {
 public:
  Merger(std::span<const Timeline> timelines, std::span<const std::string> names, SourceLocation where)
      : timelines_(timelines), names_(names), where_(where), commands_(timelines.size()) {}

  Timeline make() {
    find_shifts();
    for (std::size_t i = 0; i < timelines_.size(); ++i) add_places(i);
    add_commands();
    for (std::size_t i = 0; i < timelines_.size(); ++i) add_rest(i);
    if (!made_.best_rates.empty()) made_.best_rates.resize(made_.devices.size());
    add_collectives();
    add_nodes();
    const auto by_begin = [](const auto& a, const auto& b) { return a.begin < b.begin; };
    std::stable_sort(made_.waits.begin(), made_.waits.end(), by_begin);
    std::stable_sort(made_.ranges.begin(), made_.ranges.end(), by_begin);
    return std::move(made_);
  }

 private:
  [[noreturn]] void refuse(std::size_t which, const std::string& why) const {
    throw Error(Errc::invalid_value, "weir::trace::merge", names_[which], why, where_);
  }

  void find_shifts() {
    const Timeline& first = timelines_.front();
    bool one_machine = true;
    for (const Timeline& one : timelines_) {
      one_machine &= one.origin >= 0 && !one.machine.empty() && one.machine == first.machine;
    }
    for (std::size_t i = 0; i < timelines_.size(); ++i) {
      if (one_machine) {
        shifts_.push_back(timelines_[i].origin - first.origin);
        continue;
      }
      const std::optional<std::int64_t> shift = i == 0 ? 0 : shift_by_collectives(first, timelines_[i]);
      if (!shift) {
        refuse(i, "it is of another machine than " + names_[0] +
                      ", or of an unknown one, and has no collective in common with it");
      }
      shifts_.push_back(*shift);
    }
    const std::int64_t least = *std::min_element(shifts_.begin(), shifts_.end());
    const std::int64_t most = *std::max_element(shifts_.begin(), shifts_.end());
    constexpr std::int64_t week = std::int64_t{7} * 24 * 3600 * 1'000'000'000;
    if (most - least > week) refuse(0, "the timelines are more than a week apart");
    for (std::int64_t& shift : shifts_) shift -= least;
    made_.clock = first.clock + (one_machine ? "; several processes of one machine, whose clock they share"
                                             : "; of several machines, put on one clock by the ends of collectives");
    made_.origin = one_machine ? first.origin - shifts_[0] : -1;
    made_.machine = one_machine ? first.machine : "";
  }

  Text text(const std::string& words) {
    const auto [at, is_new] = texts_.try_emplace(words, static_cast<Text>(made_.texts.size()));
    if (is_new) made_.texts.push_back(words);
    return at->second;
  }
  Text moved(const Timeline& from, Text place) { return place == none ? none : text(from.texts[place]); }

  /// Devices, streams and threads follow those of the timelines before.
  void add_places(std::size_t which) {
    const Timeline& from = timelines_[which];
    first_stream_.push_back(static_cast<std::uint32_t>(made_.streams.size()));
    first_thread_.push_back(threads_);
    const auto first_device = static_cast<std::uint32_t>(made_.devices.size());
    for (const Text device : from.devices) {
      made_.devices.push_back(text(names_[which] + " " + std::string(from.text(device))));
    }
    if (!from.best_rates.empty()) {
      made_.best_rates.resize(first_device);  // of those before nothing may be known
      for (BestRates rates : from.best_rates) {
        rates.source = moved(from, rates.source);
        made_.best_rates.push_back(rates);
      }
    }
    for (Stream stream : from.streams) {
      stream.name = moved(from, stream.name);
      stream.device += first_device;
      made_.streams.push_back(stream);
    }
    for (const Command& one : from.commands) threads_ = std::max(threads_, first_thread_.back() + one.thread);
    for (const HostWait& one : from.waits) threads_ = std::max(threads_, first_thread_.back() + one.thread);
    for (const NamedRange& one : from.ranges) threads_ = std::max(threads_, first_thread_.back() + one.thread);
    made_.program += (which == 0 ? "" : " | ") + from.program;
    if (made_.date.empty() || from.date < made_.date) made_.date = from.date;
    if (!from.note.empty()) made_.note += (made_.note.empty() ? "" : "; ") + names_[which] + ": " + from.note;
    made_.dropped += from.dropped;
    made_.duration = std::max(made_.duration, from.duration + shifts_[which]);
  }

  /// In the order of their calls, those of one timeline in their own order.
  void add_commands() {
    struct Next {
      std::int64_t moment;
      std::size_t which;
      std::uint32_t place;
    };
    std::vector<Next> order;
    for (std::size_t i = 0; i < timelines_.size(); ++i) {
      std::int64_t moment = 0;
      for (std::uint32_t place = 0; place < timelines_[i].commands.size(); ++place) {
        moment = std::max(moment, timelines_[i].commands[place].call + shifts_[i]);
        order.push_back({moment, i, place});
      }
      commands_[i].resize(timelines_[i].commands.size());
    }
    std::stable_sort(order.begin(), order.end(), [](const Next& a, const Next& b) { return a.moment < b.moment; });
    for (const Next& next : order) add_command(next.which, next.place);
  }
  void add_command(std::size_t which, std::uint32_t place) {
    const Timeline& from = timelines_[which];
    Command command = from.commands[place];
    const std::int64_t shift = shifts_[which];
    command.name = moved(from, command.name);
    command.file = moved(from, command.file);
    command.arguments = moved(from, command.arguments);
    command.stream += first_stream_[which];
    command.thread += first_thread_[which];
    if (command.event != 0) {
      const auto next = static_cast<std::uint32_t>(events_.size() + 1);
      command.event = events_.try_emplace({which, command.event}, next).first->second;
    }
    if (command.call >= 0) command.call += shift;
    if (command.called >= 0) command.called += shift;
    if (command.state != State::pending) {
      command.begin += shift;
      command.end += shift;
    }
    command.first_dependency = static_cast<std::uint32_t>(made_.dependencies.size());
    for (const Dependency& on : from.dependencies_of(from.commands[place])) {
      made_.dependencies.push_back({commands_[which][on.command], on.tie});
    }
    commands_[which][place] = static_cast<std::uint32_t>(made_.commands.size());
    command.id = made_.commands.size() + 1;  // they are unique in a process
    made_.commands.push_back(command);
  }

  void add_rest(std::size_t which) {
    const Timeline& from = timelines_[which];
    for (HostWait wait : from.waits) {
      wait.what = moved(from, wait.what);
      wait.file = moved(from, wait.file);
      if (wait.stream != none) wait.stream += first_stream_[which];
      if (wait.command != none) wait.command = commands_[which][wait.command];
      wait.thread += first_thread_[which];
      wait.begin += shifts_[which];
      wait.end += shifts_[which];
      made_.waits.push_back(wait);
    }
    for (NamedRange range : from.ranges) {
      range.name = moved(from, range.name);
      range.thread += first_thread_[which];
      range.begin += shifts_[which];
      if (range.end >= 0) range.end += shifts_[which];
      made_.ranges.push_back(range);
    }
  }
  void add_nodes() {
    for (std::size_t i = 0; i < timelines_.size(); ++i) {
      for (NodeRun run : timelines_[i].nodes) {
        run.command = commands_[i][run.command];
        run.name = moved(timelines_[i], run.name);
        run.file = moved(timelines_[i], run.file);
        run.begin += shifts_[i];
        run.end += shifts_[i];
        const auto behind = timelines_[i].dependencies_of(run);
        run.first_dependency = static_cast<std::uint32_t>(made_.node_dependencies.size());
        made_.node_dependencies.insert(made_.node_dependencies.end(), behind.begin(), behind.end());
        made_.nodes.push_back(run);
      }
    }
    std::stable_sort(made_.nodes.begin(), made_.nodes.end(),
                     [](const NodeRun& a, const NodeRun& b) { return a.command < b.command; });
  }
  void add_collectives() {
    std::map<Common, std::uint32_t> numbers;
    std::map<CommonCommunicator, std::uint32_t> communicators;
    for (std::size_t i = 0; i < timelines_.size(); ++i) {
      for (const auto& [name, part] : common_names(timelines_[i], i)) {
        CollectivePart moved = *part;
        const auto next = static_cast<std::uint32_t>(communicators.size() + 1);
        moved.communicator = communicators.try_emplace(std::get<CommonCommunicator>(name), next).first->second;
        moved.command = commands_[i][part->command];
        moved.collective = numbers.try_emplace(name, static_cast<std::uint32_t>(numbers.size() + 1)).first->second;
        made_.collectives.push_back(moved);
      }
    }
    std::sort(made_.collectives.begin(), made_.collectives.end(),
              [](const CollectivePart& a, const CollectivePart& b) { return a.command < b.command; });
  }

  std::span<const Timeline> timelines_;
  std::span<const std::string> names_;
  SourceLocation where_;
  Timeline made_;
  std::vector<std::int64_t> shifts_;
  std::vector<std::uint32_t> first_stream_;
  std::vector<std::uint32_t> first_thread_;
  std::uint32_t threads_ = 0;
  std::vector<std::vector<std::uint32_t>> commands_;  ///< new places
  std::unordered_map<std::string, Text> texts_;
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> events_;
};

}  // namespace

Timeline merge(std::span<const Timeline> timelines, std::span<const std::string> names, SourceLocation where) {
  if (timelines.empty() || timelines.size() != names.size()) {
    throw Error(Errc::invalid_value, "weir::trace::merge", "names",
                "there are " + std::to_string(names.size()) + " for " + std::to_string(timelines.size()) + " timelines",
                where);
  }
  return Merger(timelines, names, where).make();
}

}  // namespace weir::trace
