// Why commands did not begin earlier: what each had to wait for last, and what a device's idle time was spent on.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "trace/bounds.hpp"
#include "trace/busy.hpp"
#include "trace/collectives.hpp"
#include "trace/gaps.hpp"
#include "trace/intervals.hpp"
#include "trace/slow_copies.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

constexpr std::int64_t least = 1000;  ///< ns; what is shorter is the device's own
constexpr int looked_at = 256;        ///< waits, back from a call
constexpr std::int64_t of_wake =
    50'000;  ///< ns, from the end of a wait to the next call, that are not the program's own

/// What commands share, and wait for each other for. On the CPU that are the workers, for all kinds of work.
using EngineOfDevice = std::pair<std::uint32_t, Lane>;

/// The longest of the times that it held something, and when all of them could have been saved.
struct Cause {
  Held held;
  std::vector<Interval> saved;
  std::set<std::uint32_t> copies;  ///< of pageable memory: what they held the host from is counted
};

class Explainer {
 public:
  explicit Explainer(const Timeline& timeline) : timeline_(timeline), bounds_(timeline) {
    std::map<std::uint32_t, std::int64_t> calls;
    for (const Command& one : timeline.commands) {
      if (is_work(one)) last_end_ = std::max(last_end_, one.end);
      one_thread_ = one_thread_ && one.thread == timeline.commands.front().thread;
      const auto [last, is_first] = calls.try_emplace(one.thread, -1);
      call_before_.push_back(std::exchange(last->second, one.call));
    }
  }

