// Each reason is told of a timeline that has it, and not of the same one without it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"

namespace {

using trace_test::add_wait;
using trace_test::Lane;
using trace_test::Made;
using trace_test::Tie;
using weir::trace::Held;
using weir::trace::Reason;

using trace_test::us;

/// Another stream's work ends at 50 us, and holds what is called before that, not what is called only then.
Made behind(Tie tie, bool has, Lane lane = Lane::kernel) {
  Made made;
  const auto before = made.add(0, lane, 0, 0, 50 * us);
  const std::int64_t call = has ? 3 * us : 50 * us;
  made.add(1, lane, call, 50 * us, 60 * us, {{before, tie}});
  return made;
}

Made event(bool has) {
  Made made;
  const auto kernel = made.add(0, Lane::kernel, 0, 0, 50 * us);
  const auto record = made.add(0, Lane::order, 1 * us, 50 * us, 50 * us, {{kernel, Tie::stream_order}});
  const std::int64_t call = has ? 2 * us : 50 * us;
  const auto wait = made.add(1, Lane::order, call, 50 * us, 50 * us, {{record, Tie::event}});
  made.add(1, Lane::kernel, call, 50 * us, 60 * us, {{wait, Tie::stream_order}});
  return made;
}
Made default_stream(bool has) {
  Made made = behind(Tie::default_stream, has);
  made.timeline.streams[0].legacy = true;
  return made;
}
/// Behind a kernel a copy could overlap, and a kernel could not.
Made stream_order(bool has) {
  Made made;
  const auto kernel = made.add(0, Lane::kernel, 0, 0, 50 * us);
  made.add(0, has ? Lane::copy_in : Lane::kernel, 0, 50 * us, 60 * us, {{kernel, Tie::stream_order}});
  return made;
}
/// A kernel that was called when the first had long been over. In between the host was in a wait for something, of its own
/// thread or of another one.
Made host_was_in(const char* what, bool has) {
  Made made;
  const auto first = made.add(0, Lane::kernel, 0, 0, 10 * us);
  made.add(1, Lane::kernel, 90 * us, 90 * us, 99 * us);
  add_wait(made, what, first, 5 * us, 80 * us);
  if (!has) made.timeline.waits.back().thread = 2;
  return made;
}
Made pageable_copy(bool has) { return host_was_in("pageable copy", has); }
Made host_wait(bool has) { return host_was_in("s0", has); }
Made allocation(bool has) { return host_was_in("allocation", has); }
/// Called when the device had nothing to do, or before.
Made host_late(bool has) {
  Made made;
  made.add(0, Lane::kernel, 0, 0, 10 * us);
  made.add(1, Lane::kernel, has ? 90 * us : 5 * us, 90 * us, 99 * us);
  return made;
}
/// A copy of the same way, or of the other one, which ran at once with another copy before.
Made engine_busy(bool has) {
  Made made(3);
  made.add(0, Lane::copy_in, 0, 0, 10 * us);
  made.add(1, has ? Lane::copy_in : Lane::copy_out, 0, has ? 10 * us : 0, 20 * us);
  return made;
}
Made memory(bool has) {
  Made made;
  const auto user = made.add(0, Lane::kernel, 0, 0, 50 * us);
  const auto free = made.add(0, Lane::memory, 1 * us, 50 * us, 50 * us, {{user, Tie::stream_order}});
  const std::int64_t call = has ? 2 * us : 50 * us;
  const auto alloc = made.add(1, Lane::memory, call, 50 * us, 50 * us, {{free, Tie::memory}});
  made.add(1, Lane::kernel, call, 50 * us, 60 * us, {{alloc, Tie::stream_order}});
  return made;
}
/// A kernel whose engine is idle begins at the moment at which that of a stream before it can, or earlier.
Made work_queue(bool has) {
  Made made;
  const auto copy = made.add(0, Lane::copy_in, 0, 0, 50 * us);
  made.add(0, Lane::kernel, 1 * us, 50 * us, 60 * us, {{copy, Tie::stream_order}});
  made.add(1, Lane::kernel, 2 * us, has ? 50 * us + 100 : 40 * us, 70 * us);
  return made;
}
Made priority(bool has) {
  Made made(3);
  made.timeline.streams[0].priority = has ? -1 : 0;
  made.add(2, Lane::kernel, 0, 0, 10 * us);
  made.add(1, Lane::kernel, 1 * us, 30 * us, 40 * us);
  made.add(0, Lane::kernel, 2 * us, 10 * us, 30 * us);
  return made;
}
Made rank(bool has) {
  Made made;
  for (std::int32_t one = 0; one < 2; ++one) {
    const auto stream = static_cast<std::uint32_t>(one);
    const std::int64_t ready = has && one == 1 ? 40 * us : 10 * us;
    const auto kernel = made.add(stream, Lane::kernel, 0, 0, ready);
    const auto part = made.add(stream, Lane::external, 0, ready, 60 * us, {{kernel, Tie::stream_order}}, 8);
    made.timeline.collectives.push_back({part, 1, 1, one, 2});
  }
  return made;
}
Made replay(bool has) { return behind(Tie::replay, has, Lane::graph); }
Made slow_start(bool has) {
  Made made;
  made.add(0, Lane::kernel, 0, 0, 10 * us);
  made.add(1, Lane::kernel, 5 * us, has ? 30 * us : 10 * us + 500, 40 * us);
  return made;
}

struct Pair {
  Reason reason;
  Made (*make)(bool has);
};
constexpr Pair pairs[] = {
    {Reason::event, event},
    {Reason::default_stream, default_stream},
    {Reason::stream_order, stream_order},
    {Reason::pageable_copy, pageable_copy},
    {Reason::host_wait, host_wait},
    {Reason::host_late, host_late},
    {Reason::engine_busy, engine_busy},
    {Reason::memory, memory},
    {Reason::allocation, allocation},
    {Reason::work_queue, work_queue},
    {Reason::priority, priority},
    {Reason::rank, rank},
    {Reason::replay, replay},
    {Reason::slow_start, slow_start},
};

std::vector<Held> held_for(Reason reason, const weir::trace::Timeline& timeline) {
  std::vector<Held> held = explain(timeline);
  std::erase_if(held, [&](const Held& one) { return one.reason != reason; });
  return held;
}

TEST(TraceReasons, each_is_told_where_it_is_and_not_where_it_is_not) {
  std::set<Reason> tried;
  for (const Pair& pair : pairs) {
    const auto with = pair.make(true).timeline, without = pair.make(false).timeline;
    EXPECT_EQ(held_for(pair.reason, with).size(), 1u) << to_text(pair.reason) << ": " << to_text(explain(with), with);
    EXPECT_EQ(held_for(pair.reason, without).size(), 0u)
        << to_text(pair.reason) << ": " << to_text(explain(without), without);
    tried.insert(pair.reason);
  }
  EXPECT_EQ(tried.size(), weir::trace::reason_count - 1) << "all but what is not known";
}

TEST(TraceReasons, of_higher_priorities_are_those_that_came_later) {
  Made made = priority(true);
  std::swap(made.timeline.commands[1].call, made.timeline.commands[2].call);
  EXPECT_EQ(held_for(Reason::priority, made.timeline).size(), 0u) << "it was asked for before";
  EXPECT_FALSE(held_for(Reason::engine_busy, made.timeline).empty());
}

TEST(TraceReasons, each_says_its_line_what_to_change_and_what_that_saves) {
  for (const Pair& pair : pairs) {
    const auto timeline = pair.make(true).timeline;
    for (const Held& one : held_for(pair.reason, timeline)) {
      EXPECT_NE(one.file, weir::trace::none) << to_text(pair.reason);
      EXPECT_GT(one.line, 0u) << to_text(pair.reason);
      EXPECT_GT(one.saves, 0) << to_text(pair.reason);
      EXPECT_FALSE(one.why.empty()) << to_text(pair.reason);
      EXPECT_FALSE(one.change.empty()) << to_text(pair.reason);
    }
  }
}

}  // namespace
