// `weir record`: keeps what a program, or a scenario, asks of Weir, as a scenario file.
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <weir/error.hpp>
#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "files.hpp"
#include "program.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::string output;
  std::vector<std::string> files;
};

constexpr const char* footer =
    "Examples:\n"
    "  weir record -o run.json.gz -- ./pipeline --frames 10\n"
    "  weir record -o again.json FILE.json\n"
    "\n"
    "FILE is packed if its name ends in .gz. How long commands lasted becomes their cost. Programs start without the "
    "tool,\n"
    "too: WEIR_RECORD=FILE ./pipeline. docs/scenarios.md has the format; `weir run FILE` makes the calls again.";

Exit record_started(const Session& session, const std::string& output) {
  const RecordedProgram ended = record_program(session.program, output, session.device_name);
  if (!ended.recorded) {
    const std::string nothing =
        fmt::format("{} made no call of Weir, or did not end by exit(): nothing was recorded", session.program.front());
    if (ended.code == 0) throw std::runtime_error(nothing);
    fmt::print(stderr, "weir: {}\n", nothing);
  }
  return static_cast<Exit>(ended.code);
}

Exit record_scenario(const Session& session, const std::string& output, const std::string& file) {
  const std::string device = session.device_name.empty() ? "cpu" : session.device_name;
  const std::vector<weir::Recording> scenarios = load_scenarios({file});
  split_cpu(device, scenarios);
  weir::Recorder recorder;
  const weir::RunResult result = run_loaded(scenarios.front(), {.device = device, .file = file});
  const weir::Recording recording = recorder.finish();
  weir::save(recording, output);
  session.say(fmt::format("{}: {} commands recorded, {} refused\n", output, recording.size(), result.misuse.size()));
  return Exit::ok;
}

Exit record(const Session& session, const Options& options) {
  if (options.output.empty()) throw UsageError("-o FILE is required (see weir record --help)");
  if (session.program.empty() == options.files.empty()) {
    throw UsageError("either one scenario file is required, or -- PROGRAM (see weir record --help)");
  }
  if (options.files.size() > 1) throw UsageError("one scenario file at a time");
  const std::string output = std::filesystem::absolute(options.output);
  check_writable("-o", output);  // before anything runs
  return session.program.empty() ? record_scenario(session, output, options.files.front())
                                 : record_started(session, output);
}

}  // namespace

void add_record(const Command& app, Session& session) {
  const Command command = app.add("record", "Keeps what a program asks of Weir, as a scenario file");
  const auto options = std::make_shared<Options>();
  command.operands("SCENARIO", options->files, "a scenario file, instead of a program");
  command.name("-o,--output", options->output, "FILE", "where to save it");
  add_common_options(command, session);
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return record(session, *options); };
  });
}

}  // namespace tool
