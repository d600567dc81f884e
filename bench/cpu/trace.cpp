// trace.*: what recording a timeline adds to launches, how long writing one takes, and how fast a browser shows its page.
#include <cstdio>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <sys/wait.h>
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

/// What tests/trace/page/measure.py says of a page, in milliseconds; nothing where there is no browser.
std::map<std::string, double> shown(const std::filesystem::path& page) {
  std::FILE* const out = popen(("python3 '" WEIR_BENCH_PAGE "/measure.py' '" + page.string() + "'").c_str(), "r");
  std::string text;
  for (int c = out == nullptr ? EOF : std::getc(out); c != EOF; c = std::getc(out)) text += static_cast<char>(c);
  const int status = out == nullptr ? -1 : pclose(out);
  std::map<std::string, double> made;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return made;
  for (std::size_t at = text.find('"'); at != text.npos; at = text.find('"', at)) {
    const std::size_t end = text.find("\": ", at + 1);
    if (end == text.npos) break;
    made[text.substr(at + 1, end - at - 1)] = std::stod(text.substr(end + 3));
    at = end + 3;
  }
  return made;
}

/// A figure of a page with launches in eight streams.
void page(Context& context, Row row, const std::string& figure) {
  const std::size_t count = context.options.cut(200'000);
  weir::trace::Session session;
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 8; ++i) streams.emplace_back(context.device);
  counted(count, [&] {
    for (std::size_t i = 0; i < count; ++i) weir::launch(streams[i % 8], 1, [](std::size_t) { tally(); });
    weir::synchronize();
    return 0.0;
  });
  const weir::trace::Timeline timeline = session.stop();
  expect(timeline.commands.size() == count, "commands are missing");
  const auto path = std::filesystem::temp_directory_path() / ("weir_bench" + std::to_string(getpid()) + ".html");
  save(timeline, path);
  const std::map<std::string, double> told = shown(path);
  row.unit = "ms";
  row.skipped = told.empty();
  if (row.skipped) {
    row.note = "no Chromium, or no Python, here";
  } else {
    row.value = {told.at(figure), told.at(figure), told.at(figure)};
    row.note = std::to_string(std::filesystem::file_size(path) / count) + " bytes a command";
  }
  std::filesystem::remove(path);
  context.report.add(row);
}

}  // namespace

void trace(Context& context) {
  launches(context);
  files(context);
  const std::string work = context.counts(200'000) + " commands as a page in headless Chromium, ";
  page(context, {.name = "trace.page", .work = work + "the first paint", .reach = {at_most(1000, "ms")}},
       "first_paint");
  page(context,
       {.name = "trace.page.frame", .work = work + "panning: of 20 frames 19 took", .reach = {at_most(17, "ms")}},
       "frame_95");
}

}  // namespace bench
