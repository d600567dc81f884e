// `weir run`: makes the calls of scenario files, or starts a program.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "files.hpp"
#include "program.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::vector<std::string> files;
  bool times = false;
};

constexpr const char* footer =
    "Every command of a file is a call of the library: kernels last as long as their cost says, and declare what they\n"
    "use. A command that the library refuses is reported, and the run goes on. docs/scenarios.md has the format.\n"
    "With --json, one line with one JSON object for each FILE.\n"
    "\n"
    "Instead of files, a program that uses Weir: weir run --device cpu -- PROGRAM ARGS... runs it with that default\n"
    "device. Signals that are sent to the tool reach it, and its exit code is the tool's.";

Json optional(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json to_json(const std::string& file, const std::string& device, const weir::Recording& recording,
             const weir::RunResult& result) {
  Json misuse = Json::array(), failures = Json::array(), times = Json::array();
  for (const weir::Misuse& one : result.misuse) {
    misuse.push_back(
        {{"command", recording.id(one.command)}, {"errc", std::string(weir::name_of(one.errc))}, {"what", one.what}});
  }
  for (const std::string& failure : result.failures) failures.push_back(failure);
  for (std::size_t i = 0; i < result.times.size(); ++i) {
    const weir::CommandTimes& one = result.times[i];
    times.push_back({{"command", recording.id(i)},
                     {"call_begin_ns", one.call_begin},
                     {"call_end_ns", one.call_end},
                     {"run_begin_ns", optional(one.run_begin)},
                     {"run_end_ns", optional(one.run_end)}});
  }
  return {{"format", "weir.run"},
          {"version", 1},
          {"program", file},
          {"device", device},
          {"commands", recording.size()},
          {"ns", result.ns},
          {"misuse", misuse},
          {"failures", failures},
          {"times", times}};
}

std::string to_text(const std::string& file, const weir::Recording& recording, const weir::RunResult& result) {
  std::string text = fmt::format("{}: {} commands in {:.3f} ms, {} refused, {} failed\n", file, recording.size(),
                                 result.ns / 1e6, result.misuse.size(), result.failures.size());
  for (const weir::Misuse& one : result.misuse) {
    text += fmt::format("  misuse: {}: {}: {}\n", recording.id(one.command), weir::name_of(one.errc), one.what);
  }
  for (const std::string& failure : result.failures) text += fmt::format("  failure: {}\n", failure);
  for (std::size_t i = 0; i < result.times.size(); ++i) {
    const weir::CommandTimes& one = result.times[i];
    text += fmt::format("  {:<12} {:<14} called {:>12.3f} us, for {:>9.3f} us", recording.id(i),
                        weir::recorded::to_text(recording.command(i).op), one.call_begin / 1e3,
                        (one.call_end - one.call_begin) / 1e3);
    if (one.run_begin) {
      text += fmt::format("; ran {:>12.3f} us, for {:>9.3f} us", *one.run_begin / 1e3,
                          (*one.run_end - *one.run_begin) / 1e3);
    }
    text += '\n';
  }
  return text;
}

Exit run_started(const Session& session, const Options& options) {
  if (!options.files.empty()) throw UsageError(fmt::format("{}: either files or a program", options.files.front()));
  if (options.times || session.json) throw UsageError("--times and --json are of files; a program prints for itself");
  Switches switches;
  if (!session.device_name.empty()) switches.emplace_back("WEIR_DEVICE", session.device_name);
  return static_cast<Exit>(run_program(session.program, switches));
}

Exit run(const Session& session, const Options& options) {
  if (!session.program.empty()) return run_started(session, options);
  if (options.files.empty()) throw UsageError("FILE is required, or -- PROGRAM (see weir run --help)");
  const std::vector<weir::Recording> recordings = load_scenarios(options.files);
  const std::string device = session.device_name.empty() ? "cpu" : session.device_name;
  split_cpu(device, recordings);
  Exit exit = Exit::ok;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    const weir::RunResult result =
        run_loaded(recordings[i], {.device = device, .file = options.files[i], .times = options.times});
    if (session.json) {
      session.print_line(to_json(options.files[i], device, recordings[i], result));
    } else {
      session.say(to_text(options.files[i], recordings[i], result));
    }
    if (!result.failures.empty()) {
      exit = Exit::failed;
    } else if (!result.misuse.empty() && exit == Exit::ok) {
      exit = Exit::wrong;
    }
  }
  return exit;
}

}  // namespace

void add_run(const Command& app, Session& session) {
  const Command command = app.add("run", "Makes the calls of scenario files, or runs a program");
  const auto options = std::make_shared<Options>();
  command.operands("FILE", options->files, "scenario files, plain or gzip");
  add_common_options(command, session);
  command.flag("--times", options->times, "when each call was made, and when its work ran");
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return run(session, *options); };
  });
}

}  // namespace tool
