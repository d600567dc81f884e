// `weir check`: runs scenario files or a program, and says which uses of memory nothing orders.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/check.hpp>
#include <weir/error.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "files.hpp"
#include "findings.hpp"
#include "program.hpp"
#include "session.hpp"
#include "temporary_file.hpp"

namespace tool {

namespace {

struct Options {
  std::vector<std::string> files;
  bool hints = false;
  std::string host_order;
  std::string suppressions;
  std::int64_t most = -1;
};

constexpr const char* footer =
    "Every command of a file is a call of the library; from the commands alone, never from when something ran, it is "
    "decided\n"
    "whether two uses of the same bytes are ordered. docs/checking.md tells the rules, docs/scenarios.md the format.\n"
    "With --json, one line with one JSON object for each FILE.\n"
    "\n"
    "weir check [options] -- PROGRAM ARGS... runs a program as it is, with a checker in it, and tells what that found "
    "when\n"
    "it has ended.\n"
    "\n"
    "Exit codes: 0 nothing at error level, 1 something, 2 the command line or a file is wrong, 3 a run failed without "
    "a finding.";

weir::CheckOptions check_options(const Session& session, const Options& options) {
  weir::CheckOptions made;
  made.hints = options.hints;
  // Of a program's host threads nobody knows what orders them.
  made.host_order = session.program.empty() ? weir::HostOrder::declared : weir::HostOrder::observed;
  if (options.host_order == "observed") {
    made.host_order = weir::HostOrder::observed;
  } else if (options.host_order == "declared") {
    made.host_order = weir::HostOrder::declared;
  } else if (!options.host_order.empty()) {
    throw UsageError(fmt::format("--host-order {}: it is observed or declared", options.host_order));
  }
  if (options.most >= 0) {
    made.max_findings = static_cast<std::size_t>(options.most);
  } else if (options.most != -1) {
    throw UsageError(fmt::format("--max {}: a number of findings; 0: no limit", options.most));
  } else if (session.json) {
    made.max_findings = 0;
  }
  if (!options.suppressions.empty()) {
    std::ifstream file(options.suppressions, std::ios::binary);
    if (!file) throw UsageError(fmt::format("--suppress {}: cannot be read", options.suppressions));
    made.suppressions.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    made.suppressions_name = options.suppressions;
  }
  return made;
}

void print(const Session& session, const weir::CheckReport& report) {
  if (!session.json) return session.say(weir::to_text(report));
  const std::string line = weir::to_json(report) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

/// As WEIR_CHECK asks for it. `json` and `known`: the files of the findings and of those that are known.
std::string asked_of_program(const weir::CheckOptions& how, const std::string& json, const std::string& known) {
  std::string list =
      fmt::format("collect,exit=0,json={},max={},host_order={}", json, how.max_findings, weir::to_text(how.host_order));
  if (how.hints) list += ",hints";
  if (!how.suppressions.empty()) list += ",suppress=" + known;
  return list;
}

/// Known findings that cannot be read are told before the program does anything.
void try_suppressions(const weir::CheckOptions& how) {
  const weir::Recording nothing;
  try {
    weir::ScenarioChecker(nothing, how, {}, {}, {});
  } catch (const weir::Error& error) {
    throw UsageError(error.what());
  }
}

/// The program has its checker in it, and what that found is told when it has ended.
Exit check_program(const Session& session, const Options& options) {
  if (!options.files.empty()) throw UsageError(fmt::format("{}: either files or a program", options.files.front()));
  const weir::CheckOptions how = check_options(session, options);
  try_suppressions(how);
  const TemporaryFile found(".json"), known(".txt");
  std::ofstream(known.path(), std::ios::binary) << how.suppressions;
  Switches switches = {{"WEIR_CHECK", asked_of_program(how, found.path(), known.path())}};
  if (!session.device_name.empty()) switches.emplace_back("WEIR_DEVICE", session.device_name);
  const int exit_code = run_program(session.program, switches);
  std::optional<weir::CheckReport> report = read_findings(found.path());
  if (!report) throw std::runtime_error(left_nothing(session.program.front(), exit_code, "checked"));
  report->program = session.program.front();
  report->program_exit = exit_code;
  print(session, *report);
  return report->errors > 0 ? Exit::wrong : exit_code != 0 ? Exit::failed : Exit::ok;
}

Exit check(const Session& session, const Options& options) {
  if (!session.program.empty()) return check_program(session, options);
  if (options.files.empty()) throw UsageError("FILE is required, or -- PROGRAM (see weir check --help)");
  const weir::CheckOptions how = check_options(session, options);
  const std::vector<weir::Recording> recordings = load_scenarios(options.files);
  const std::string device = session.device_name.empty() ? "cpu" : session.device_name;
  split_cpu(device, recordings);
  bool errors = false, failed = false;
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    weir::RunResult result;
    weir::CheckReport report;
    try {
      weir::ScenarioChecker checker(recordings[i], how, options.files[i], device, {});
      result = run_loaded(recordings[i], {.device = device, .file = options.files[i], .costs = false}, &checker);
      report = checker.report();
    } catch (const weir::Error& error) {
      if (error.errc() == weir::Errc::invalid_value) throw UsageError(error.what());
      throw;
    }
    errors = errors || report.errors > 0;
    failed = failed || !result.failures.empty();
    for (const std::string& failure : result.failures)
      fmt::print(stderr, "weir: {}: {}\n", for_terminal(options.files[i]), for_terminal(failure));
    print(session, report);
  }
  return errors ? Exit::wrong : failed ? Exit::failed : Exit::ok;
}

}  // namespace

void add_check(const Command& app, Session& session) {
  const Command command = app.add("check", "Finds uses of memory that nothing orders, and the line that mends them");
  const auto options = std::make_shared<Options>();
  command.operands("FILE", options->files, "scenario files, plain or gzip");
  add_common_options(command, session);
  command.flag("--hints", options->hints, "also waits that order nothing");
  command.name("--host-order", options->host_order, "ORDER",
               "what orders host threads: declared (hand-offs alone; the default for files) or observed (the order of "
               "the calls; for programs)");
  command.name("--suppress", options->suppressions, "FILE",
               "findings that are known: kind buffer second first  # reason");
  command.name_number("--max", options->most, "N", "findings to tell; 0: all, the default with --json (else 1000)");
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return check(session, *options); };
  });
}

}  // namespace tool
