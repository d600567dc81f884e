// `weir predict`: how long a scenario file or a program takes on a device that is not here.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <weir/error.hpp>
#include <weir/recording.hpp>
#include <weir/sim.hpp>

#include "files.hpp"
#include "prediction.hpp"
#include "program.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> set;
  std::vector<std::string> expect;
  std::string timeline;
  bool by_bytes = false;
};

constexpr const char* footer =
    "weir predict [options] -- PROGRAM ARGS... runs a program as it is, records what it asks of Weir, and predicts "
    "that. Its\n"
    "kernels last as long as the bytes of their uses take.\n"
    "\n"
    "Of a FILE nothing is run: a model of the device says when each command begins and ends. docs/simulation.md tells "
    "what is\n"
    "modelled, how well, and all fields of profiles. Devices: sim:h200, sim:fermi-1-engine, sim:kepler-2-engines,\n"
    "sim:cc30, or sim:FILE.json.\n"
    "\n"
    "  --set link.h2d_gb_s=110 --set sms=66 --set copy_engines=1\n"
    "  --expect 'overlap(h2d, kernel) >= 0.8' --expect 'makespan <= 7 ms'\n"
    "\n"
    "Exit codes: 0, 1 an expectation is not met, 2 the command line or a file is wrong, 3 the program failed.";

/// The profile that a device's name means.
std::string profile_of(const std::string& device) {
  constexpr std::string_view prefix = "sim:";
  if (!std::string_view(device).starts_with(prefix))
    throw UsageError(fmt::format("--device {}: it is sim:PROFILE, such as sim:h200, or sim:FILE.json", device));
  std::string profile = device.substr(prefix.size());
  // Devices of one profile are alike.
  const std::size_t colon = profile.rfind(':');
  if (colon != std::string::npos && profile.find_first_not_of("0123456789", colon + 1) == std::string::npos)
    profile.resize(colon);
  return profile;
}

weir::sim::Prediction predicted(const weir::Recording& recording, const weir::sim::PredictOptions& options) {
  try {
    return weir::sim::predict(recording, options, {});
  } catch (const weir::Error& error) {
    if (error.errc() == weir::Errc::invalid_value) throw UsageError(error.what());
    throw;
  }
}

Exit predict(const Session& session, const Options& options) {
  const bool runs = !session.program.empty();
  if (runs && !options.files.empty())
    throw UsageError(fmt::format("{}: either a file or a program", options.files.front()));
  if (!runs && options.files.empty()) throw UsageError("FILE is required, or -- PROGRAM (see weir predict --help)");
  if (options.files.size() > 1) throw UsageError(fmt::format("{}: one file at a time", options.files[1]));
  if (!options.timeline.empty()) check_timeline(options.timeline);
  const std::string device = session.device_name.empty() ? "sim:h200" : session.device_name;
  weir::sim::PredictOptions how{profile_of(device), {}, true, runs || options.by_bytes};
  weir::sim::PredictOptions plain{how.profile, {}, false, how.by_bytes};
  try {
    for (const std::string& set : options.set) how.set.push_back(weir::sim::parse_setting(set, {}));
    for (const std::string& expectation : options.expect) weir::sim::unmet({}, expectation, {});
  } catch (const weir::Error& error) {
    throw UsageError(error.what());
  }
  LoadedProgram ended{weir::Recording(), 0};
  std::vector<weir::Recording> files;
  if (runs) {
    ended = run_and_load(session.program, {}, "predicted");
  } else {
    files = load_scenarios(options.files);
  }
  const weir::Recording& recording = runs ? ended.recording : files.front();
  const weir::sim::Prediction prediction = predicted(recording, how);
  const Predicted shown{recording, prediction, runs ? session.program.front() : options.files.front(), device};
  if (session.json) {
    const std::string line = to_json(shown) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  } else if (how.set.empty()) {
    session.say(to_text(shown, nullptr));
  } else {
    const weir::sim::Prediction as_it_is = predicted(recording, plain);
    session.say(to_text(shown, &as_it_is));
  }
  if (!options.timeline.empty()) write_timeline(shown, options.timeline);
  Exit code = ended.code == 0 ? Exit::ok : Exit::failed;
  for (const std::string& expectation : options.expect) {
    const std::string instead = weir::sim::unmet(prediction, expectation, {});
    if (instead.empty()) continue;
    fmt::print(stderr, "weir: --expect '{}' is not met: {}\n", expectation, instead);
    code = Exit::wrong;
  }
  return code;
}

}  // namespace

void add_predict(const Command& app, Session& session) {
  const Command command = app.add("predict", "Predicts how long a scenario takes on a GPU that is not here");
  const auto options = std::make_shared<Options>();
  command.operands("FILE", options->files, "a scenario file, plain or gzip");
  command.name("--device", session.device_name, "NAME", "sim:PROFILE or sim:FILE.json; left out: sim:h200");
  command.flag("--json", session.json, "Write JSON for programs instead of text for people");
  command.flag("--by-bytes", options->by_bytes,
               "kernels last as the bytes that they use take, as for a recording of a CPU");
  command.names("--set", options->set, "FIELD=NUMBER", "what if: a field of the profile is another; may be repeated");
  command.names("--expect", options->expect, "TEXT", "exit 1 unless it holds; may be repeated");
  command.name("--timeline", options->timeline, "FILE", "write trace events (.json) or a picture (.svg)");
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return predict(session, *options); };
  });
}

}  // namespace tool
