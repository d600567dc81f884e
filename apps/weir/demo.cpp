// `weir demo`: runs all demos and ends with a table.
#include "demo.hpp"

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

namespace tool {

namespace {

constexpr const char* footer =
    "Without a name, all of them but overlap run, and a table ends the output.\n"
    "\nExamples:\n"
    "  weir demo                              all, with the sizes of the articles that they come from\n"
    "  weir demo --small                      all, in a second or two\n"
    "  weir demo vadd --n 1000003 --streams 7\n"
    "  weir demo normalize --json\n"
    "\nThe exit code is 1 if any result is wrong or any rule was not kept.";

std::vector<DemoResult> run_each(const Session& session) {
  VaddOptions vadd;
  NormalizeOptions normalize;
  PrefetchOptions prefetch;
  HeatOptions heat;
  if (session.small) {
    vadd.n = VaddOptions::small_n;
    normalize.n = NormalizeOptions::small_n;
    prefetch.n = PrefetchOptions::small_n;
    heat.size = HeatOptions::small_size;
  }
  std::vector<DemoResult> results;
  results.push_back(run_vadd(session, vadd));
  session.say("\n");
  results.push_back(run_normalize(session, normalize));
  session.say("\n");
  results.push_back(run_prefetch(session, prefetch));
  session.say("\n");
  if (session.device().backend() == "cpu") {  // the one backend with a transport
    results.push_back(run_heat(session, heat));
    session.say("\n");
  }
  results.push_back(run_default_stream(session));
  session.say("\n");
  return results;
}

std::string row(const DemoResult& r) {
  const bool timed = r.one_ms > 0;
  return fmt::format("{:<16}{:<38}{:>12}{:>12}{:>9}  {}\n", r.name, r.what,
                     timed ? fmt::format("{:.2f} ms", r.one_ms) : "", timed ? fmt::format("{:.2f} ms", r.many_ms) : "",
                     timed ? fmt::format("{:.2f}", r.one_ms / std::max(r.many_ms, 1e-6)) : "",
                     timed ? (r.good ? "correct" : "WRONG") : (r.good ? "kept" : "BROKEN"));
}

Exit run_all(const Session& session) {
  const weir::Device device = session.device();
  bool good = true;
  Json demos = Json::object();
  std::string table =
      fmt::format("{:<16}{:<38}{:>12}{:>12}{:>9}  {}\n", "demo", "", "one", "several", "speed-up", "result");
  for (const DemoResult& result : run_each(session)) {
    good = good && result.good;
    table += row(result);
    demos[result.name] = result.json;
  }
  session.say(table);
  if (session.json) session.print({{"device", device.name()}, {"demos", demos}, {"correct", good}});
  return good ? Exit::ok : Exit::wrong;
}

Exit run_traced(const Session& session, const std::function<Exit()>& run) {
  try {
    weir::trace::Session trace({.file = session.trace_file});
    const Exit code = run();
    trace.stop();
    session.say(fmt::format("timeline: {}\n", session.trace_file));
    return code;
  } catch (const weir::Error& error) {
    if (error.operation() != "weir::trace::save") throw;
    throw UsageError(fmt::format("--trace {}", error.what()));
  }
}

}  // namespace

void add_demo_options(const Command& command, Session& session) {
  add_common_options(command, session);
  command.name("--trace", session.trace_file, "FILE", "Write the timeline of all runs: .html, .json or .pftrace");
  command.flag("--small", session.small, "Small sizes, for a slow machine or a quick look");
}

void make_small(const Session& session, const Command& command, const char* option, std::int64_t& size,
                std::int64_t small) {
  if (session.small && !command.given(option)) size = small;
}

std::string overlap_note(weir::Device device) {
  if (device.backend() != "cpu") return "";
  return "  A CPU copies and computes with the same cores, so that overlap gains less than on a GPU with copy "
         "engines.\n";
}

Exit finish_demo(const Session& session, const DemoResult& result) {
  if (session.json && result.speaks) session.print(result.json);
  return result.good ? Exit::ok : Exit::wrong;
}

void add_demo(const Command& app, Session& session) {
  const Command demo = app.add("demo", "Shows what streams are for: with times, and results checked");
  demo.footer(footer);
  demo.takes_command();
  add_demo_options(demo, session);
  demo.when_given([&session, demo] {
    if (!demo.command_given()) session.run = [&session] { return run_all(session); };
    if (!session.trace_file.empty()) {
      session.run = [&session, run = std::move(session.run)] { return run_traced(session, run); };
    }
  });
  add_vadd(demo, session);
  add_normalize(demo, session);
  add_prefetch(demo, session);
  add_heat(demo, session);
  add_default_stream(demo, session);
  add_overlap(demo, session);
}

}  // namespace tool
