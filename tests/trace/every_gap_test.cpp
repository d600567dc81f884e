// Each time that a device was idle has a reason.
#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"

namespace trace_test {

using weir::trace::Reason;

namespace {

using trace_test::ms;
using trace_test::us;

/// Of one device, with host waits, records of unknown work and moments that are whole nanoseconds of a few microseconds.
Timeline with_gaps(unsigned seed, const std::string& device) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Made made;
  made.timeline = by_chance(seed);
  const auto count = static_cast<std::int64_t>(made.timeline.commands.size());
  const weir::trace::Text name = made.text(device);
  std::fill(made.timeline.devices.begin(), made.timeline.devices.end(), name);
  for (weir::trace::Stream& stream : made.timeline.streams) stream.device = 0;
  constexpr std::int64_t scale = 100;
  for (weir::trace::Command& one : made.timeline.commands) {
    if (one.lane == Lane::host_function) one.lane = Lane::kernel;  // work, but not the device's own
    one.call = one.call * scale + below(scale);
    one.begin = one.begin * scale + below(scale);
    one.end = std::max(one.begin, one.end * scale + below(scale));
    one.file = weir::trace::none;  // so that none is one with another
    if (one.lane != Lane::order || below(2) == 0) continue;
    one.event = 1;
    one.name = made.text(below(2) == 0 ? "record" : "wait");
  }
  made.timeline.nodes.clear();
  made.timeline.duration = 1 * ms;
  std::int64_t at = 0;
  for (std::int64_t i = count == 0 ? 0 : below(8); i > 0; --i) {
    const std::int64_t begin = at + below(6 * us);
    at = begin + below(6 * us);
    const auto command = below(2) == 0 ? weir::trace::none : static_cast<std::uint32_t>(below(count));
    add_wait(made, below(3) == 0 ? "pageable copy" : "everything", command, begin, at);
  }
  for (weir::trace::HostWait& wait : made.timeline.waits) wait.file = weir::trace::none;
  return made.timeline;
}

struct Gap {
  std::int64_t begin, end;
  std::uint32_t before;
};
/// When nothing ran, since the first call.
std::vector<Gap> gaps_of(const Timeline& timeline) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> begun;
  std::int64_t until = timeline.duration;
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    const weir::trace::Command& one = timeline.commands[i];
    if (one.state != weir::trace::State::ran || one.lane >= Lane::memory) continue;
    begun.emplace_back(one.begin, i);
    until = std::min(until, one.call);
  }
  std::stable_sort(begun.begin(), begun.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Gap> made;
  for (const auto& [begin, place] : begun) {
    if (begin > until) made.push_back({until, begin, place});
    until = std::max(until, timeline.commands[place].end);
  }
  return made;
}

}  // namespace

TEST(TraceEveryGap, has_a_reason) {
  int gaps = 0;
  for (const std::string device : {"sim:0", "cpu:0"}) {
    for (unsigned seed = 0; seed < 2000; ++seed) {
      const Timeline timeline = with_gaps(seed, device);
      std::set<std::uint32_t> told;
      for (const Held& held : explain(timeline)) {
        if (held.reason != Reason::unknown && held.saves > 0 && !held.why.empty()) told.insert(held.command);
      }
      for (const Gap& gap : gaps_of(timeline)) {
        if (gap.end - gap.begin < 1 * us) continue;
        ++gaps;
        EXPECT_TRUE(told.contains(gap.before)) << device << ", seed " << seed << ": " << gap.begin << " to " << gap.end;
      }
    }
  }
  EXPECT_GT(gaps, 5000);
}

TEST(TraceEveryGap, behind_a_record_that_nothing_held_names_it) {
  Made made;
  name_device(made, "cpu:0");
  made.add(0, Lane::kernel, 0, 0, 10 * us);
  const auto record = made.add(1, Lane::order, 1 * us, 40 * us, 40 * us);
  made.timeline.commands[record].name = made.text("record");
  made.timeline.commands[record].event = 1;
  const auto kernel = made.add(1, Lane::kernel, 2 * us, 40 * us + 500, 1 * ms, {{record, Tie::stream_order}});
  const Held held = only_of(made.timeline, kernel);
  EXPECT_EQ(held.reason, Reason::slow_start);
  EXPECT_EQ(held.by, record);
  EXPECT_EQ(held.begin, 10 * us);
  EXPECT_EQ(held.saves, 30 * us + 500);
  EXPECT_EQ(held.line, kernel + 1);
  EXPECT_EQ(
      held.why,
      "c2 (s1) came behind record (s1) of its stream, which nothing is known to have held: the device was idle for "
      "30.5 us before it, or did work that was enqueued before the recording began");
}

TEST(TraceEveryGap, that_several_short_things_made_has_the_longest_of_them) {
  Made made;
  made.add(0, Lane::kernel, 0, 0, 10 * us);
  const auto late = made.add(0, Lane::kernel, 10 * us + 600, 11 * us + 100, 1 * ms, {{0, Tie::stream_order}});
  const Held held = only_of(made.timeline, late);
  EXPECT_EQ(held.reason, Reason::host_late);
  EXPECT_EQ(held.saves, 600);
  const auto at_once = made.add(0, Lane::kernel, 1 * ms + 600, 1 * ms + 900, 2 * ms, {{late, Tie::stream_order}});
  EXPECT_TRUE(held_of(made.timeline, at_once).empty()) << "the gap is the device's own";
}

TEST(TraceEveryGap, the_first_one_is_since_the_first_call) {
  Made made(2, 2);
  made.add(0, Lane::kernel, 0, 90 * us, 100 * us);
  const auto first = made.add(1, Lane::kernel, 20 * us, 20 * us, 30 * us);
  const Held held = only_of(made.timeline, first);
  EXPECT_EQ(held.reason, Reason::host_late) << "on another device, which was the first at work";
  EXPECT_EQ(held.begin, 0);
  EXPECT_EQ(held.saves, 20 * us);
  EXPECT_EQ(only_of(made.timeline, 0).reason, Reason::slow_start);
}

}  // namespace trace_test
