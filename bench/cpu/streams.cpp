// B1 to B5 and B8: streams and events with empty kernels, beside spinning threads, and streams with nothing to do.
#include <algorithm>
#include <string>
#include <thread>

#include "bench.hpp"
#include "raw/raw.hpp"
#include "work.hpp"

namespace bench {

namespace {

void launches_over(Context& context, std::size_t streams, Row row) {
  const std::size_t count = context.options.cut(1'000'000);
  LaunchRate ours(context.device, streams, count);
  const Pair pair = by_turns(
      context.options, [&] { return counted(count, [&] { return raw::launch_rate(streams, count); }); }, ours);
  row.unit = "M/s";
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
  // For information: against a ring that is told nothing but the function to call.
  const Pair lean = by_turns(
      context.options, [&] { return counted(count, [&] { return raw::lean_launch_rate(streams, count); }); }, ours);
  context.report.add({row.name + ".lean", row.work + ", lean ring", "M/s", lean.ours, lean.raw, {}});
}

/// Beside a locked queue whose waiter runs the work itself, so that nothing is handed to another core.
template <class Raw, class Ours>
void beside_own(Context& context, Row row, std::size_t tasks, Raw&& raw, Ours&& ours) {
  const Pair pair = by_turns(
      context.options, [&] { return counted(tasks, raw); }, ours);
  row.work += ", beside a locked queue that the waiter runs";
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
}

}  // namespace

void launch_rate(Context& context) {
  launches_over(context, 1,
                {.name = "B1",
                 .work = context.counts(1'000'000) + " launches on a stream, wait",
                 .reach = {ratio_at_least(0.6), at_least(16, "M/s")}});
  const std::size_t count = context.options.cut(1'000'000);
  LaunchRate ours(context.device, 1, count);
  beside_own(
      context, {.name = "B1.own", .work = "the same", .unit = "M/s", .reach = {ratio_at_least(0.6)}}, count,
      [&] { return raw::own_launch_rate(count); }, ours);
}

void round_robin(Context& context) {
  Row row{.name = "B2", .work = context.counts(1'000'000) + " launches over 8 streams"};
  row.reach = {context.cores < 4 ? ratio_at_least(0.4) : at_least(12, "M/s")};
  launches_over(context, 8, row);
}

void round_trip(Context& context) {
  const std::size_t count = context.options.cut(100'000);
  const Pair pair = by_turns(
      context.options, [&] { return counted(count, [&] { return raw::round_trip(count); }); },
      RoundTrip(context.device, count));
  context.report.add({"B3", "launch one, wait", "us", pair.ours, pair.raw, {ratio_at_most(0.5)}});
  beside_own(
      context, {.name = "B3.own", .work = "the same", .unit = "us", .reach = {ratio_at_most(2)}}, count,
      [&] { return raw::own_round_trip(count); }, RoundTrip(context.device, count));
}

void hops(Context& context) {
  const std::size_t count = context.options.cut(50'000);
  const Pair pair = by_turns(
      context.options, [&] { return counted(2 * (count / 2 + 1), [&] { return raw::hop(count); }); },
      Hop(context.device, count));
  context.report.add({"B4", "event hop between two streams", "us", pair.ours, pair.raw, {ratio_at_most(1.5)}});
  beside_own(
      context, {.name = "B4.own", .work = "the same", .unit = "us", .reach = {ratio_at_most(5)}}, count,
      [&] { return raw::own_hop(count); }, Hop(context.device, count));
}

void fork_join(Context& context) {
  for (const std::size_t width : {1, 8, 64}) {
    const std::size_t count = context.options.cut(200'000 / (width + 8));
    const Pair pair = by_turns(
        context.options, [&] { return counted(count * (width + 2), [&] { return raw::fork_join(width, count); }); },
        ForkJoin(context.device, width, count));
    const std::string to = std::to_string(width);
    Row row{"B5." + to, "fork 1 to " + to + " streams, join", "us", pair.ours, pair.raw, {}};
    if (width == 64) {
      row.name = "B5";
      row.reach = {context.cores < 4 ? ratio_at_most(8) : at_most(20, "us")};
    }
    context.report.add(row);
    if (width != 64) continue;
    beside_own(
        context, {.name = "B5.own", .work = "the same", .unit = "us", .reach = {ratio_at_most(8)}}, count * (width + 2),
        [&] { return raw::own_fork_join(width, count); }, ForkJoin(context.device, width, count));
  }
}

void idle(Context& context) {
  const std::vector<weir::Stream> streams = make_streams(context.device, 64);
  counted(streams.size(), [&] {
    for (const weir::Stream& stream : streams) {
      weir::launch(stream, 1, [](std::size_t) { tally(); });
      stream.synchronize();
    }
    return 0.0;
  });
  Options options = context.options;
  options.repetitions = options.divide > 1 ? 1 : 5;
  const Spread share = repeat(options, [] {
    const double before = cpu_seconds();
    std::this_thread::sleep_for(std::chrono::seconds(2));
    return (cpu_seconds() - before) / 2 * 100;
  });
  context.report.add({"B8", "64 streams idle for 2 s, of a core", "%", share, {}, {at_most(0.05, "%")}});
}

void thousand_streams(Context& context) {
  constexpr std::size_t count = 1000;
  constexpr std::uint32_t launches = 10;
  const auto complete = [&] {
    const std::vector<weir::Stream> streams = make_streams(context.device, count);
    std::vector<std::uint32_t> done(count);
    for (std::uint32_t round = 0; round < launches; ++round) {
      for (std::size_t i = 0; i < count; ++i) {
        weir::launch(streams[i], 1, [counter = &done[i]](std::size_t) {
          if constexpr (!sabotaged) ++*counter;
        });
      }
    }
    context.device.synchronize();
    return static_cast<double>(std::count(done.begin(), done.end(), launches));
  };
  const Spread streams_done = repeat(context.options, complete);
  expect(streams_done.low == count, "some streams are not complete");
  context.report.add({"streams.1000",
                      "1,000 streams, 10 launches on each",
                      "complete",
                      streams_done,
                      {},
                      {at_least(count, "complete")}});
}

}  // namespace bench
