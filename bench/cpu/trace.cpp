// trace.*: what recording a timeline adds to launches, and how long writing one takes.
#include <filesystem>
#include <string>

#include <unistd.h>

#include <weir/trace.hpp>

#include "bench.hpp"
#include "work.hpp"

namespace bench {

namespace {

/// Nanoseconds of its own that a launch takes its thread; the queue is never full, so that the thread runs no kernels.
double caller_nanoseconds(const weir::Stream& stream, std::size_t count) {
  return counted(count,
                 [&] {
                   return caller_seconds(
                       count, 2000, [&](std::size_t) { weir::launch(stream, 1, [](std::size_t) { tally(); }); },
                       [&] { stream.synchronize(); });
                 }) *
         1e9 / static_cast<double>(count);
}

void launches(Context& context) {
  const std::size_t count = context.options.cut(1'000'000);
  const weir::Stream stream(context.device);
  const Pair pair = by_turns(
      context.options, [&] { return caller_nanoseconds(stream, count); },
      [&] {
        const weir::trace::Session session;
        return caller_nanoseconds(stream, count);
      });
  Row row{.name = "trace.launch",
          .work = context.counts(1'000'000) + " launches, added to the caller's own time by a session",
          .reach = {at_most(150, "ns")}};
  row.unit = "ns";
  row.value = {pair.ours.median - pair.raw.median, pair.ours.low - pair.raw.median, pair.ours.high - pair.raw.median};
  row.note = "unrecorded " + std::to_string(pair.raw.median).substr(0, 5) + " ns";
  context.report.add(row);
}

void files(Context& context) {
  const std::size_t count = context.options.cut(1'000'000);
  const weir::Stream stream(context.device);
  weir::trace::Session session({.limit = std::size_t{1} << 30});
  caller_nanoseconds(stream, count);
  const weir::trace::Timeline timeline = session.stop();
  expect(timeline.commands.size() == count, "commands are missing");
  const auto path = std::filesystem::temp_directory_path() / ("weir_bench" + std::to_string(getpid()) + ".json");
  Row row{.name = "trace.write", .work = context.counts(1'000'000) + " commands as JSON", .reach = {at_most(3, "s")}};
  row.unit = "s";
  row.value = repeat(context.options, [&] { return seconds([&] { save(timeline, path); }); });
  row.note = std::to_string(std::filesystem::file_size(path) / count) + " bytes a command";
  std::filesystem::remove(path);
  context.report.add(row);
}

}  // namespace

void trace(Context& context) {
  launches(context);
  files(context);
}

}  // namespace bench