  std::vector<Held> make() {
    find_meetings();
    find_gaps();
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) {
      if (is_of_device(timeline_.commands[i])) explain(i);
    }
    find_late_ranks();
    for (Held& held : slow_copies(timeline_)) add(std::move(held));
    return sorted();
  }

 private:
  const Command& command(std::uint32_t place) const { return timeline_.commands[place]; }
  std::uint32_t device_of(const Command& one) const { return timeline_.streams[one.stream].device; }
  bool is_of_cpu(const Command& one) const { return is_cpu(timeline_, device_of(one)); }
  EngineOfDevice engine_of(const Command& one) const {
    return {device_of(one), is_of_cpu(one) ? Lane::kernel : one.lane};
  }
  /// What may lie between two commands of one engine though the second was ready: the CPU's scheduler takes its time.
  std::int64_t pause_of(const Command& one) const {
    constexpr std::int64_t of_cpu = 100'000;
    return is_of_cpu(one) ? of_cpu : least;
  }
  auto ends_after() const {
    return [this](std::int64_t moment, std::uint32_t other) { return moment < command(other).end; };
  }

  void find_meetings() {
    meetings_ = meetings(timeline_);
    for (const Meeting& meeting : meetings_) {
      for (const Meeting::Part& one : meeting.parts) came_[one.part->command] = meeting.came();
    }
  }
  /// For how long it ran; of a collective, since the last rank came.
  std::int64_t time_of(std::uint32_t place) const {
    const Command& one = command(place);
    const auto came = came_.find(place);
    return one.end - (came == came_.end() ? one.begin : std::clamp(came->second, one.begin, one.end));
  }
  /// When each device was idle, and each engine busy.
  void find_gaps() {
    for (std::uint32_t i = 0; i < timeline_.commands.size(); ++i) {
      const Command& one = command(i);
      if (!is_of_device(one)) continue;
      by_end_[engine_of(one)].push_back(i);
      by_begin_[device_of(one)].push_back(i);
    }
    gaps_ = idle_gaps_of_devices(timeline_);
    for (auto& [engine, places] : by_end_) {
      std::vector<Interval> intervals;
      for (const std::uint32_t i : places) intervals.push_back({command(i).begin, command(i).end});
      busy_.try_emplace(engine, joined(std::move(intervals)), pause_of(command(places.front())));
      std::sort(places.begin(), places.end(),
                [this](std::uint32_t a, std::uint32_t b) { return command(a).end < command(b).end; });
    }
    for (auto& [device, places] : by_begin_) {
      const auto in = busy_.find({device, Lane::copy_in}), out = busy_.find({device, Lane::copy_out});
      const bool both = in != busy_.end() && out != busy_.end();
      if (both && common(in->second.all(), out->second.all()) == 0) one_for_copies_.insert(device);
      std::sort(places.begin(), places.end(),
                [this](std::uint32_t a, std::uint32_t b) { return command(a).begin < command(b).begin; });
    }
  }
  /// Since when its device was idle when it began; never, if that was at work.
  std::int64_t idle_since(const Command& one) const {
    const auto gap = gaps_.find({device_of(one), one.begin});
    return gap == gaps_.end() ? std::numeric_limits<std::int64_t>::max() : gap->second;
  }

  /// First it could not begin, or was not asked for yet; then what it needs was not free.
  void explain(std::uint32_t place) {
    const Command& one = command(place);
    const std::uint64_t told = told_;
    const auto& [bound, before] = bounds_.latest(place);
    const std::int64_t ready = std::max(one.call, bound.end);
    std::optional<Held> held;
    if (ready >= 0 && one.begin - ready >= least) {
      held = behind_engine(place, ready, engine_of(one));
      if (!held) held = behind_other_copy(place, ready);
      if (!held) held = behind_queue(place, ready);
    }
    if (bound.command != none && bound.end > one.call) {
      if (std::optional<Held> first = behind(place, bound, std::max(before, one.call))) add(std::move(*first));
    } else {
      // Asked for earlier, it would have stood behind the same work of its engine.
      const bool by_engine = held && held->reason != Reason::work_queue;
      const std::int64_t until =
          by_engine ? busy_.at(engine_of(command(held->by))).since(command(held->by).begin) : one.call;
      behind_host(place, bound.end, std::min(until, one.call));
    }
    if (held) add(std::move(*held));
    if (told_ == told) begun_slowly(place, ready, bound);
    if (told_ == told && one.begin - idle_since(one) >= least && of_little_) tell(std::move(*of_little_));
    of_little_.reset();
  }

  /// Nothing held it, or a record of its stream that nothing is known to have held, and yet the device did nothing until then.
  void begun_slowly(std::uint32_t place, std::int64_t ready, const Bound& bound) {
    const Command& one = command(place);
    if (ready < 0) return;
    Held held = begun(place, none, std::max(ready, idle_since(one)), one.begin);
    if (one.begin - held.begin < least && bound.command != none && command(bound.command).lane == Lane::order) {
      held.by = bound.command;
      held.begin = std::max(one.call, idle_since(one));
    }
    held.reason = Reason::slow_start;
    held.file = one.file;
    held.line = one.line;
    held.saves = held.end - held.begin;
    add(std::move(held));
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
      case Tie::replay:
        held.reason = Reason::replay;
        held.file = one.file;
        held.line = one.line;
        break;
      case Tie::stream_order:
        if (by.lane == one.lane || by.lane >= Lane::graph || one.lane == Lane::graph) return std::nullopt;
        // The CPU's workers do collectives, too.
        if (is_of_cpu(one) && (came_.contains(place) || came_.contains(bound.command))) return std::nullopt;
        held.reason = Reason::stream_order;
        held.file = one.file;
        held.line = one.line;
        held.saves = std::min({held.saves, time_of(bound.command), time_of(place)});
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
  std::optional<Held> behind_engine(std::uint32_t place, std::int64_t ready, EngineOfDevice engine) const {
    const Command& one = command(place);
    const auto& ends = by_end_.at(engine);
    auto at = std::upper_bound(ends.begin(), ends.end(), one.begin, ends_after());
    if (at == ends.begin()) return std::nullopt;
    const std::uint32_t by = *--at;
    const std::int64_t end = command(by).end;
    if (by == place || end <= ready || one.begin - end > pause_of(one)) return std::nullopt;
    const Busy& busy = busy_.at(engine);
    const std::int64_t since = std::max(ready, busy.since(command(by).begin));
    Held held = begun(place, by, since, one.begin);
    held.saves = busy.until(end) - busy.until(since);
    // A worker of the CPU that was slow to begin was not kept by what ended meanwhile.
    if (is_of_cpu(one) && 2 * held.saves < one.begin - ready) return std::nullopt;
    const std::int32_t urgent = timeline_.streams[command(by).stream].priority;  // the lower, the more
    const bool overtaken = command(by).call > one.call && urgent < timeline_.streams[one.stream].priority;
    held.reason = overtaken ? Reason::priority : Reason::engine_busy;
    held.file = one.file;
    held.line = one.line;
    return held;
  }

  std::optional<Held> behind_other_copy(std::uint32_t place, std::int64_t ready) const {
    const Command& one = command(place);
    if (!is_on_copy_engine(timeline_, one) || one.lane == Lane::copy_device) return std::nullopt;
    if (!one_for_copies_.contains(device_of(one))) return std::nullopt;
    return behind_engine(place, ready, {device_of(one), one.lane == Lane::copy_in ? Lane::copy_out : Lane::copy_in});
  }

  /// Ready, its engine idle, and yet it began only when another stream's command did that was asked for before it: streams
  /// share a device's queues, each of which is taken from in order. The CPU has none.
  std::optional<Held> behind_queue(std::uint32_t place, std::int64_t ready) const {
    const Command& one = command(place);
    if (is_of_cpu(one)) return std::nullopt;
    const std::int64_t idle_until = busy_.at(engine_of(one)).since_without_pause(one.begin);
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

  /// It was asked for late, and could have begun between `since`, when what it comes behind had ended, and `until`: the device
  /// had nothing to do before the call, or the host waited. Without that wait the call would have been earlier by as long. Of
  /// several waits before the call each is told, and the device's idle time is those waits' in which it passed.
  void behind_host(std::uint32_t place, std::int64_t since, std::int64_t until) {
    const Command& one = command(place);
    const std::int64_t idle = std::min(std::max(idle_since(one), since), until);
    const std::int64_t late = until - idle;
    if (is_on_copy_engine(timeline_, one)) since = std::max(since, engine_idle_since(place));
    const HostWait* wait = longest_wait(place, since, until);
    const std::int64_t waited = wait == nullptr ? 0 : saved_without(*wait, one, since, until);
    const bool in_gap = wait != nullptr && 2 * overlap(*wait, idle, until) > late;
    if (late > waited && !in_gap) {
      wait = wait_at(place, idle);
      if (wait != nullptr && 2 * (wait->end - wait->begin) <= late) wait = nullptr;
    }
    std::vector<const HostWait*> others = waits_before_call(place, since, until);
    std::erase(others, wait);
    std::int64_t in_others = 0;
    for (const HostWait* other : others) in_others += std::max<std::int64_t>(overlap(*other, idle, until), 0);
    if (wait == nullptr && 2 * in_others <= late) {
      others.clear();
      in_others = 0;
    }
    const bool by_gap = late >= waited;
    const std::int64_t begin = by_gap ? idle : std::max(wait->begin, since);
    Held held = begun(place, none, begin, one.begin);
    held.saves = by_gap ? std::max(late - in_others, wait == nullptr ? 0 : waited) : waited;
    if (wait != nullptr) {
      blame(held, *wait);
    } else {
      blame_host(held);
    }
    add(std::move(held));
    for (const HostWait* other : others) {
      Held more = begun(place, none, std::max(other->begin, since), one.begin);
      more.saves = saved_without(*other, one, since, until);
      blame(more, *other);
      add(std::move(more));
    }
    if (by_gap) return;
    // The wait is the dearer, but the device was idle after it, too, while the host did something of its own.
    const std::int64_t over = std::clamp(wait->end, idle, until);
    const std::int64_t own = until - over - in_others;
    if (own < of_wake) return;
    Held rest = begun(place, none, over, one.begin);
    rest.saves = own;
    blame_host(rest);
    add(std::move(rest));
  }
  void blame_host(Held& held) const {
    held.reason = Reason::host_late;
    held.file = command(held.command).file;
    held.line = command(held.command).line;
  }
  /// Of the thread that submitted the command, since its call before: as longest_wait() has one of them.
  std::vector<const HostWait*> waits_before_call(std::uint32_t place, std::int64_t since, std::int64_t until) const {
    std::vector<const HostWait*> made;
    since = std::max(since, call_before_[place]);
    const auto& waits = timeline_.waits;
    auto at = std::lower_bound(waits.begin(), waits.end(), call_before_[place],
                               [](const HostWait& wait, std::int64_t moment) { return wait.begin < moment; });
    for (int i = 0; i < looked_at && at != waits.end() && at->begin <= until; ++i, ++at) {
      if (at->thread != command(place).thread || at->command == place) continue;
      if (overlap(*at, since, until) >= least) made.push_back(&*at);
    }
    return made;
  }
  /// By how much the whole would be shorter at most, had the host not waited. What it waited for ends when it ends: if the host
  /// then waits for everything, or never again, what is left to save is the time from there.
  std::int64_t saved_without(const HostWait& wait, const Command& one, std::int64_t since, std::int64_t until) const {
    const std::int64_t shift = overlap(wait, since, until);
    if (!one_thread_ || wait.command == none || command(wait.command).state != State::ran) return shift;
    const auto& waits = timeline_.waits;
    const auto next = std::lower_bound(waits.begin(), waits.end(), one.call,
                                       [](const HostWait& it, std::int64_t moment) { return it.begin < moment; });
    if (next != waits.end() && timeline_.text(next->what) != "everything") return shift;
    const std::int64_t over = next == waits.end() ? last_end_ : next->end;
    return std::min(shift, over - std::min(wait.end, command(wait.command).end));
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
  static std::int64_t overlap(const HostWait& wait, std::int64_t since, std::int64_t until) {
    return std::min(wait.end, until) - std::max(wait.begin, since);
  }
  /// Of the thread that submitted the command, in that time; null if none lasted. Not the wait for the command itself, which
  /// simulated devices let begin before its call.
  const HostWait* longest_wait(std::uint32_t place, std::int64_t since, std::int64_t until) const {
    const auto& waits = timeline_.waits;
    const HostWait* found = nullptr;
    std::int64_t longest = least;
    auto at = std::upper_bound(waits.begin(), waits.end(), until,
                               [](std::int64_t moment, const HostWait& wait) { return moment < wait.begin; });
    for (int i = 0; i < looked_at && at != waits.begin(); ++i) {
      --at;
      if (at->thread != command(place).thread || at->command == place) continue;
      if (overlap(*at, since, until) <= longest) continue;
      found = &*at;
      longest = overlap(*at, since, until);
    }
    return found;
  }

  /// In which the thread that submitted the command was when the device went idle: what it did then came late for that.
  const HostWait* wait_at(std::uint32_t place, std::int64_t moment) const {
    const auto& waits = timeline_.waits;
    auto at = std::upper_bound(waits.begin(), waits.end(), moment,
                               [](std::int64_t moment, const HostWait& wait) { return moment < wait.begin; });
    for (int i = 0; i < looked_at && at != waits.begin(); ++i) {
      --at;
      if (at->thread != command(place).thread || at->command == place) continue;
      return at->end >= moment ? &*at : nullptr;
    }
    return nullptr;
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
    for (const Meeting& meeting : meetings_) {
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
    if (held.saves >= least) {
      tell(std::move(held));
    } else if (held.saves > (of_little_ ? of_little_->saves : 0)) {
      of_little_ = std::move(held);
    }
  }
  void tell(Held held) {
    ++told_;
    const auto [at, is_new] = all_.try_emplace(key_of(held), Cause{held, {}, {}});
    auto& [known, saved, copies] = at->second;
    saved.push_back({held.begin, held.begin + held.saves});
    const bool is_copy = held.reason == Reason::pageable_copy;
    // A copy that held the host, and was slow itself, is one.
    const bool is_counted = is_copy && copies.contains(held.command);
    if (is_copy && held.by != none) copies.insert(held.by);
    if (is_new) return;
    const std::uint64_t count = known.count + (is_counted ? 0 : 1);
    if (held.end - held.begin > known.end - known.begin) known = std::move(held);
    known.count = count;
  }
  std::vector<Held> sorted() {
    std::vector<Held> made;
    for (auto& [key, cause] : all_) {
      Held& held = cause.held;
      held.saves = length(joined(std::move(cause.saved)));
      add_words(held, timeline_);
      made.push_back(std::move(held));
    }
    std::stable_sort(made.begin(), made.end(), [](const Held& a, const Held& b) { return a.saves > b.saves; });
    return made;
  }

  const Timeline& timeline_;
  Bounds bounds_;
  std::vector<Meeting> meetings_;
  std::map<std::uint32_t, std::int64_t> came_;  ///< of parts of collectives: when the last rank came
  std::map<GapEnd, std::int64_t> gaps_;
  std::map<EngineOfDevice, std::vector<std::uint32_t>> by_end_;
  std::map<EngineOfDevice, Busy> busy_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> by_begin_;  ///< of each device
  /// Devices that have one engine for copies in and out: nothing says so, but copies of both ways never run at once there.
  std::set<std::uint32_t> one_for_copies_;
  std::int64_t last_end_ = 0;
  std::vector<std::int64_t> call_before_;  ///< of each command: its thread's call before; -1 if there was none
  bool one_thread_ = true;                 ///< called all commands
  std::uint64_t told_ = 0;                 ///< gaps, until now
  std::optional<Held> of_little_;          ///< of the command looked at, the dearest that is not worth telling alone
  std::map<Key, Cause> all_;
};

}  // namespace

std::vector<Held> explain(const Timeline& timeline) { return Explainer(timeline).make(); }

}  // namespace weir::trace
