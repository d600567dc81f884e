// `weir trace`: records a timeline of a program, and says what overlapped, what did not and why, and what became slower.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

#include "files.hpp"
#include "program.hpp"
#include "session.hpp"
#include "temporary_file.hpp"
#include "trace_cuda.hpp"

namespace tool {

namespace {

using weir::trace::Timeline;

struct Options {
  std::string output;
  std::string file;
  std::string other;
  std::string fail_if;
  std::vector<std::string> files;
  bool cuda = false;
  bool graph_nodes = false;
};

constexpr const char* footer =
    "Examples:\n"
    "  weir trace -o run.html -- ./pipeline --frames 10   a page that opens in a browser\n"
    "  weir trace -o run.json -- ./pipeline               for Perfetto, chrome://tracing and the commands above\n"
    "  weir trace --cuda -o run.html -- python3 train.py  any program that uses CUDA\n"
    "  weir trace explain run.json                        what held commands, and what to change\n"
    "  weir trace diff before.json after.json --fail-if 'makespan > 1.05x'\n"
    "\n"
    "Programs start without the tool, too: WEIR_TRACE=run.html ./pipeline. docs/timeline.md tells what is recorded.";

Timeline load(const std::string& file) {
  try {
    return weir::trace::load(file, {}, {});  // where the tool stands in its source is no news
  } catch (const weir::Error& error) {
    if (error.errc() != weir::Errc::invalid_value) throw;
    throw UsageError(error.what());
  }
}

/// A process of the program, as it said itself.
struct TracedProcess {
  std::string number;
  std::string file;
  bool ended = false;  ///< by exit(): its file is whole
};
/// src/start/tools.cpp writes it.
std::vector<TracedProcess> read_report(const std::string& path) {
  std::vector<TracedProcess> made;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, number, rest;
    words >> what >> number;
    if (what == "process" && std::getline(words >> std::ws, rest)) made.push_back({number, rest});
    if (what != "ended") continue;
    for (TracedProcess& one : made) one.ended = one.ended || one.number == number;
  }
  return made;
}

void tell(const TracedProcess& one, bool is_first, const std::vector<std::string>& program, int code) {
  if (!is_first) fmt::print(stderr, "weir: another process that called Weir: {}\n", one.file);
  if (one.ended) return;
  const std::string who = is_first ? fmt::format("{} (exit code {})", program.front(), code) : "it";
  fmt::print(stderr,
             "weir: {} did not end by exit(): {} has what was recorded until it was last written, at most a second or "
             "so before\n",
             who, one.file);
}

Exit record(const Session& session, const Options& options) {
  if (options.output.empty()) throw UsageError("-o FILE is required (see weir trace --help)");
  if (session.program.empty()) throw UsageError("-- PROGRAM is required (see weir trace --help)");
  if (options.cuda && !session.device_name.empty()) {
    throw UsageError("--device is for programs that use Weir, not with --cuda");
  }
  if (options.cuda) return trace_cuda(session.program, {options.output, options.graph_nodes});
  if (options.graph_nodes) throw UsageError("--graph-nodes belongs to --cuda (see weir trace --help)");
  const std::string output = std::filesystem::absolute(options.output);
  check_writable("-o", output);  // before anything runs
  const TemporaryFile report(".txt");
  Switches switches = {{"WEIR_TRACE", output}, {"WEIR_TRACE_REPORT", report.path()}};
  if (!session.device_name.empty()) switches.emplace_back("WEIR_DEVICE", session.device_name);
  const int code = run_program(session.program, switches);
  const std::vector<TracedProcess> processes = read_report(report.path());
  for (const TracedProcess& one : processes) tell(one, one.file == processes.front().file, session.program, code);
  if (processes.empty()) {
    const std::string nothing = fmt::format("{} made no call of Weir: nothing was recorded", session.program.front());
    if (code == 0) throw std::runtime_error(nothing);
    fmt::print(stderr, "weir: {}\n", nothing);
  }
  return static_cast<Exit>(code);
}

/// Prints what is made of a file, for people or as JSON.
template <class Make>
Exit print(const Session& session, const std::string& file, const Make& make) {
  const Timeline timeline = load(file);
  const auto made = make(timeline);
  session.print_text(session.json ? to_json(made, timeline) + "\n" : to_text(made, timeline));
  return Exit::ok;
}

Exit merge(const Options& options) {
  if (options.output.empty()) throw UsageError("-o FILE is required (see weir trace merge --help)");
  std::vector<Timeline> timelines;
  std::vector<std::string> names;
  for (const std::string& file : options.files) {
    timelines.push_back(load(file));
    names.push_back(std::filesystem::path(file).stem().string());
  }
  try {
    save(weir::trace::merge(timelines, names, {}), options.output, {});
  } catch (const weir::Error& error) {
    throw UsageError(error.what());
  }
  return Exit::ok;
}

Exit diff(const Session& session, const Options& options) {
  const weir::trace::Difference difference = compare(load(options.file), load(options.other));
  bool failed = false;
  if (!options.fail_if.empty()) {
    try {
      failed = holds(options.fail_if, difference, {});
    } catch (const weir::Error& error) {
      throw UsageError(fmt::format("--fail-if {}", error.what()));
    }
  }
  session.print_text(session.json ? to_json(difference) + "\n" : to_text(difference));
  if (failed) session.say(fmt::format("\nFailed: {}\n", options.fail_if));
  return failed ? Exit::wrong : Exit::ok;
}

}  // namespace

void add_trace(const Command& app, Session& session) {
  const Command command =
      app.add("trace", "When each command of a program ran, what overlapped, and why the rest did not");
  const auto options = std::make_shared<Options>();
  command.name("-o,--output", options->output, "FILE", "where to write it: .html, .json or .pftrace");
  command.flag("--cuda", options->cuda, "any program that uses CUDA, by CUPTI: PyTorch, CuPy, Numba, plain CUDA");
  command.flag("--graph-nodes", options->graph_nodes,
               "with --cuda: each node of a CUDA graph by itself, which costs more");
  command.takes_command();
  add_common_options(command, session);
  command.footer(footer);

  const auto add = [&](const char* name, const char* what, std::function<Exit()> run) {
    const Command verb = command.add(name, what);
    verb.operand("FILE", options->file, "a timeline that was written as JSON");
    verb.flag("--json", session.json, "Write JSON for programs instead of text for people");
    verb.when_given([&session, run = std::move(run)] { session.run = run; });
    return verb;
  };
  add("summary", "How long what was busy, what overlapped, the critical path",
      [&session, options] { return print(session, options->file, weir::trace::summarize); });
  add("explain", "What held commands, the dearest first, and what to change",
      [&session, options] { return print(session, options->file, weir::trace::explain); });
  const Command two = add("diff", "What became slower between two runs, and why",
                          [&session, options] { return diff(session, *options); });
  two.operand("OTHER", options->other, "the timeline of the later run");
  two.name("--fail-if", options->fail_if, "CONDITION",
           "Exit code 1 if it holds: \"makespan > 1.05x\", \"idle > 2 ms\"; of makespan, busy, idle, critical, "
           "host_waited, submission");
  const Command all = command.add("merge", "Timelines of several processes as one, on one clock");
  all.operands("FILE", options->files, "timelines, one for each rank");
  all.name("-o,--output", options->output, "FILE", "where to write it: .html, .json or .pftrace");
  all.when_given([&session, options] { session.run = [options] { return merge(*options); }; });
  command.when_given([&session, command, options] {
    if (command.command_given()) return;
    session.takes_program = true;
    session.run = [&session, options] { return record(session, *options); };
  });
}

}  // namespace tool
