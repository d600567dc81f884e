// Why commands did not begin earlier: what each had to wait for last, and what a device's idle time was spent on.
#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "trace/collectives.hpp"
#include "trace/intervals.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

constexpr std::int64_t least = 1000;  ///< ns; what is shorter is the device's own

/// Work that had to end before.
struct Bound {
  std::uint32_t command = none;
  Tie tie = Tie::stream_order;
  std::uint32_t via = none;  ///< the record, the free, or the command itself
  std::int64_t end = -1;
};

/// The longest of the times that it held something, and when all of them could have been saved.
struct Cause {
  Held held;
  std::vector<Interval> saved;
};

class Explainer {
 public:
  explicit Explainer(const Timeline& timeline) : timeline_(timeline) {}

  std::vector<Held> make() {
    find_bounds();
    find_gaps();
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) {
      if (!is_of_device(timeline_.commands[i])) continue;
      if (std::optional<Held> held = of(i)) add(std::move(*held));
    }
    find_late_ranks();
    return sorted();
  }

 private:
  const Command& command(std::uint32_t place) const { return timeline_.commands[place]; }
  std::uint32_t device_of(const Command& one) const { return timeline_.streams[one.stream].device; }
  auto ends_after() const {
    return [this](std::int64_t moment, std::uint32_t other) { return moment < command(other).end; };
  }

  /// Records, waits and memory take no time: behind them stands the work that they come behind.
  Bound bound_of(const Dependency& on) const {
    if (is_work(command(on.command))) return {on.command, on.tie, on.command, command(on.command).end};
    Bound bound = bounds_[on.command].first;
    if (on.tie != Tie::stream_order) {
      bound.tie = on.tie;
      bound.via = on.command;
    }
    return bound;
  }
  void find_bounds() {
    for (const Command& one : timeline_.commands) {
      std::pair<Bound, std::int64_t> latest{{}, -1};
      for (const Dependency& on : timeline_.dependencies_of(one)) {
        const Bound bound = bound_of(on);
        if (bound.end > latest.first.end) {
          latest = {bound, latest.first.end};
        } else if (bound.command != latest.first.command) {
          latest.second = std::max(latest.second, bound.end);
        }
      }
      bounds_.push_back(latest);
    }
  }
  /// When each device was idle.
  void find_gaps() {
    std::map<std::uint32_t, std::vector<Interval>> busy;
    for (const Command& one : timeline_.commands) {
      if (is_of_device(one)) busy[device_of(one)].push_back({one.begin, one.end});
    }
    for (auto& [device, intervals] : busy) {
      const std::vector<Interval> all = joined(std::move(intervals));
      for (std::size_t i = 1; i < all.size(); ++i) gaps_[{device, all[i].begin}] = all[i - 1].end;
    }
    std::map<std::pair<std::uint32_t, Lane>, std::vector<std::uint32_t>> lanes;
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) {
      if (is_of_device(command(i))) lanes[{device_of(command(i)), command(i).lane}].push_back(i);
    }
    for (auto& [lane, places] : lanes) {
      std::vector<Interval> intervals;
      for (const std::uint32_t i : places) intervals.push_back({command(i).begin, command(i).end});
      busy_[lane] = joined(std::move(intervals));
      std::vector<std::uint32_t>& begins = by_begin_[lane.first];
      begins.insert(begins.end(), places.begin(), places.end());
      std::sort(places.begin(), places.end(),
                [this](std::uint32_t a, std::uint32_t b) { return command(a).end < command(b).end; });
    }
    by_end_ = std::move(lanes);
    for (auto& [device, places] : by_begin_) {
      std::sort(places.begin(), places.end(),
                [this](std::uint32_t a, std::uint32_t b) { return command(a).begin < command(b).begin; });
    }
  }

  std::optional<Held> of(std::uint32_t place) const {
    const Command& one = command(place);
    const auto& [bound, next] = bounds_[place];
    if (bound.command != none && bound.end > one.call) return behind(place, bound, std::max(next, one.call));
    const std::int64_t ready = std::max(one.call, bound.end);
    if (one.begin - ready >= least) {
      if (std::optional<Held> held = behind_engine(place, ready)) return held;
      if (std::optional<Held> held = behind_queue(place, ready)) return held;
    }
    return behind_host(place);
  }

  std::optional<Held> behind(std::uint32_t place, const Bound& bound, std::int64_t since) const {
    const Command& one = command(place);
    const Command& by = command(bound.command);
    Held held = begun(place, bound.command, since, one.begin);
    held.saves = bound.end - since;
    const Command& via = command(bound.via);
    held.file = via.file;
    held.line = via.line;
    switch (bound.tie) {
      case Tie::event: held.reason = Reason::event; break;
      case Tie::default_stream: held.reason = Reason::default_stream; break;
      case Tie::memory: held.reason = Reason::memory; break;
      case Tie::stream_order:
        if (by.lane == one.lane || by.lane == Lane::graph || one.lane == Lane::graph) return std::nullopt;
        held.reason = Reason::stream_order;
        held.file = one.file;
        held.line = one.line;
        held.saves = std::min({held.saves, by.end - by.begin, one.end - one.begin});
        break;
    }
    if (held.reason == Reason::default_stream) {  // what caused the barrier is the line to look at
      const Command& cause = timeline_.streams[by.stream].legacy ? by : one;
      held.file = cause.file;
      held.line = cause.line;
    }
    return held;
  }

  /// Ready, but another command kept its engine: the last one of it to end before this one began.
  std::optional<Held> behind_engine(std::uint32_t place, std::int64_t ready) const {
    const Command& one = command(place);
    const auto& ends = by_end_.at({device_of(one), one.lane});
    auto at = std::upper_bound(ends.begin(), ends.end(), one.begin, ends_after());
    if (at == ends.begin()) return std::nullopt;
    const std::uint32_t by = *--at;
    if (by == place || command(by).end <= ready || one.begin - command(by).end > least) return std::nullopt;
    Held held = begun(place, by, ready, one.begin);
    const std::int32_t urgent = timeline_.streams[command(by).stream].priority;  // the lower, the more
    const bool overtaken = command(by).call > one.call && urgent < timeline_.streams[one.stream].priority;
    held.reason = overtaken ? Reason::priority : Reason::engine_busy;
    held.file = one.file;
    held.line = one.line;
    held.saves = command(by).end - ready;
    return held;
  }

  /// Ready, its engine idle, and yet it began only when another stream's command did that was asked for before it: streams
  /// share a device's queues, each of which is taken from in order.
  std::optional<Held> behind_queue(std::uint32_t place, std::int64_t ready) const {
    const Command& one = command(place);
    const auto& busy = busy_.at({device_of(one), one.lane});
    const auto next = std::upper_bound(busy.begin(), busy.end(), one.begin,
                                       [](std::int64_t moment, const Interval& it) { return moment < it.begin; });
    const std::int64_t idle_until = std::prev(next)->begin;
    if (idle_until < ready + least) return std::nullopt;
    const auto& places = by_begin_.at(device_of(one));
    auto at =
        std::upper_bound(places.begin(), places.end(), one.begin,
                         [this](std::int64_t moment, std::uint32_t other) { return moment < command(other).begin; });
    for (; at != places.begin(); --at) {
      const Command& by = command(*std::prev(at));
      if (one.begin - by.begin > least) break;
      if (by.stream == one.stream || by.call < 0 || by.call >= one.call || by.begin > idle_until) continue;
      Held held = begun(place, *std::prev(at), ready, one.begin);
      held.reason = Reason::work_queue;
      held.file = one.file;
      held.line = one.line;
      held.saves = one.begin - ready;
      return held;
    }
    return std::nullopt;
  }

  /// The device, or the engine, had nothing to do until this was submitted.
  std::optional<Held> behind_host(std::uint32_t place) const {
    const Command& one = command(place);
    const auto gap = gaps_.find({device_of(one), one.begin});
    if (gap == gaps_.end() || gap->second >= one.call) return beside_a_wait(place);
    const std::int64_t late = one.call - gap->second;
    Held held = begun(place, none, gap->second, one.begin);
    held.saves = late;
    const HostWait* wait = longest_wait(one, gap->second);
    if (wait != nullptr && 2 * overlap(*wait, one, gap->second) > late) {
      blame(held, *wait);
    } else {
      held.reason = Reason::host_late;
      held.file = one.file;
      held.line = one.line;
    }
    return held;
  }
  /// Other engines ran meanwhile: it could have run beside them, had the host not waited.
  std::optional<Held> beside_a_wait(std::uint32_t place) const {
    const Command& one = command(place);
    const std::int64_t since = engine_idle_since(place);
    if (since < 0 || since >= one.call) return std::nullopt;
    const HostWait* wait = longest_wait(one, since);
    if (wait == nullptr) return std::nullopt;
    Held held = begun(place, none, since, one.begin);
    held.saves = std::min(overlap(*wait, one, since), one.end - one.begin);
    blame(held, *wait);
    return held;
  }
  void blame(Held& held, const HostWait& wait) const {
    const std::string_view what = timeline_.text(wait.what);
    held.reason = what == "pageable copy" ? Reason::pageable_copy
                  : what == "allocation"  ? Reason::allocation
                                          : Reason::host_wait;
    held.by = wait.command;
    held.file = wait.file;
    held.line = wait.line;
  }
  /// When the last command of its lane had ended before it began; -1 if there was none.
  std::int64_t engine_idle_since(std::uint32_t place) const {
    const auto& ends = by_end_.at({device_of(command(place)), command(place).lane});
    const auto at = std::upper_bound(ends.begin(), ends.end(), command(place).begin, ends_after());
    for (auto before = at; before != ends.begin();) {
      if (*--before != place) return command(*before).end;
    }
    return -1;
  }
  /// For how long of the time from `since` to the call.
  static std::int64_t overlap(const HostWait& wait, const Command& one, std::int64_t since) {
    return std::min(wait.end, one.call) - std::max(wait.begin, since);
  }
  /// Of the thread that submitted the command, between `since` and the call; null if none lasted.
  const HostWait* longest_wait(const Command& one, std::int64_t since) const {
    const auto& waits = timeline_.waits;
    const HostWait* found = nullptr;
    auto at = std::upper_bound(waits.begin(), waits.end(), one.call,
                               [](std::int64_t moment, const HostWait& wait) { return moment < wait.begin; });
    constexpr int looked_at = 256;
    for (int i = 0; i < looked_at && at != waits.begin(); ++i) {
      --at;
      const std::int64_t least_here = found == nullptr ? least : overlap(*found, one, since);
      if (at->thread == one.thread && overlap(*at, one, since) > least_here) found = &*at;
    }
    return found;
  }

  static Held begun(std::uint32_t place, std::uint32_t by, std::int64_t begin, std::int64_t end) {
    Held held;
    held.command = place;
    held.by = by;
    held.begin = begin;
    held.end = end;
    return held;
  }

  /// Where no line is known, what is held by what.
  using Key = std::tuple<Reason, Text, std::uint32_t, std::string_view, std::string_view>;
  Key key_of(const Held& held) const {
    if (held.file != none) return {held.reason, held.file, held.line, {}, {}};
    const std::string_view by = held.by == none ? std::string_view() : timeline_.name_of(command(held.by));
    return {held.reason, held.file, held.line, timeline_.name_of(command(held.command)), by};
  }
  /// Ranks of a collective that were ready before the last one.
  void find_late_ranks() {
    for (const Meeting& meeting : meetings(timeline_)) {
      const CollectivePart& last = *meeting.parts[meeting.last].part;
      for (const Meeting::Part& one : meeting.parts) {
        if (one.part == &last) continue;
        Held held = begun(one.part->command, last.command, one.ready, meeting.came());
        held.reason = Reason::rank;
        held.file = command(last.command).file;
        held.line = command(last.command).line;
        held.saves = meeting.came() - one.ready;
        add(std::move(held));
      }
    }
  }

  /// What one line causes again and again is one. Commands that it held at the same time had that time once.
  void add(Held held) {
    if (held.saves < least) return;
    const auto [at, is_new] = all_.try_emplace(key_of(held), Cause{held, {}});
    auto& [known, saved] = at->second;
    saved.push_back({held.begin, held.begin + held.saves});
    if (is_new) return;
    const std::uint64_t count = known.count + 1;
    if (held.end - held.begin > known.end - known.begin) known = std::move(held);
    known.count = count;
  }
  std::vector<Held> sorted() {
    std::vector<Held> made;
    for (auto& [key, cause] : all_) {
      auto& [held, saved] = cause;
      held.saves = length(joined(std::move(saved)));
      add_words(held, timeline_);
      made.push_back(std::move(held));
    }
    std::stable_sort(made.begin(), made.end(), [](const Held& a, const Held& b) { return a.saves > b.saves; });
    return made;
  }

  const Timeline& timeline_;
  std::vector<std::pair<Bound, std::int64_t>> bounds_;  ///< what ended last, and when what ended before that did
  std::map<std::pair<std::uint32_t, std::int64_t>, std::int64_t> gaps_;  ///< device and end to begin
  std::map<std::pair<std::uint32_t, Lane>, std::vector<std::uint32_t>> by_end_;
  std::map<std::pair<std::uint32_t, Lane>, std::vector<Interval>> busy_;  ///< of each engine
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_begin_;          ///< of each device
  std::map<Key, Cause> all_;
};

}  // namespace

std::vector<Held> explain(const Timeline& timeline) { return Explainer(timeline).make(); }

}  // namespace weir::trace
